//! Rows into the table, within a transaction of the caller.
//!
//! ```text
//! without a key   rows ─ COPY ─▶ table
//! with a key      rows ─ COPY ─▶ temporary table ─ INSERT … ON CONFLICT ─▶ table
//!                                numbered            the last of each key
//! ```
//!
//! Invariant: binary rows carry no types, so sent rows count only if the table's columns are still those
//! they were encoded for; the sender holds a lock under which they stay so.

use super::column_mapping::TargetColumn;
use super::encode::{END, HEAD};
use super::fault::database_error;
use super::name::{TableName, list, literal, quoted};
use super::session::last_row;
use bytes::Bytes;
use futures_util::SinkExt;
use std::pin::pin;
use tidemill_flow::{ErrorKind, SinkError};
use tidemill_types::Cycle;
use tokio_postgres::Client;

/// Most bytes of a message.
const PIECE_BYTES: usize = 256 << 10;
/// The column of a row's number in the temporary table.
const NUMBER: &str = "__tidemill_number";

/// Encoded rows of a cycle that is not committed.
#[derive(Debug)]
pub(super) struct PendingCycle {
    pub(super) cycle: Cycle,
    pub(super) bytes: Vec<u8>,
}

/// The statements.
#[derive(Debug)]
pub(super) struct Load {
    copy: String,
    merge: Option<Merge>,
    /// Asks for the types of the columns.
    ask: String,
    /// The types that they are encoded for.
    types: String,
}

#[derive(Debug)]
struct Merge {
    make: String,
    insert: String,
}

impl Load {
    /// Of rows with these columns; `life` is a name that no other process has.
    pub(super) fn new(
        table: &TableName,
        columns: &[TargetColumn],
        key: &[String],
        life: &str,
    ) -> Self {
        let names = list(columns.iter().map(|it| it.name.as_str()));
        let (ask, types) = (asking(table, columns), String::new());
        if key.is_empty() {
            let copy = format!("COPY {} ({names}) FROM STDIN BINARY", table.sql());
            return Self { copy, merge: None, ask, types };
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
        Self { copy, merge: Some(Merge { make, insert }), ask, types }
    }

    /// The types of the columns as they are now.
    pub(super) async fn types(&self, client: &Client) -> Result<String, SinkError> {
        let answer = client.simple_query(&self.ask).await.map_err(database_error)?;
        let types = last_row(&answer).and_then(|row| row.into_iter().next().flatten());
        Ok(types.unwrap_or_default())
    }

    /// Rows are encoded for these.
    pub(super) fn encoded_for(self, types: String) -> Self {
        Self { types, ..self }
    }

    async fn are_those(&self, client: &Client) -> Result<(), SinkError> {
        let now = self.types(client).await?;
        if now == self.types {
            return Ok(());
        }
        Err(SinkError::of_kind(
            ErrorKind::Invalid,
            format!(
                "its columns are `{now}` now, and were `{}` when the job began to write; resumed, the job \
             writes what fits them",
                self.types
            ),
        ))
    }

    /// Returns true if each row carries its number.
    pub(super) fn is_numbered(&self) -> bool {
        self.merge.is_some()
    }

    /// Writes the rows.
    pub(super) async fn run(
        &self,
        client: &Client,
        ready: &[PendingCycle],
    ) -> Result<(), SinkError> {
        match self.send(client, ready).await {
            Ok(()) => self.are_those(client).await,
            // The server's words for bytes of another type say nothing of types.
            Err(error) if !error.is_retry() && client.batch_execute("ROLLBACK").await.is_ok() => {
                self.are_those(client).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn send(&self, client: &Client, ready: &[PendingCycle]) -> Result<(), SinkError> {
        if let Some(merge) = &self.merge {
            client.batch_execute(&merge.make).await.map_err(database_error)?;
        }
        let mut copy = pin!(client.copy_in::<_, Bytes>(&self.copy).await.map_err(database_error)?);
        copy.feed(Bytes::from_static(HEAD)).await.map_err(database_error)?;
        for piece in ready.iter().flat_map(|it| it.bytes.chunks(PIECE_BYTES)) {
            copy.feed(Bytes::copy_from_slice(piece)).await.map_err(database_error)?;
        }
        copy.feed(Bytes::copy_from_slice(&END)).await.map_err(database_error)?;
        copy.finish().await.map_err(database_error)?;
        if let Some(merge) = &self.merge {
            client.batch_execute(&merge.insert).await.map_err(database_error)?;
        }
        Ok(())
    }
}

/// Asks for the names and types of these columns of a table. Only the modifiers
/// of numbers are compared: a longer `varchar` takes all that it took.
fn asking(table: &TableName, columns: &[TargetColumn]) -> String {
    let names: Vec<String> = columns.iter().map(|it| literal(&it.name)).collect();
    format!(
        "SELECT string_agg(attname || ' ' || format_type(atttypid, \
             CASE WHEN atttypid = 'pg_catalog.numeric'::regtype THEN atttypmod ELSE -1 END), \
             ', ' ORDER BY attnum) \
         FROM pg_catalog.pg_attribute \
         WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped AND attname IN ({})",
        literal(&table.sql()),
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    //! The statements.

    use super::super::target::PostgresType;
    use super::*;

    fn columns() -> Vec<TargetColumn> {
        let column = |name: &str, index| TargetColumn {
            name: name.to_owned(),
            index,
            target: PostgresType::Int8,
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
