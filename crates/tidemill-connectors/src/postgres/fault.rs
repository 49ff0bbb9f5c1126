//! Errors of a database, with the kind of each.

use std::{error::Error as _, fmt::Write};
use tidemill_flow::{ErrorKind, SinkError};
use tokio_postgres::{
    Error,
    error::{DbError, SqlState},
};

/// The error of a sink whose database refuses a request. The connection is given up, and with it the
/// transaction that was open.
pub(super) fn database_error(error: Error) -> SinkError {
    let kind = match error.code() {
        Some(code) => kind_of(code.code()),
        // Not the server's word: the connection, or that it asks for what the job does not have.
        None if error.to_string().contains("configuration") => ErrorKind::Invalid,
        None => ErrorKind::Retry,
    };
    SinkError::of_kind(kind, said(&error)).with_source(error)
}

/// The kind of the condition of this code (SQLSTATE; PostgreSQL documentation, Appendix A).
fn kind_of(code: &str) -> ErrorKind {
    match code {
        code if is_passing(code) => ErrorKind::Retry,
        // Data or an index of the server is corrupted.
        "XX001" | "XX002" => ErrorKind::Corrupt,
        // A feature that is not there, rows that the table refuses, a login that is refused, a database
        // or schema that is not there, a name or a right that is missing.
        _ if ["0A", "22", "23", "28", "3D", "3F", "42"].iter().any(|it| code.starts_with(it)) => {
            ErrorKind::Invalid
        }
        _ => ErrorKind::Failed,
    }
}

/// Returns true if the condition of this code (SQLSTATE) may pass by itself.
fn is_passing(code: &str) -> bool {
    match code {
        // A standby that will be the primary; a connection that was idle; a lock that is taken; an
        // object in use; a statement that was cancelled.
        "25006" | "25P03" | "55P03" | "55006" | "57014" => true,
        _ => ["08", "40", "53", "57P", "58"].iter().any(|class| code.starts_with(class)),
    }
}

/// Returns true if another session created the same object at once, so that it exists now.
pub(super) fn is_race(error: &Error) -> bool {
    [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT]
        .iter()
        .any(|it| error.code() == Some(it))
}

/// An error as a person reads it.
pub(super) fn said(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return said_by_server(error);
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(it) = source {
        let _ = write!(text, ": {it}");
        source = it.source();
    }
    if text.ends_with("password missing") {
        text.push_str(": put it into `url`, or into the environment variable `PGPASSWORD`");
    }
    // Where TLS is read about is no help to who looks for a server.
    text.split(": https://").next().unwrap_or_default().to_owned()
}

fn said_by_server(error: &DbError) -> String {
    let mut text = format!("{} (SQLSTATE {})", error.message(), error.code().code());
    for more in [error.detail(), error.hint(), error.where_()].into_iter().flatten() {
        let _ = write!(text, "; {}", more.replace('\n', " "));
    }
    text
}

#[cfg(test)]
mod tests {
    //! Which codes are waited for.

    use super::*;

    #[test]
    fn a_server_that_goes_away_is_waited_for_and_a_row_that_it_refuses_is_not() {
        for code in ["57P01", "57P02", "57P03", "08006", "53300", "53100", "40001", "40P01"] {
            assert!(is_passing(code), "{code}");
        }
        for code in ["23505", "23502", "42P01", "42703", "28P01", "3D000", "22001", "42501"] {
            assert_eq!(kind_of(code), ErrorKind::Invalid, "{code}");
        }
        for (code, kind) in [
            ("57P01", ErrorKind::Retry),
            ("XX001", ErrorKind::Corrupt),
            ("XX000", ErrorKind::Failed),
            ("P0001", ErrorKind::Failed),
        ] {
            assert_eq!(kind_of(code), kind, "{code}");
        }
    }
}
