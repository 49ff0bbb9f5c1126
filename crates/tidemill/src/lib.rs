//! Tidemill as a library: jobs in code, run on a node inside the program.
//!
//! Modules: [`builder`] (read this first), [`custom`] (operators of the program), [`arrow`],
//! [`flow`] (sources and sinks of the program), [`log`] (streams on disk, without a node), [`table`],
//! [`alloc`]. Examples are in `examples/`, and `docs/library.md` goes through all of it.

pub mod alloc;
pub mod builder;
pub mod table;

pub use builder::{
    Collected, File, Generated, Job, JobFailure, Kafka, Names, SinkOf, SourceOf, Stage,
    StateFailure, collected, from, join, join_table, query_state,
};
pub use tidemill_flow::{self as flow, JobHandle, OperatorError, Progress};
pub use tidemill_node::state_query::{Answer, StateError};
pub use tidemill_operators::custom;
pub use tidemill_types::job::{
    BackendSpec, BufferSpec, CheckpointSpec, CycleSpec, Delivery, EmptySpec, Every, Format,
    HbaseSpec, JoinKind, MetaSpec, ObjectStoreSpec, PartitionSpec, Recovery, RedisSpec, StartSpec,
};
pub use tidemill_types::{ByteSize, CheckpointNumber, Cycle, Micros, SliceId, Span};

/// Streams on disk, in a folder of the program's own: appended to in chunks, read by offset or, by
/// several consumers that share a streamlet, by whole groups ([`next_groups`](log::Streamlet::next_groups)).
/// A folder has one owner: that of a node that runs is the node's.
pub mod log {
    pub use tidemill_env::World;
    pub use tidemill_log::*;
}

/// Apache Arrow, in the version that batches and schemas of operators and sources are made of.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_schema as schema;
}
