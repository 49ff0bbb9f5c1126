//! The words of Tidemill: ids, units, limits, and settings as plain values.
//!
//! Read in this order: [`id`], [`cluster_id`], [`units`], [`limits`], [`job`]; then [`signs`] and [`address`].
//!
//! Invariant: nothing in this crate does I/O, reads a clock or starts a thread.

pub mod address;
pub mod cluster_id;
pub mod id;
pub mod job;
pub mod limits;
pub mod signs;
pub mod units;

pub use cluster_id::{ClusterId, ClusterIdError};
pub use id::{
    CheckpointNumber, Cycle, GroupIx, Incarnation, LaneIx, LayoutVersion, LeaderEpoch, LinkIx,
    LogPosition, NodeId, Offset, ProcessIx, ProducerEpoch, ProducerId, SegmentEpoch, SegmentIx,
    SliceId, SliceKey, StageIx, StreamletIx, VirtualLogEpoch, VirtualLogIx, WorkerId,
};
pub use units::{ByteSize, Micros, Span};

/// The hidden column that carries event time (timestamp, microseconds, UTC). Operators keep it;
/// sinks leave it out.
pub const TIME_COLUMN: &str = "__time";
