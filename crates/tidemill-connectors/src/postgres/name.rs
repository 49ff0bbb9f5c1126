//! Quoted SQL names: the names of a job file are taken literally.

use std::fmt;

/// The server cuts longer names off without a word, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// A table, and the schema that it is in if the job names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableName {
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

impl TableName {
    /// Reads `NAME` or `SCHEMA.NAME`; a part in double quotes may have dots in it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            let (part, after) = part(rest).ok_or_else(|| {
                format!("`table: {text}` is no name of a table; it is `NAME` or `SCHEMA.NAME`")
            })?;
            check(&part)?;
            parts.push(part);
            match after {
                Some(after) => rest = after,
                None => break,
            }
        }
        let name = parts.pop().unwrap_or_default();
        match parts.as_mut_slice() {
            [] => Ok(Self { schema: None, name }),
            [schema] => Ok(Self { schema: Some(std::mem::take(schema)), name }),
            _ => Err(format!(
                "`table: {text}` has more than two parts; it is `NAME` or `SCHEMA.NAME`, and the \
                 database is the one of `url`"
            )),
        }
    }

    /// A table of this name in the same schema.
    pub(super) fn beside(&self, name: &str) -> Self {
        Self { schema: self.schema.clone(), name: name.to_owned() }
    }

    /// The table of this name in this schema.
    pub(super) fn within(&self, schema: &str) -> Self {
        Self { schema: Some(schema.to_owned()), name: self.name.clone() }
    }

    /// As it stands in a statement.
    pub(super) fn sql(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(&self.name)),
            None => quoted(&self.name),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The first part, and the text after its dot.
fn part(text: &str) -> Option<(String, Option<&str>)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (part, after) = match text.split_once('.') {
            Some((part, after)) => (part, Some(after)),
            None => (text, None),
        };
        let fits = !part.is_empty() && !part.contains('"') && part.trim() == part;
        return fits.then(|| (part.to_owned(), after));
    };
    let mut part = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            part.push(c);
        } else if chars.next_if(|(_, next)| *next == '"').is_some() {
            part.push('"');
        } else {
            let rest = &quoted[at + 1..];
            let after = rest.strip_prefix('.');
            let fits = !part.is_empty() && (after.is_some() || rest.is_empty());
            return fits.then_some((part, after));
        }
    }
    None
}

/// Checks that a name is possible.
pub(super) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('\0') {
        return Err("an empty name, or one with a NUL byte, can be no name in a table".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "`{name}` is longer than the {NAME_BYTES_MAX} bytes that a name in PostgreSQL can \
             have: rename it with `select`"
        ));
    }
    Ok(())
}

/// A name as it stands in a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Several, with commas between them.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// A text as it stands in a statement, whatever the server takes a backslash for.
pub(super) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    //! Names as people write them, and names that would be statements.

    use super::*;

    #[test]
    fn names_are_taken_as_they_are_written() {
        let check = |text: &str, sql: &str| {
            assert_eq!(TableName::parse(text).map(|it| it.sql()), Ok(sql.to_owned()));
        };
        check("t", r#""t""#);
        check("s.Rows", r#""s"."Rows""#);
        check(r#""a.b"."c""d""#, r#""a.b"."c""d""#);
        check("t; drop table x", r#""t; drop table x""#);
        assert_eq!(literal(r"a'b\"), r"E'a''b\\'");
        assert_eq!(list(["a", "B"]), r#""a", "B""#);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ".", "a.", ".a", "a.b.c", "\"a", "\"\"", "a\"b", " a", "\"a\"b"] {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        assert!(TableName::parse(&"x".repeat(64)).unwrap_err().contains("63 bytes"));
        assert!(TableName::parse(&"x".repeat(63)).is_ok());
    }
}
