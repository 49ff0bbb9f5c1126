//! Kafka's internal topics, as clients expect to find them.
//!
//! Apache Kafka keeps committed offsets and transactions in the topics `__consumer_offsets` and
//! `__transaction_state`. Here they are tables of the store, so the topics are shown and are always
//! empty: each has one partition, which this node leads, with neither a first nor a last record.
//!
//! Clients cannot produce to them, change them or delete them.
//!
//! Invariant: a stream that has such a name hides the internal topic. Older versions let clients make
//! one, and its records stay within reach.

use crate::{Broker, refusal::RequestRefusal, topic_settings::Texts};
use tidemill_log::{LeaderEpoch, StreamSpec};
use tidemill_wire::kafka::{ErrorCode, KafkaUuid};

/// The upper half of the topics' ids: `tidemill` in ASCII. Ids of streams are random.
const ID_HIGH: u64 = 0x7469_6465_6d69_6c6c;

/// An internal topic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InternalTopic {
    pub(crate) name: &'static str,
    pub(crate) id: KafkaUuid,
}

/// All internal topics, by name.
static INTERNAL_TOPICS: [InternalTopic; 2] = [
    InternalTopic { name: "__consumer_offsets", id: KafkaUuid::from_parts(ID_HIGH, 1) },
    InternalTopic { name: "__transaction_state", id: KafkaUuid::from_parts(ID_HIGH, 2) },
];

/// Partitions of an internal topic.
pub(crate) const INTERNAL_PARTITIONS: i32 = 1;
/// The start and the end of each of its partitions.
pub(crate) const INTERNAL_OFFSET: i64 = 0;
/// The leader epoch of each of its partitions.
pub(crate) const INTERNAL_EPOCH: LeaderEpoch = LeaderEpoch(0);

impl InternalTopic {
    /// The internal topics that no stream hides.
    pub(crate) fn all(broker: &Broker) -> impl Iterator<Item = &'static Self> {
        INTERNAL_TOPICS.iter().filter(|it| broker.log.get(it.name).is_none())
    }

    /// The internal topic of a name. None: it has no such name, or a stream has it.
    pub(crate) fn named(broker: &Broker, name: &str) -> Option<&'static Self> {
        let topic = INTERNAL_TOPICS.iter().find(|it| it.name == name)?;
        broker.log.get(name).is_none().then_some(topic)
    }

    /// The internal topic of an id.
    pub(crate) fn of_id(broker: &Broker, id: KafkaUuid) -> Option<&'static Self> {
        Self::all(broker).find(|it| it.id == id)
    }

    /// The settings that it is shown with.
    pub(crate) fn spec(broker: &Broker) -> StreamSpec {
        let texts = Texts::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
        let defaults = broker.defaults();
        defaults.spec(INTERNAL_PARTITIONS.unsigned_abs(), texts).unwrap_or(defaults.spec)
    }

    /// The refusal of a change.
    pub(crate) fn refusal(&self) -> RequestRefusal {
        let why = format!("`{}` is an internal topic: it cannot be changed", self.name);
        RequestRefusal::with(ErrorCode::InvalidTopicException, &why)
    }
}

/// True if the index is that of a partition of an internal topic.
pub(crate) fn is_internal_partition(index: i32) -> bool {
    (0..INTERNAL_PARTITIONS).contains(&index)
}
