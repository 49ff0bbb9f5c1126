//! A partition of a session: the client's position, and the records there.
//!
//! Invariant: a topic that was found by its id is known by its name afterwards, even when it is
//! gone. A later topic of that name is another one.

use crate::{
    fetch_answer::{PartitionAnswer, PartitionReach},
    internal_topic::{INTERNAL_OFFSET, is_internal_partition},
    partition::{Partition, Readable},
    session::SessionWaker,
    topic::Topic,
};
use std::sync::Arc;
use tidemill_log::{ReadCursor, ReadLimit};
use tidemill_wire::kafka::{ErrorCode, KafkaString, KafkaUuid};

/// The request for one partition.
#[derive(Clone, Debug)]
pub(crate) struct FetchPosition {
    pub(crate) offset: i64,
    pub(crate) max_bytes: usize,
    /// That the client knows; below 0 if it knows none.
    pub(crate) leader_epoch: i32,
    /// Of the record before the offset, as the client has it; below 0 if it does not say.
    pub(crate) last_epoch: i32,
}

/// A topic that is fetched from.
pub(crate) enum FetchTopic {
    Stream(Arc<Topic>),
    /// An internal topic: it has no records.
    Internal,
}

/// A partition that is fetched from.
pub(super) enum FetchPartition {
    Stream(Arc<Partition>),
    /// Of an internal topic.
    Internal,
}

impl FetchPartition {
    /// True if its topic was deleted.
    fn is_gone(&self) -> bool {
        match self {
            Self::Stream(partition) => partition.live.is_gone(),
            Self::Internal => false,
        }
    }
}

/// A partition in a session.
pub(crate) type FetchPlace = (KafkaUuid, KafkaString, i32);

/// See the module.
pub(super) struct SessionSlot {
    pub(super) place: FetchPlace,
    /// The last round of questions that named it.
    pub(super) round: u64,
    /// Where that round named it.
    pub(super) order: u32,
    /// The last look that read it.
    pub(super) looked: u64,
    pub(super) asked: FetchPosition,
    pub(super) partition: Result<FetchPartition, ErrorCode>,
    /// The name of its topic, if that was found by its id and is gone.
    pub(super) lost: Option<Box<str>>,
    cursor: ReadCursor,
    pub(super) interest: Option<Readable>,
    pub(super) is_due: bool,
    /// The offset after the last record found.
    next: i64,
    /// The watermark, stable offset and start that the client knows.
    pub(super) told: Option<PartitionReach>,
}

impl SessionSlot {
    /// Its partition is not looked for yet.
    pub(super) fn new(place: FetchPlace, asked: FetchPosition) -> Self {
        Self {
            place,
            round: 0,
            order: 0,
            looked: 0,
            asked,
            partition: Err(ErrorCode::UnknownTopicOrPartition),
            lost: None,
            cursor: ReadCursor::default(),
            interest: None,
            is_due: false,
            next: 0,
            told: None,
        }
    }

    /// True if the slot already waits for exactly this request, so that nothing needs reading.
    pub(super) fn waits_for(&self, asked: &FetchPosition) -> bool {
        let waits = self.interest.is_some() && !self.is_due && self.next == asked.offset;
        waits
            && self.asked.leader_epoch == asked.leader_epoch
            && self.asked.last_epoch == asked.last_epoch
            && self.partition.as_ref().is_ok_and(|it| !it.is_gone())
    }

    /// An answer without records.
    pub(super) fn nothing(&self, committed: bool) -> PartitionAnswer {
        match &self.partition {
            Err(error) => PartitionAnswer::failed(self.place.2, *error),
            Ok(FetchPartition::Internal) => PartitionAnswer {
                index: self.place.2,
                error: ErrorCode::None,
                high_watermark: INTERNAL_OFFSET,
                last_stable_offset: INTERNAL_OFFSET,
                log_start_offset: INTERNAL_OFFSET,
                aborted: committed.then(Vec::new),
                chunks: Vec::new(),
                offsets: 0..0,
                diverging: None,
            },
            Ok(FetchPartition::Stream(partition)) => {
                let stable = if committed {
                    partition.last_stable_offset()
                } else {
                    Ok(partition.known_stable_offset())
                };
                let last_stable_offset = match stable {
                    Ok(offset) => offset,
                    Err(error) => return PartitionAnswer::unread(self.place.2, error),
                };
                PartitionAnswer {
                    index: self.place.2,
                    error: ErrorCode::None,
                    high_watermark: partition.streamlet.high_watermark(),
                    last_stable_offset,
                    log_start_offset: partition.streamlet.start_offset(),
                    aborted: committed.then(Vec::new),
                    chunks: Vec::new(),
                    offsets: 0..0,
                    diverging: None,
                }
            }
        }
    }

