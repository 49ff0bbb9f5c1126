//! Typed ids: numbers that name or count things of one kind.
//!
//! Each id is a newtype, so the compiler refuses a slice where a stage is expected. An id has no
//! arithmetic beyond the one its kind needs: a cycle has a successor, an index has a `usize`.
//!
//! | id | names | counted from |
//! | --- | --- | --- |
//! | [`Cycle`] | a recorded batch of a job's whole input | 1 |
//! | [`StageIx`] | a vertex of a job's graph: a source, an operator or a sink | 0, in the order of the job |
//! | [`LinkIx`] | an edge of a job's graph | 0, in the order of the job |
//! | [`SliceId`] | a slice within its stage | 0 |
//! | [`SliceKey`] | a slice within its job | |
//! | [`LaneIx`] | a lane within its stage and layout | 0 |
//! | [`LayoutVersion`] | a layout of a job | 0 |
//! | [`WorkerId`] | a worker thread of a job on one node | 0 |
//! | [`ProcessIx`] | one of the processes that run a job together | 0 |
//! | [`CheckpointNumber`] | a checkpoint of a job | 1 |
//! | [`NodeId`] | a node: a machine that runs Tidemill | chosen by its operator |
//! | [`Incarnation`] | one life of a node, never used again | 1 |
//! | [`SegmentEpoch`] | one use of a segment file | 1 |
//! | [`LeaderEpoch`] | one leadership of a streamlet (KIP-101) | 0 |
//! | [`ProducerId`], [`ProducerEpoch`] | an idempotent producer and its generation (KIP-98) | 0 |
//! | [`StreamletIx`] | a streamlet within its stream: Kafka's partition | 0 |
//! | [`GroupIx`] | a group within its streamlet | 0 |
//! | [`SegmentIx`] | a segment within its group | 0 |
//! | [`Offset`] | a record within its streamlet | 0 |
//! | [`VirtualLogIx`] | a virtual log within its stream | 0, never used again |
//! | [`VirtualLogEpoch`] | one leadership of a virtual log | 1 |
//! | [`LogPosition`] | a chunk within its virtual log | 0 |

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares a newtype over an integer that is shown as that integer.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

/// Declares an id that also serves as an index into a table.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        id!($(#[$doc])* $name(u32));

        impl $name {
            /// The id as an index into a table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of an entry of a table.
            ///
            /// # Panics
            ///
            /// Panics if the index does not fit 32 bits: tables of ids are bounded far below that.
            #[must_use]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("tables of ids have fewer than 2^32 entries"))
            }
        }
    };
}

id!(
    /// The number of a cycle: a recorded batch of a job's whole input. The first is 1.
    Cycle(u64)
);

impl Cycle {
    /// The cycle before the first: nothing has been processed.
    pub const NONE: Self = Self(0);
    /// The first cycle of a job.
    pub const FIRST: Self = Self(1);

    /// The cycle after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

index!(
    /// A stage of a job: a vertex of its graph, so a source, an operator or a sink.
    StageIx
);
index!(
    /// A link of a job: an edge of its graph.
    LinkIx
);
index!(
    /// A slice within its stage: a range of the key hash, or a part of a source that is read by itself.
    SliceId
);
index!(
    /// A lane within its stage and layout: the slices of the stage that one worker runs.
    LaneIx
);
index!(
    /// A worker thread of a job on one node.
    WorkerId
);
index!(
    /// One of the processes that run a job together. Process 0 has the job's sources and sinks.
    ProcessIx
);
index!(
    /// A streamlet within its stream. Kafka calls it a partition.
    StreamletIx
);
index!(
    /// A segment within its group.
    SegmentIx
);

index!(
    /// A virtual log within its stream: the chunks that are replicated in one order. A number is
    /// never used twice.
    VirtualLogIx
);

id!(
    /// One leadership of a virtual log. Copies refuse requests with a lower epoch.
    VirtualLogEpoch(u32)
);
id!(
    /// The place of a chunk within its virtual log.
    LogPosition(u64)
);
id!(
    /// The version of a layout of a job. A later layout has a larger version.
    LayoutVersion(u32)
);
id!(
    /// The number of a checkpoint of a job. The first is 1, and a number is never used twice.
    CheckpointNumber(u64)
);
id!(
    /// A node: a machine that runs Tidemill. Kafka's broker id.
    NodeId(i32)
);
id!(
    /// One life of a node. No two lives of any node of a cluster share a number.
    Incarnation(u32)
);

impl Incarnation {
    /// No life: the node has not registered yet.
    pub const NONE: Self = Self(0);
}
id!(
    /// A group within its streamlet: a run of segments that are filled one after another. Numbers
    /// grow, with gaps where the log was opened again.
    GroupIx(u64)
);
id!(
    /// One use of a segment file. A recycled file has a new epoch, so an old reference never reads it.
    SegmentEpoch(u64)
);
id!(
    /// One leadership of a streamlet (KIP-101). A request with a lower epoch is refused.
    LeaderEpoch(i32)
);
id!(
    /// An idempotent or transactional producer (KIP-98).
    ProducerId(i64)
);
id!(
    /// A generation of a producer id (KIP-98). A request with a lower epoch is refused.
    ProducerEpoch(i16)
);
id!(
    /// The place of a record within its streamlet.
    Offset(i64)
);

impl CheckpointNumber {
    /// The number before the first: there is no checkpoint.
    pub const NONE: Self = Self(0);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A slice within its job.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SliceKey {
    /// The stage the slice is of.
    pub stage: StageIx,
    /// The slice within that stage.
    pub slice: SliceId,
}

impl SliceKey {
    /// The key of one slice of a stage.
    #[must_use]
    pub const fn new(stage: StageIx, slice: SliceId) -> Self {
        Self { stage, slice }
    }
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage, self.slice)
    }
}
