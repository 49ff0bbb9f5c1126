//! A table as the catalog has it, and the statement that makes one.

use super::column_mapping::TargetColumn;
use super::name::{TableName, list, quoted};
use super::target::PostgresType;
use arrow_schema::Schema;
use tokio_postgres::{Client, Error};

/// A table that is there.
#[derive(Clone, Debug)]
pub(super) struct TableDescription {
    /// True if rows can be copied to it: it is a table and not a view.
    pub(super) is_table: bool,
    /// True if a crash of the server empties it.
    pub(super) is_unlogged: bool,
    pub(super) columns: Vec<TableColumn>,
    /// Columns of each unique index, in no order.
    pub(super) unique: Vec<Vec<String>>,
}

/// A column of it.
#[derive(Clone, Debug)]
pub(super) struct TableColumn {
    pub(super) name: String,
    /// As a person writes it.
    pub(super) type_name: String,
    /// The values it takes; none if the sink cannot write it.
    pub(super) target: Option<PostgresType>,
    pub(super) not_null: bool,
    /// True if the server has a default for it.
    pub(super) filled: bool,
    /// True if only the server fills it.
    pub(super) generated: bool,
    /// True for an identity that the server fills unless a statement overrides it, and that no statement
    /// changes afterwards.
    pub(super) identity: bool,
}

const TABLE: &str = "SELECT c.oid, c.relkind::text, c.relpersistence::text FROM pg_class c \
    WHERE c.oid = to_regclass($1)";

// The type of a domain is the one below it, which may be a domain too. The innermost has the
// modifier, the outermost has the default of those below if it has none, and each may forbid nulls.
const COLUMNS: &str = "WITH RECURSIVE level AS ( \
        SELECT a.attnum, t.typname, t.typtype, t.typbasetype, t.typtypmod AS below, \
            a.atttypmod AS modifier, t.typnotnull AS not_null \
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
        WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped \
        UNION ALL \
        SELECT l.attnum, t.typname, t.typtype, t.typbasetype, t.typtypmod, \
            l.below, l.not_null OR t.typnotnull \
        FROM level l JOIN pg_type t ON l.typtype = 'd' AND t.oid = l.typbasetype) \
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), \
    l.typname::text, l.typtype::text = 'e', l.modifier, \
    a.attnotnull OR l.not_null, \
    a.atthasdef OR a.attidentity <> '' OR (t.typtype = 'd' AND t.typdefault IS NOT NULL), \
    a.attgenerated <> '', a.attidentity = 'a' \
    FROM level l JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = l.attnum \
    JOIN pg_type t ON t.oid = a.atttypid \
    WHERE l.typtype <> 'd' ORDER BY a.attnum";

const UNIQUE: &str = "SELECT array_agg(a.attname::text) FROM pg_index i \
    JOIN pg_attribute a ON a.attrelid = i.indrelid \
        AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
    WHERE i.indrelid = $1 AND i.indisunique AND i.indimmediate AND i.indisvalid \
        AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid";

/// Looks a table up; none if there is none of that name.
pub(super) async fn look(
    client: &Client,
    name: &TableName,
) -> Result<Option<TableDescription>, Error> {
    let Some(row) = client.query_opt(TABLE, &[&name.sql()]).await? else { return Ok(None) };
    let (oid, kind, persistence): (u32, String, String) = (row.get(0), row.get(1), row.get(2));
    let columns = client.query(COLUMNS, &[&oid]).await?;
    let column = |row: &tokio_postgres::Row| TableColumn {
        name: row.get(0),
        type_name: row.get(1),
        target: PostgresType::of(row.get(2), row.get(3), row.get(4)),
        not_null: row.get(5),
        filled: row.get(6),
        generated: row.get(7),
        identity: row.get(8),
    };
    let unique = client.query(UNIQUE, &[&oid]).await?;
    Ok(Some(TableDescription {
        is_table: matches!(kind.as_str(), "r" | "p" | "f"),
        is_unlogged: persistence == "u",
        columns: columns.iter().map(column).collect(),
        unique: unique.iter().map(|row| row.get(0)).collect(),
    }))
}

/// The statement that makes a table for these columns.
pub(super) fn creation(
    name: &TableName,
    columns: &[TargetColumn],
    schema: &Schema,
    key: &[String],
) -> String {
    let mut parts: Vec<String> = Vec::new();
    for column in columns {
        let made = PostgresType::made_for(schema.field(column.index).data_type());
        let (_, type_name) = made.expect("columns of a table to be made have a type");
        parts.push(format!("{} {type_name}", quoted(&column.name)));
    }
    if !key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", list(key.iter().map(String::as_str))));
    }
    format!("CREATE TABLE {} ({})", name.sql(), parts.join(", "))
}
