//! Faults of a job file's YAML in plain words, each with the expectation.
//!
//! The reader has messages for those who know its grammar: "mapping values are not allowed in this
//! context". A message that is not in the table is shown behind a general one.

use super::tree::{ALIASES_MAX, DEPTH_MAX, ITEMS_MAX};
use crate::diagnostic::{Problem, VALUE_SHOWN_MAX, excerpt};
use serde_saphyr::{Error, budget::BudgetBreach};
use tidemill_types::signs;

#[cfg(test)]
mod tests;

/// A part of the reader's message, the fault in plain words, and the expectation.
type SyntaxFault = (&'static str, &'static str, &'static str);

/// The reader's messages. The first that fits counts.
const FAULTS: &[SyntaxFault] = &[
    (
        "mapping values are not allowed",
        "a `:` where no name can end",
        "one `NAME: VALUE` in a line, the names of a table indented alike, and quotes round a text \
         that has `: ` in it",
    ),
    (
        "illegal placement of ':'",
        "a `:` within a list or a table in brackets",
        "the closing bracket before it",
    ),
    ("unclosed bracket '['", "a list that has no end", "`]`"),
    ("unclosed bracket '{'", "a table that has no end", "`}`"),
    (
        "misplaced bracket",
        "a bracket that closes nothing",
        "an opening bracket before it, or quotes round a text with brackets",
    ),
    (
        "in multiline quoted scalar",
        "a text in quotes that has no end, or whose next line is not indented",
        "the same quote at its end",
    ),
    ("unclosed quote", "a text in quotes that has no end", "the same quote at its end"),
    ("found a tab", "a tab before or in a name", "spaces: YAML is not indented with tabs"),
    ("tabs disallowed", "a tab in the indentation", "spaces"),
    ("tab cannot", "a tab in the indentation", "spaces"),
    ("simple key expected", "a line without `:` among names", "`NAME: VALUE`"),
    (
        "alias references unknown anchor",
        "`*` with a name that no `&` has given",
        "quotes round a text that begins with `*`",
    ),
    (
        "unknown anchor",
        "`*` with a name that no `&` has given",
        "quotes round a text that begins with `*`",
    ),
    (
        "found unknown escape character",
        "an escape that double quotes do not have",
        "`\\\\` for a backslash, or single quotes",
    ),
    (
        "surrogate",
        "half of a character in double quotes",
        "both halves, such as `\\ud83d\\ude00`, or the character itself",
    ),
    (
        "hexadecimal number",
        "an escape in double quotes that is not whole",
        "`\\uXXXX` with four hexadecimal digits",
    ),
    (
        "Unicode character escape",
        "an escape in double quotes that is no character",
        "`\\uXXXX` with four hexadecimal digits",
    ),
    (
        "comment intercepting",
        "a comment within a text of several lines",
        "quotes round the text, or the comment elsewhere",
    ),
    (
        "block sequence entries are not allowed",
        "`- ` where no list can begin",
        "each entry in a line of its own, or `[a, b]`",
    ),
    (
        "invalid trailing content",
        "something behind the closing quote",
        "the end of the line, `:`, `,` or a bracket; a quote within double quotes is written `\\\"`",
    ),
    (
        "flow mapping",
        "a list or a table in brackets with a part missing",
        "parts with one comma between, and the closing bracket",
    ),
    (
        "flow sequence",
        "a list in brackets with a part missing",
        "entries with one comma between, and the closing bracket",
    ),
    (
        "BOM must not appear",
        "a byte order mark (U+FEFF) within the text",
        "none, or one as the first character of the file",
    ),
    ("<document start>", "something behind the end of the value", "one table of names and values"),
    (
        "block scalar",
        "a text behind `|` or `>` that is not indented as it says",
        "all of its lines indented alike, by more than its name",
    ),
    ("directive", "a line that begins with `%`, and is none that is read", "quotes round a text"),
    ("YAML major version", "a version of YAML that is not read", "no such line, or `%YAML 1.2`"),
    (
        "did not find expected key",
        "a line that is indented unlike those above it",
        "the names of a table indented alike",
    ),
    (
        "did not find expected '-'",
        "a line that is indented unlike the list above it",
        "`- ` under `- `",
    ),
];

/// The problem of a text that the reader refuses.
pub(super) fn syntax_problem(error: &Error) -> Problem {
    let mut inner = error;
    while let Error::AliasError { error, .. } = inner {
        inner = error;
    }
    let problem = |message: &str| Problem::new::<String>([], message);
    match inner {
        Error::Budget { breach, .. } => problem(&over_budget(breach)),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            let key = excerpt(key, VALUE_SHOWN_MAX);
            problem(&format!("the name `{key}` stands twice in one table"))
        }
        Error::DuplicateMappingKey { key: None, .. } => problem("a name stands twice in one table"),
        Error::NonFiniteFloat { value, .. } => {
            let value = excerpt(value, VALUE_SHOWN_MAX);
            problem(&format!("`{value}` is no finite number"))
                .expected("a number, or quotes round a text")
        }
        Error::NullIntoString { .. } => {
            problem("a table has nothing as a name").expected("a name; in quotes, if it is `null`")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            problem("a value that `*` puts into itself").expected("a value without itself")
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            problem("`<<` without a table").expected("`<<: *NAME`, the name of a table")
        }
        Error::InvalidScalar { .. }
        | Error::InvalidBinaryBase64 { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::UnsupportedTag { .. } => problem("a value that is not of the type that `!` names")
            .expected("the value without a tag, such as `!!int`"),
        _ => of_message(&plain(error)),
    }
}

fn over_budget(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => {
            format!("lists and tables are nested more than {DEPTH_MAX} deep")
        }
        BudgetBreach::Documents { .. } => "a job is one YAML document".to_owned(),
        _ => format!(
            "the job is too large: at most {ITEMS_MAX} values and {ALIASES_MAX} aliases, what an \
             alias repeats counted"
        ),
    }
}

