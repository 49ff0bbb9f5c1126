//! Tables of PostgreSQL databases, as sinks.

use super::secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A table of a PostgreSQL database that a job writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostgresSinkSpec {
    /// Where the database is: `postgresql://USER@HOST:PORT/DATABASE`, and after a `?` parameters
    /// such as `sslmode=verify-full` and `sslrootcert=FILE`.
    pub url: DatabaseUrl,
    /// The table: `NAME` or `SCHEMA.NAME`, as it is written, capitals and all.
    pub table: String,
    /// The table is made when the job starts, if it is not there (default true).
    #[serde(default = "yes")]
    pub create: bool,
    /// Columns that name a row: a row whose key is there already replaces that row. Without them
    /// rows are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// The environment variable that holds the password, if the URL has none (default
    /// `PGPASSWORD`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
}

fn yes() -> bool {
    true
}

/// An address that may have a password in it, which is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DatabaseUrl(pub String);

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", secret::masked(&self.0))
    }
}

#[cfg(test)]
mod tests {
    //! The part of it that a person may see.

    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let url = DatabaseUrl("postgresql://u:hunter2@h/db".to_owned());
        assert_eq!(format!("{url:?}"), r#""postgresql://u:***@h/db""#);
    }
}
