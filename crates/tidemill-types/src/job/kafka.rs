//! Topics of other clusters, as sources and sinks.

use super::{Format, Isolation, MetaSpec, Named, StartSpec, UntilSpec};
use crate::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A topic of a Kafka cluster that a job reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaSourceSpec {
    /// Addresses of some brokers of the cluster, `HOST:PORT`, with commas between them.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Format of the values of its records: `json`, `csv` (one line each), `text` or `influx`.
    #[schemars(with = "Option<Format>")]
    pub format: Format,
    /// Types of columns by name. Columns that are not named here are found from the first records.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub schema: Named<String>,
    /// Number of records that decide the types of columns (default 10,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sample: Option<usize>,
    /// Where reading begins: `earliest` (the default), `latest`, or a time: the first record that
    /// is not older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartSpec>,
    /// Where reading ends: `never` (the default), or `latest`: at the end that the topic has when
    /// the job starts, which is before the first record of a transaction that is open then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilSpec>,
    /// Which records are read: `committed` (the default), none of an open or an aborted
    /// transaction; or `uncommitted`, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Columns for the key, timestamp and position of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaSpec>,
}

/// A topic of a Kafka cluster that a job writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaSinkSpec {
    /// Addresses of some brokers of the cluster, `HOST:PORT`, with commas between them.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Format of values: `json` (the default) or `text`.
    #[serde(default = "json")]
    pub format: Format,
    /// Columns whose values are the record's key and choose its partition. Without them records
    /// have no key and go to the partitions in turn, a cycle's rows at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// The topic is made when the job starts, if it is not there.
    #[serde(default)]
    pub create: bool,
    /// Partitions, if it is made (default: the cluster's own).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// The cluster aborts a transaction that is open for longer (default 60s, from 1s on, and no more
    /// than its `transaction.max.timeout.ms`): so long an open one may hold readers back when the
    /// job has died. One is open for as long as it takes to send the rows of a commit.
    #[serde(default = "a_minute")]
    pub transaction_timeout: Span,
}

impl KafkaSinkSpec {
    /// For how long a transaction may be open, if the job does not say.
    pub const TRANSACTION_TIMEOUT: Span = Span(60_000_000);
}

fn a_minute() -> Span {
    KafkaSinkSpec::TRANSACTION_TIMEOUT
}

fn json() -> Format {
    Format::Json
}
