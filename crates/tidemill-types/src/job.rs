//! The job descriptor as plain values: the content of a job file, before anything is looked up.
//!
//! ```text
//! sources ──▶ stages ──▶ sinks          `from` names the input of each
//! ```
//!
//! The grammar is public: it is extended, never renamed. Positions in the file are not kept
//! here; a checker names a place by its path, such as `stages.late.where`.

mod checkpoint;
mod custom;
mod kafka;
mod postgres;
pub mod secret;
mod stage;

pub use checkpoint::{
    BackendSpec, CheckpointSpec, Every, HbaseSpec, ObjectStoreSpec, Recovery, RedisSpec, shown,
};
pub use kafka::{KafkaSinkSpec, KafkaSourceSpec};
pub use postgres::{DatabaseUrl, PostgresSinkSpec};
pub use stage::{
    AggregateSpec, CountWindow, DedupSpec, EmptySpec, FlatMapSpec, JoinKind, JoinSpec,
    PartitionSpec, SlidingWindow, StageSpec, TopSpec, WindowSpec,
};

use crate::limits::{SLICES_MAX, WORKERS_MAX};
use crate::units::{ByteSize, Micros, Span};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Stages, sources and sinks keep the order of the file.
pub type Named<T> = IndexMap<String, T>;

/// The name that a sink's `from` uses for the job's dead letters.
pub const DEAD_LETTER: &str = "dead_letter";

/// A job: its sources, stages and sinks, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The job's name: letters, digits, `-` and `_`, the first no `-`.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_][A-Za-z0-9_-]*$"))]
    pub name: String,
    /// The effect that a failure may have on the output.
    #[serde(default)]
    pub delivery: Delivery,
    /// When a cycle ends: the first bound that is reached.
    #[serde(default)]
    pub cycle: CycleSpec,
    /// Slices of every keyed stage (default 64).
    #[serde(default = "default_slices")]
    #[schemars(range(min = 1, max = SLICES_MAX))]
    pub slices: u32,
    /// Worker threads for this job on a node (default: the cores of the machine).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = WORKERS_MAX))]
    pub parallelism: Option<usize>,
    /// Buffers of the links between stages.
    #[serde(default)]
    pub buffer: BufferSpec,
    /// LZ4 on links that leave the process.
    #[serde(default)]
    pub compression: CompressionSpec,
    /// When the job's state is saved, and where; without it a job that resumes reads its input from
    /// the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointSpec>,
    /// The memory of the job's state.
    #[serde(default, skip_serializing_if = "StateSpec::is_default")]
    pub state: StateSpec,
    /// Where records come from.
    pub sources: Named<SourceSpec>,
    /// The stages that records pass, by name.
    #[serde(default)]
    pub stages: Named<StageSpec>,
    /// Where results go.
    pub sinks: Named<SinkSpec>,
}

impl JobSpec {
    /// True if the job resumes where it was when it is started again: it
    /// keeps a ledger of its input.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.delivery.goes_on(self.checkpoint.is_some())
    }
}

fn default_slices() -> u32 {
    64
}

/// The effect that a failure may have on the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Every record counts once in the output, whatever fails.
    #[default]
    ExactlyOnce,
    /// No record is lost; a replay may repeat some.
    AtLeastOnce,
    /// Nothing is replayed; under overload the oldest records are shed, and counted.
    AtMostOnce,
}

impl Delivery {
    /// True if a job with this delivery keeps a ledger, and resumes with it when it is started again.
    #[must_use]
    pub fn goes_on(self, has_checkpoints: bool) -> bool {
        match self {
            Self::ExactlyOnce => true,
            Self::AtLeastOnce => false,
            // What it must not read again.
            Self::AtMostOnce => has_checkpoints,
        }
    }
}

/// When a cycle ends: the first bound that is reached. In a file: `10ms`, or a table of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(with = "custom::CycleForm")]
pub struct CycleSpec {
    /// Longest time a live source collects one cycle (default 10ms).
    pub time: Span,
    /// Most input bytes of one source slice in a cycle (default 4MiB).
    pub bytes: ByteSize,
    /// Most records of one source slice in a cycle (default 100,000).
    pub records: u64,
}

