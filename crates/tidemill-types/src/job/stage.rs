//! One stage of a job descriptor: the operator it runs, how its input reaches it.

use super::{Named, custom};
use crate::limits::SLICES_MAX;
use crate::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One operator on records. Parts apply in this order: `flat_map`, `where`, `select`, then one of
/// `key` + `aggregate`, `top`, `join`, `dedup`; `join` applies before `where` and `select`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// The source or stage that is read, or a list of them (a union). Left out with `join`.
    #[serde(
        default,
        deserialize_with = "custom::from_names",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Option<custom::FromForm>")]
    pub from: Vec<String>,
    /// One record becomes one for each element of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flat_map: Option<FlatMapSpec>,
    /// A SQL condition; records for which it is not true are left out.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// New columns by name, each a SQL expression; all others are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Named<String>>,
    /// Columns whose values decide the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Vec<String>>,
    /// Windows over the records of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSpec>,
    /// Aggregates by column name, such as `avg(delay)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<AggregateSpec>,
    /// The rows with the largest values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<TopSpec>,
    /// Rows of two inputs that belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinSpec>,
    /// The first record of each key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupSpec>,
    /// Partition of the link to this stage (default: by key if there is one, else `local`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionSpec>,
    /// The name under which other stages read the records that came too late for their window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Keys that nothing came for in so long leave memory, and are read back from the newest
    /// checkpoint when something does: results are the same. For count windows and operators of a
    /// program; needs `checkpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// Slices of this stage, if not the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = SLICES_MAX))]
    pub slices: Option<u32>,
    /// The name of an operator registered by the program that runs the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
}

/// Aggregates by column name, each a SQL aggregate call.
pub type AggregateSpec = Named<String>;

/// One record becomes one for each element of a list; its other columns are repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlatMapSpec {
    /// A SQL expression that gives a list, such as `string_to_array(text, ' ')`.
    pub unnest: String,
    /// The column that holds one element.
    #[serde(rename = "as")]
    pub name: String,
}

/// A window over the records of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowSpec {
    /// Windows of this size that lie side by side, aligned to 1970-01-01T00:00:00Z.
    Tumbling(Span),
    /// Windows of one size, a new one beginning at every step.
    Sliding(SlidingWindow),
    /// A window ends when its key is silent for this long.
    Session(Span),
    /// The last so many records of a key.
    Count(CountWindow),
    /// One window for the whole input; it closes when the input ends.
    Global(EmptySpec),
}

/// Windows that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Length of a window.
    pub size: Span,
    /// Time from the start of one window to the start of the next.
    pub every: Span,
}

/// Windows over the last records of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountWindow {
    /// Most records in the window (fewer at first).
    pub size: u64,
    /// Records of the key between two results.
    #[serde(default = "one")]
    pub every: u64,
}

fn one() -> u64 {
    1
}

/// A table without fields: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptySpec {}

/// The rows with the largest values of a column. If `per` names `window_start` or `window_end`,
/// a group is complete when that window has closed; else when the input ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopSpec {
    /// Number of rows of a group that are kept.
    #[schemars(range(min = 1))]
    pub k: usize,
    /// The column, or SQL expression, that orders them, largest first; nulls come last.
    pub by: String,
    /// Smallest first.
    #[serde(default)]
    pub ascending: bool,
    /// Columns whose values form a group (default: all rows are one group).
    #[serde(default)]
    pub per: Vec<String>,
}

/// Rows of two inputs that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinSpec {
    /// The stream on the left. Its columns keep their names.
    pub left: String,
    /// The stream on the right; needs `within`. A column whose name the left has too gets the
    /// prefix `right_`; key columns are not repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<String>,
    /// The table on the right: the last row of each key, in place of `right`. A bounded table is
    /// read to its end before the stream begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Columns that must be equal: a name both sides have, or `left_name = right_name`.
    pub on: Vec<String>,
    /// Largest distance in event time between the two records of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// The fate of a left record without a partner.
    #[serde(default)]
    pub kind: JoinKind,
}

/// The fate of a record without a partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JoinKind {
    /// It is left out.
    #[default]
    Inner,
    /// A left record comes out with nulls in place of the right's columns.
    Left,
}

/// The first record of each key only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DedupSpec {
    /// Columns that make two records the same.
    pub on: Vec<String>,
    /// Length of event time for which a key is remembered (default: for ever).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

/// Partition of the link to a stage (Neptune 3.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PartitionSpec {
    /// By the hash of the stage's `key`.
    Key,
    /// All to one slice.
    One,
    /// A copy to each slice.
    All,
    /// Evenly, at random from the job's seed.
    Random,
    /// To the slice with the number of the sending slice.
    Local,
}