/// The reader's message without its own note of the place.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    text.lines().next().unwrap_or(text).trim_start_matches("error: ").trim().to_owned()
}

/// The problem that a message of the reader is about.
fn of_message(text: &str) -> Problem {
    let problem = |message: String| Problem::new::<String>([], message);
    if let Some(rest) = text.strip_prefix("unexpected character: `") {
        return stray(rest.strip_suffix('\'').unwrap_or(rest));
    }
    if text == "expected string scalar" {
        return problem("a list or a table as a name".to_owned()).expected("text");
    }
    match FAULTS.iter().find(|(part, _, _)| text.contains(part)) {
        Some((_, fault, expected)) => problem((*fault).to_owned()).expected(*expected),
        None => problem(format!("this is not YAML ({text})")).expected(
            "names of a table indented alike, lists with `- `, and quotes round texts with signs \
             that YAML has a meaning for",
        ),
    }
}

/// A character that cannot stand where it does, as the reader names it.
fn stray(shown: &str) -> Problem {
    let code = shown.strip_prefix("\\u{").and_then(|it| it.strip_suffix('}'));
    let escaped = code.and_then(|it| u32::from_str_radix(it, 16).ok()).and_then(char::from_u32);
    match escaped.or_else(|| shown.chars().next()) {
        Some(sign) if signs::unseen(&sign.to_string(), None).is_some() => {
            let code = u32::from(sign);
            let message = format!("the character U+{code:04X}, which YAML does not take as it is");
            Problem::new::<String>([], message)
                .expected(format!("no such character, or `\\u{code:04x}` in double quotes"))
        }
        Some(sign) => Problem::new::<String>([], format!("a text that begins with `{sign}`"))
            .expected("quotes round it"),
        None => Problem::new::<String>([], "a character that cannot stand here"),
    }
}