impl Default for CycleSpec {
    fn default() -> Self {
        Self { time: Span(10_000), bytes: ByteSize(4 << 20), records: 100_000 }
    }
}

/// Buffers of the links between stages (Neptune 3.2.1, 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferSpec {
    /// An outgoing buffer holds at most this many bytes (default 256KiB). It leaves with the end of
    /// its cycle, so a cycle's time is the timer.
    pub bytes: ByteSize,
    /// A link takes no new cycle once this many bytes wait on it (default 16MiB).
    pub high_watermark: ByteSize,
    /// … until no more than this many bytes wait on it (default 8MiB).
    pub low_watermark: ByteSize,
    /// A thread of a stage that writes more than this in one cycle ends the job (default 4GiB): a join
    /// whose keys are all the same would take the memory of the machine.
    pub output: ByteSize,
}

impl Default for BufferSpec {
    fn default() -> Self {
        Self {
            bytes: ByteSize(256 << 10),
            high_watermark: ByteSize(16 << 20),
            low_watermark: ByteSize(8 << 20),
            output: ByteSize(4 << 30),
        }
    }
}

/// The memory of a job's state: windows, joins, tables, and the state of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// A job whose state takes more than this ends, and can be resumed with a larger budget
    /// (default: none, so the state is not limited).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ByteSize>,
    /// Stages with tumbling or sliding windows over one input by one key keep the needed parts of a
    /// record once, where that takes less memory (default: true). Which stages do is part of a
    /// checkpoint.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub share_windows: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(it: &bool) -> bool {
    *it
}

impl Default for StateSpec {
    fn default() -> Self {
        Self { budget: None, share_windows: true }
    }
}

impl StateSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// LZ4 on links that leave the process (Neptune 3.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema)]
#[schemars(with = "custom::CompressionForm")]
pub enum CompressionSpec {
    /// Never.
    #[default]
    Off,
    /// Every buffer.
    Always,
    /// Only buffers that shrink to this share of their size or less, judged by a sample.
    Selective {
        /// Compressed size divided by size, above which a buffer is sent as it is.
        coefficient: f64,
    },
}

/// Where records come from: exactly one of the kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Records of a file, read once from its start to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSourceSpec>,
    /// Records of a stream of the node's log, by name. A file may write the parts of the stream in a
    /// table with its name, or beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<custom::StreamSourceForm>")]
    pub stream: Option<String>,
    /// Records of a topic of another Kafka cluster. A file may write the parts of the topic in this
    /// table, or beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaSourceSpec>,
    /// Format of the values of a stream's records: `json`, `csv` (one line each), `text` or `influx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Types of a stream's columns by name. Columns that are not named here are found from its
    /// first records.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub schema: Named<String>,
    /// Number of records of a stream that decide the types of columns (default 10,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sample: Option<usize>,
    /// Where reading a stream begins: `earliest` (the default), `latest`, a time: the first record
    /// that is not older, or `group`: where that consumer group's committed offsets stand, which
    /// then follow the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartSpec>,
    /// Where reading a stream ends: `never` (the default), or `latest`: at the end that it has when
    /// the job starts, which is before the first record of a transaction that is open then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilSpec>,
    /// Which records of a stream are read: `committed` (the default), none of an open or an aborted
    /// transaction; or `uncommitted`, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Columns for the key, timestamp and position of a stream's records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaSpec>,
    /// Event time of the records; needed by windows over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeSpec>,
}

/// Where reading a stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "custom::StartForm")]
pub enum StartSpec {
    /// At its first record.
    #[default]
    Earliest,
    /// Behind its last record.
    Latest,
    /// At the first record with this time or a later one.
    Time(Micros),
    /// Where the committed offsets of this consumer group stand; at the first record of a streamlet
    /// where it has none. The job commits its progress to the group.
    Group(String),
}

