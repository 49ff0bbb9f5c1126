//! The one table of Kafka requests: key, newest version, effect, size class and handler.
//!
//! Everything that depends on a request's key alone comes from here: ApiVersions and `docs/broker.md`
//! list the keys and versions, a connection repeats the answers of requests without an effect, a
//! frame is bounded by the size class, and [`dispatch`] calls the handler.
//!
//! Invariant: a key has one row. The oldest version is the oldest that the codec knows.

use crate::{
    answer::Begun,
    api::{Context, Unanswered, plain},
    handler,
};
use bytes::Bytes;
use tidemill_wire::kafka::{ApiKey, known_versions};

/// The effect of a request on the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None, but for topics that Metadata makes: answering the request again does no harm.
    Reads,
    /// It changes records, topics, groups, transactions or sessions.
    Writes,
}

/// The class of a request by which its length and its memory are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeClass {
    /// Mostly chunks.
    Chunks,
    /// A list of names, of which each can be a single byte.
    Names,
    /// Lists of longer things.
    Plain,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKind {
    pub(crate) key: ApiKey,
    /// The newest version that is answered. None: the newest that the codec knows.
    newest: Option<i16>,
    pub(crate) effect: Effect,
    pub(crate) size: SizeClass,
}

impl RequestKind {
    /// The row of a key as it stands in a frame. None: no such request is answered.
    pub(crate) fn of(key: i16) -> Option<&'static Self> {
        REQUESTS.iter().find(|it| it.key as i16 == key)
    }

    /// The oldest and the newest version that are answered.
    pub(crate) fn versions(&self) -> (i16, i16) {
        let known = known_versions(self.key);
        (*known.start(), self.newest.unwrap_or(*known.end()))
    }
}

macro_rules! newest {
    (newest) => {
        None
    };
    ($version:literal) => {
        Some($version)
    };
}

/// Rows of key, newest version, effect, size class, and the handler of those that one function
/// answers at once.
macro_rules! requests {
    ($($key:ident $newest:tt $effect:ident $size:ident $(=> $($handler:ident)::+)?;)*) => {
        /// All requests that are answered.
        pub(crate) const REQUESTS: &[RequestKind] = &[$(
            RequestKind {
                key: ApiKey::$key,
                newest: newest!($newest),
                effect: Effect::$effect,
                size: SizeClass::$size,
            },
        )*];

        /// Answers a request that one function answers at once.
        pub(crate) async fn dispatch(
            key: ApiKey,
            context: &Context<'_>,
            body: Bytes,
        ) -> Result<Begun, Unanswered> {
            match key {
                $($(ApiKey::$key => plain(context, body, handler::$($handler)::+).await,)?)*
                _ => Err(Unanswered::Request),
            }
        }
    };
}

requests! {
    Produce newest Writes Chunks;
    Fetch newest Writes Plain;
    ListOffsets 9 Reads Plain => list_offsets::answer;
    Metadata newest Reads Plain => metadata::answer;
    ApiVersions 4 Reads Plain;
    OffsetCommit newest Writes Plain => offsets::commit;
    OffsetFetch newest Reads Plain => offsets::fetch;
    FindCoordinator newest Reads Names => group::find;
    JoinGroup newest Writes Plain => group::join;
    Heartbeat newest Writes Plain => group::heartbeat;
    LeaveGroup newest Writes Plain => group::leave;
    SyncGroup newest Writes Plain => group::sync;
    DescribeGroups newest Reads Names => group::describe;
    ListGroups newest Reads Names => group::list;
    DeleteGroups newest Writes Names => group::delete;
    OffsetDelete newest Writes Plain => offsets::delete;
    CreateTopics newest Writes Plain => topics::create;
    DeleteTopics newest Writes Names => topics::delete;
    DeleteRecords newest Writes Plain => records::delete;
    InitProducerId newest Writes Plain => transaction::init::answer;
    OffsetForLeaderEpoch newest Reads Plain => records::epoch_ends;
    AddPartitionsToTxn newest Writes Plain => transaction::add::partitions;
    AddOffsetsToTxn newest Writes Plain => transaction::add::offsets;
    EndTxn newest Writes Plain => transaction::end::answer;
    TxnOffsetCommit newest Writes Plain => transaction::offsets::commit;
    DescribeAcls newest Reads Plain => acls::describe;
    CreateAcls newest Reads Plain => acls::create;
    DeleteAcls newest Reads Plain => acls::delete;
    DescribeConfigs newest Reads Plain => configs::describe;
    AlterConfigs newest Writes Plain => configs::alter;
    AlterReplicaLogDirs newest Reads Plain => log_dirs::alter;
    DescribeLogDirs newest Reads Plain => log_dirs::describe;
    CreatePartitions newest Writes Plain => partitions::create;
    ElectLeaders newest Reads Plain => replicas::elect;
    IncrementalAlterConfigs newest Writes Plain => configs::alter_incrementally;
    AlterPartitionReassignments newest Reads Plain => replicas::reassign;
    ListPartitionReassignments newest Reads Plain => replicas::list_reassignments;
    DescribeClientQuotas newest Reads Plain => quotas::describe;
    DescribeQuorum newest Reads Plain => cluster::quorum;
    DescribeCluster newest Reads Plain => cluster::describe;
    DescribeProducers newest Reads Plain => transaction::describe::producers;
    DescribeTransactions newest Reads Names => transaction::describe::transactions;
    ListTransactions newest Reads Names => transaction::describe::list;
    ConsumerGroupHeartbeat newest Reads Plain => group::refuse_consumer_heartbeat;
    ListConfigResources newest Reads Plain => configs::list;
    DescribeTopicPartitions newest Reads Plain => partitions::describe;
}
