//! Sources and sinks: files in six formats, streams, topics, tables, standard output, and nothing.
//!
//! ```text
//! file ─▶ input ─▶ frame ─▶ json │ csv │ influx │ text ─▶ columns ─▶ LineSource ─▶ batches
//!         bytes    records       one record             one batch    bad records ─▶ dead letters
//! file ─▶ arrow │ parquet ─▶ BatchSource ─▶ batches
//! ```
//!
//! Read in this order: [`FileSource`], `input`, `frame`, `columns`, a format; then [`FileSink`].
//!
//! Invariants: a cut depends on the file and the request alone; exactly the bad records of a file
//! become dead letters; no bytes of a file panic or take memory past a limit; rows that a file sink
//! committed are in the file once, after any crash.

mod arrow_file;
mod batch_source;
mod column_cast;
mod column_type;
mod columns;
mod csv;
mod encoding;
mod error;
mod file_source;
mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod influx;
mod input;
mod json;
mod kafka;
mod layout;
mod line_source;
mod notes;
mod number;
mod parquet_file;
mod postgres;
mod record_source;
mod schema_inference;
#[cfg(test)]
mod seek_contract;
mod sink;
mod stream;
mod text;
mod timestamp_text;
mod type_inference;

pub use self::postgres::PostgresSink;
pub use encoding::ForeignEncoding;
pub use error::{ConnectorError, ConnectorErrorKind, SchemaPlace};
pub use file_source::FileSource;
pub use influx::{InfluxLines, InfluxPoint, point_end as influx_point_end};
pub use json::check_json_object;
pub use kafka::KafkaSink;
pub use record_source::{RecordSource, RecordSourceSpec};
pub use sink::{BlackholeSink, FileSink, StdoutSink, WriterSink, rows_as};
pub use stream::{
    AbortedTransaction, DeclaredStream, StreamGroup, StreamNode, StreamSink, Transactions,
};