/// Where reading a stream ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UntilSpec {
    /// It goes on with each new record.
    #[default]
    Never,
    /// At the end that it has when the job starts.
    Latest,
}

/// Which records of a stream are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// None of an open or an aborted transaction.
    #[default]
    Committed,
    /// All of them.
    Uncommitted,
}

/// Names of columns for the key, timestamp and position of a record. One without a name is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetaSpec {
    /// The record's key, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The record's timestamp; it can be event time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The streamlet that it is in, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamlet: Option<String>,
    /// Its offset in the streamlet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
}

/// Records of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSourceSpec {
    /// Path, relative to the job file.
    pub path: String,
    /// Format of the file's records.
    pub format: Format,
    /// Column types by name. Columns that are not named here are found from the file's head.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub schema: Named<String>,
    /// Number of records at the head of the file that decide the types of columns (default 10,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sample: Option<usize>,
    /// `csv`: whether the first line names the columns (default true). Without it `schema` names all
    /// of them in order, or they are `column_1`, `column_2` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<bool>,
    /// `csv`: the character between two fields (default `,`), one byte long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
}

impl FileSourceSpec {
    /// A file, read in the usual way of its format.
    #[must_use]
    pub fn new(path: impl Into<String>, format: Format) -> Self {
        let (path, schema) = (path.into(), Named::default());
        Self { path, format, schema, sample: None, header: None, delimiter: None }
    }
}

/// Format of records as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object a line (NDJSON).
    Json,
    /// RFC 4180, with a header line unless `header: false` is said.
    Csv,
    /// One record a line, in the column `text`.
    Text,
    /// InfluxDB line protocol.
    Influx,
    /// Arrow IPC, file or stream form.
    Arrow,
    /// Apache Parquet.
    Parquet,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Text => "text",
            Self::Influx => "influx",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        })
    }
}

/// Event time of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSpec {
    /// The field: ISO 8601 text, or epoch milliseconds.
    pub field: String,
    /// Distance from the largest time seen back to the watermark (default none).
    #[serde(default)]
    pub lateness: Span,
}

impl fmt::Display for TimeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event time `{}` with a lateness of {}", self.field, self.lateness)
    }
}

/// Where results go: exactly one of the kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = custom::with_parts_beside)]
pub struct SinkSpec {
    /// The stage or source whose rows are written; `dead_letter` is the job's bad records.
    #[serde(deserialize_with = "custom::from_names")]
    #[schemars(with = "custom::FromForm")]
    pub from: Vec<String>,
    /// A file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSinkSpec>,
    /// Standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<StdoutSpec>,
    /// A stream of the node's log: its name, or a table of its parts. A file may also write the parts
    /// of a stream or a topic beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSinkSpec>,
    /// A topic of another Kafka cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaSinkSpec>,
    /// A table of a PostgreSQL database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresSinkSpec>,
    /// Rows are counted and dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blackhole: Option<EmptySpec>,
}

/// A file that a job writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSinkSpec {
    /// Path, relative to the job file. An earlier file is replaced, unless the job resumes.
    pub path: String,
    /// Format of the rows.
    pub format: Format,
}

/// A stream that a job writes. In a file: its name, or a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(with = "custom::StreamSinkForm")]
pub struct StreamSinkSpec {
    /// The stream's name; it is made if it is not there.
    pub name: String,
    /// Format of values: `json` (the default) or `text`.
    pub format: Format,
    /// Columns whose values are the record's key and choose its streamlet. Without them records
    /// have no key and go to the streamlets in turn, a cycle's rows at a time.
    pub key: Vec<String>,
    /// Streamlets, if the stream is made (default 1).
    pub streamlets: u32,
}

/// The form of rows on standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdoutSpec {
    /// `json`, `csv` or `text` (default `json`).
    #[serde(default = "default_stdout_format")]
    pub format: Format,
}

fn default_stdout_format() -> Format {
    Format::Json
}
