//! Rows into the table, within a transaction that somebody else begins and ends.
//!
//! ```text
//! without a key   rows ─ COPY ─▶ table
//! with a key      rows ─ COPY ─▶ temporary table ─ INSERT … ON CONFLICT ─▶ table
//!                                numbered            the last of each key
//! ```

use super::encode::{END, HEAD};
use super::fit::Column;
use super::name::{TableName, list, quoted};
use super::trouble::Trouble;
use postgres::Client;
use std::io::Write;
use tidemill_types::Cycle;

/// Most bytes of a message.
const PIECE_BYTES: usize = 256 << 10;
/// The column of a row's number in the temporary table.
const NUMBER: &str = "__tidemill_number";

/// Encoded rows of a cycle that is not committed.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) cycle: Cycle,
    pub(super) bytes: Vec<u8>,
}

/// The statements.
#[derive(Debug)]
pub(super) struct Load {
    copy: String,
    merge: Option<Merge>,
}

#[derive(Debug)]
struct Merge {
    make: String,
    insert: String,
}

impl Load {
    /// Of rows with these columns; `life` is a name that no other process has.
    pub(super) fn new(table: &TableName, columns: &[Column], key: &[String], life: &str) -> Self {
        let names = list(columns.iter().map(|it| it.name.as_str()));
        if key.is_empty() {
            let copy = format!("COPY {} ({names}) FROM STDIN BINARY", table.sql());
            return Self { copy, merge: None };
        }
        // It is the session's: a pool may give the session to others, who have another life.
        let rows = format!("pg_temp.{}", quoted(&format!("tidemill_rows_{life}")));
        let number = quoted(NUMBER);
        let make = format!(
            "CREATE TEMPORARY TABLE IF NOT EXISTS {rows} ON COMMIT DELETE ROWS AS \
             SELECT {names}, 0::bigint AS {number} FROM {} WITH NO DATA",
            table.sql()
        );
        let keys = list(key.iter().map(String::as_str));
        let set: Vec<String> = columns
            .iter()
            .filter(|it| !key.contains(&it.name))
            .map(|it| format!("{0} = excluded.{0}", quoted(&it.name)))
            .collect();
        let action = match set.as_slice() {
            [] => "NOTHING".to_owned(),
            set => format!("UPDATE SET {}", set.join(", ")),
        };
        // `COPY` overrides identities, and so does this; it means nothing for other columns.
        let insert = format!(
            "INSERT INTO {} ({names}) OVERRIDING SYSTEM VALUE SELECT DISTINCT ON ({keys}) {names} FROM {rows} \
             ORDER BY {keys}, {number} DESC ON CONFLICT ({keys}) DO {action}",
            table.sql()
        );
        let copy = format!("COPY {rows} ({names}, {number}) FROM STDIN BINARY");
        Self { copy, merge: Some(Merge { make, insert }) }
    }

    /// Whether each row carries its number.
    pub(super) fn is_numbered(&self) -> bool {
        self.merge.is_some()
    }

    /// Writes the rows.
    pub(super) fn run(&self, client: &mut Client, ready: &[Pending]) -> Result<(), Trouble> {
        if let Some(merge) = &self.merge {
            client.batch_execute(&merge.make)?;
        }
        let mut writer = client.copy_in(&self.copy)?;
        writer.write_all(HEAD)?;
        for piece in ready.iter().flat_map(|it| it.bytes.chunks(PIECE_BYTES)) {
            writer.write_all(piece)?;
        }
        writer.write_all(&END)?;
        writer.finish()?;
        if let Some(merge) = &self.merge {
            client.batch_execute(&merge.insert)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! The statements.

    use super::super::target::Target;
    use super::*;

    fn columns() -> Vec<Column> {
        let column = |name: &str, index| Column {
            name: name.to_owned(),
            index,
            target: Target::Int8,
            required: false,
        };
        vec![column("a", 0), column("B", 1)]
    }

    #[test]
    fn statements_name_what_they_write_in_quotes() {
        let table = TableName::parse("s.t").unwrap();
        let load = Load::new(&table, &columns(), &[], "1f");
        assert_eq!(load.copy, r#"COPY "s"."t" ("a", "B") FROM STDIN BINARY"#);
        assert!(!load.is_numbered());

        let load = Load::new(&table, &columns(), &["a".to_owned()], "1f");
        let merge = load.merge.expect("there is a key");
        let head = r#"INSERT INTO "s"."t" ("a", "B") OVERRIDING SYSTEM VALUE SELECT DISTINCT"#;
        assert!(merge.insert.starts_with(head), "{}", merge.insert);
        assert!(merge.insert.ends_with(
            r#"ORDER BY "a", "__tidemill_number" DESC ON CONFLICT ("a") DO UPDATE SET "B" = excluded."B""#
        ));
        let all = ["a".to_owned(), "B".to_owned()];
        let merge = Load::new(&table, &columns(), &all, "1f").merge.expect("there is a key");
        assert!(merge.insert.ends_with(r#"ON CONFLICT ("a", "B") DO NOTHING"#));
    }
}
