//! Columns that a program says its sources and operators have: they must be some that a job can tell
//! apart, and event time must be a time.

use crate::diagnostic::Problem;
use arrow_schema::{DataType, Schema, TimeUnit};
use tidemill_flow::{SourceFactory, TIME_COLUMN, catch_panic};

/// Calls code of the program; a panic is a problem of that part of the job.
pub(super) fn ask<T>(path: &[&str], call: impl FnOnce() -> T) -> Result<T, Problem> {
    catch_panic(call).map_err(|message| Problem::new(path.iter().copied(), message))
}

/// Asks a source of the program for all that a plan needs to know of it, once.
///
/// # Errors
/// Its columns are none that a job can have, or it panicked.
pub(super) fn asked_source(name: &str, source: &dyn SourceFactory) -> Result<(), Problem> {
    let path = ["sources", name];
    let (schema, _) = ask(&path, || (source.schema(), source.live()))?;
    wrong(&path, &schema).map_or(Ok(()), Err)
}

/// The problem of the columns of a source or an operator of the program, if there is one.
pub(super) fn wrong(path: &[&str], schema: &Schema) -> Option<Problem> {
    let problem = |message: String| Problem::new(path.iter().copied(), message);
    for (nth, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if schema.fields()[..nth].iter().any(|before| before.name() == name) {
            return Some(problem(format!("its schema has the column `{name}` twice")));
        }
        let is_time = matches!(field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _));
        if name == TIME_COLUMN && !is_time {
            let data_type = field.data_type();
            let message = format!("its column `{name}`, the event time, is of type {data_type}");
            let wanted = "a timestamp in microseconds, or another name";
            return Some(problem(message).expected(wanted));
        }
    }
    None
}