    /// Reads records. The flag is true if there are more than fit.
    pub(super) fn read(
        &mut self,
        bytes: usize,
        at_least_one: bool,
        committed: bool,
    ) -> (PartitionAnswer, bool) {
        self.next = self.asked.offset;
        self.lose_if_gone();
        let mut answer = self.nothing(committed);
        if answer.error != ErrorCode::None {
            return (answer, false);
        }
        let Ok(FetchPartition::Stream(partition)) = &self.partition else {
            if self.asked.offset != INTERNAL_OFFSET {
                let error = ErrorCode::OffsetOutOfRange;
                return (PartitionAnswer::unread(self.place.2, error), false);
            }
            return (answer, false);
        };
        let checked = partition.check_reader(self.asked.leader_epoch);
        let (last, offset) = (self.asked.last_epoch, self.asked.offset);
        match checked.and_then(|_epoch| partition.diverging(last, offset)) {
            Err(error) => return (PartitionAnswer::unread(self.place.2, error), false),
            // The client asks again from where the logs part.
            Ok(diverging @ Some(_)) => return (PartitionAnswer { diverging, ..answer }, false),
            Ok(None) => {}
        }
        let below = if committed { answer.last_stable_offset } else { i64::MAX };
        let max_bytes = bytes.min(self.asked.max_bytes);
        let limit = ReadLimit { max_bytes, at_least_one, below };
        match partition.streamlet.read_to_send(&mut self.cursor, self.asked.offset, limit) {
            Ok(read) => {
                answer.high_watermark = read.high_watermark;
                answer.log_start_offset = read.start_offset;
                if committed && !read.chunks.is_empty() {
                    let aborted = partition.aborted(self.asked.offset, read.next_offset);
                    answer.aborted = Some(aborted);
                }
                answer.chunks = read.chunks;
                answer.offsets = self.asked.offset..read.next_offset;
                self.next = read.next_offset;
                (answer, self.next < read.high_watermark.min(below))
            }
            // Its data went while they were looked for.
            Err(_) if partition.live.is_gone() => {
                self.lose_if_gone();
                (self.nothing(committed), false)
            }
            Err(error) => {
                let error = partition.unread(&error, self.asked.offset);
                (PartitionAnswer::unread(self.place.2, error), false)
            }
        }
    }

    /// Lets go of a partition whose topic was deleted.
    pub(super) fn lose_if_gone(&mut self) {
        let Ok(FetchPartition::Stream(partition)) = &self.partition else { return };
        if !partition.live.is_gone() {
            return;
        }
        if self.place.0 != KafkaUuid::ZERO {
            self.lost = Some(partition.streamlet.stream_name().into());
        }
        self.partition = Err(ErrorCode::UnknownTopicOrPartition);
        self.cursor = ReadCursor::default();
    }

    /// True if it waits for the end of a transaction.
    pub(super) fn is_held_back(&self) -> bool {
        self.interest.as_ref().is_some_and(Readable::is_held_back)
    }

    /// True if the high watermark, the last stable offset or the start is not the one that the
    /// client knows.
    pub(super) fn has_moved(&self, committed: bool) -> bool {
        let now = self.nothing(committed);
        now.error == ErrorCode::None && self.told.is_some_and(|told| told != now.reach())
    }

    /// Waits for records after the last ones found.
    pub(super) fn wait(&mut self, id: u32, wake: &Arc<SessionWaker>, committed: bool) {
        if let Ok(FetchPartition::Stream(partition)) = &self.partition {
            let wake = Arc::clone(wake);
            let notice = Box::new(move || wake.ring(id));
            self.interest = Some(partition.on_readable(self.next, committed, notice));
        }
    }
}

pub(super) fn partition_of(
    topic: &FetchTopic,
    place: &FetchPlace,
) -> Result<FetchPartition, ErrorCode> {
    let partition = match topic {
        FetchTopic::Stream(topic) => topic.partition(place.2).map(FetchPartition::Stream),
        FetchTopic::Internal => is_internal_partition(place.2).then_some(FetchPartition::Internal),
    };
    partition.ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The error for a topic that was never found, by id or by name.
pub(crate) fn missing(place: &FetchPlace) -> ErrorCode {
    if place.0 == KafkaUuid::ZERO {
        ErrorCode::UnknownTopicOrPartition
    } else {
        ErrorCode::UnknownTopicId
    }
}
