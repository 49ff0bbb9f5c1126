//! Fetch sessions: which partitions a client reads, where it is, and which have something new.
//!
//! ```text
//! slots: a partition each ── interest ─▶ log       waits until there is something to read
//!          ▲ due: to be looked at     ◀─ wake ──   then the slot is due
//! ```
//!
//! A fetch looks at the slots that are due and at no others: with a thousand partitions of which
//! three have data, three are read. A session outlives its requests (KIP-227), and so do its
//! interests and its places in the log. A client without sessions has one per connection, which
//! its every request replaces in part.
//!
//! Some offsets move without new records: the start, and the watermark behind an open transaction.
//! The next answer tells them. All slots are searched for such moves when the log reports moved
//! starts, and else only the slots that wait for the end of a transaction.
//!
//! Invariant: a slot that is not due has an interest that has not fired. One with an error is
//! looked at, and told of, with every request: its cause may be gone by then.

use crate::fetch_answer::{PartitionAnswer, TopicAnswer};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_wire::kafka::{ErrorCode, KafkaString, KafkaUuid, text};
use tokio::sync::Notify;

mod cache;
mod slot;

pub(crate) use cache::{FetchSessions, SessionEpoch};
pub(crate) use slot::{FetchPlace, FetchPosition, FetchTopic, missing};
use slot::{SessionSlot, partition_of};

#[cfg(test)]
mod tests;

/// Memory of a partition: its slot, its interest, and its last answer.
const SLOT_BYTES: usize = 1_024;
/// Bytes of names that are counted as one partition: each name is there twice.
const NAME_BYTES: usize = SLOT_BYTES / 2;

/// Slots with news, and the waker of the fetch that waits for them.
#[derive(Debug, Default)]
pub(crate) struct SessionWaker {
    due: Mutex<Vec<u32>>,
    pub(crate) notify: Notify,
}

impl SessionWaker {
    fn ring(&self, slot: u32) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        self.notify.notify_one();
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.due.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Slots of one topic, by partition; never none.
struct TopicSlots {
    name: KafkaString,
    slots: BTreeMap<i32, u32>,
}

/// One client's partitions.
#[derive(Default)]
pub(crate) struct FetchSession {
    slots: BTreeMap<u32, SessionSlot>,
    /// Slots by topic and partition.
    places: BTreeMap<TopicKey, TopicSlots>,
    /// Bytes of the names of the topics in `places`.
    name_bytes: usize,
    round: u64,
    /// The round names all partitions that there are to be, and which come first.
    is_whole: bool,
    /// The count of partitions named in this round.
    named: u32,
    looks: u64,
    next_slot: u32,
    due: VecDeque<u32>,
    /// Slots that had an error when they were looked at last.
    failed: BTreeSet<u32>,
    /// Slots that wait for the end of a transaction, or did.
    held_back: BTreeSet<u32>,
    /// The log's count of starts that have moved, when all slots were looked through last.
    moves: u64,
    wake: Arc<SessionWaker>,
    committed: bool,
}

/// The bound of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerRoom {
    pub(crate) bytes: usize,
}

/// The result of reading the due slots.
#[derive(Default)]
pub(crate) struct DueRecords {
    slots: Vec<(u32, PartitionAnswer)>,
    /// Bytes of records.
    pub(crate) bytes: usize,
    /// A partition has an error to tell, or that its client's log is not this one.
    pub(crate) failed: bool,
    /// A partition has more than fits.
    pub(crate) full: bool,
}

impl DueRecords {
    /// Drops the records. A fetch that waits reads them again.
    pub(crate) fn let_go(&mut self) {
        for (_, answer) in &mut self.slots {
            answer.chunks = Vec::new();
            answer.aborted = None;
        }
    }
}

/// A topic's id and name.
type TopicKey = ([u8; 16], Vec<u8>);

fn key(id: KafkaUuid, name: &KafkaString) -> TopicKey {
    (id.to_bytes(), name.as_bytes().to_vec())
}

impl FetchSession {
    pub(crate) fn wake(&self) -> Arc<SessionWaker> {
        Arc::clone(&self.wake)
    }

    /// The count of its partitions.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The count of its partitions, with some more for long names.
    pub(crate) fn weight(&self) -> usize {
        self.slots.len() + self.name_bytes / NAME_BYTES
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.weight() * SLOT_BYTES
    }

    /// Readers of committed records wait for other things than others.
    pub(crate) fn set_committed(&mut self, committed: bool) {
        if self.committed != committed {
            self.committed = committed;
            let all: Vec<u32> = self.slots.keys().copied().collect();
            all.into_iter().for_each(|id| self.make_due(id));
        }
    }

    /// From now on partitions are asked for that belong together. If they are all that there are
    /// to be ([`Self::keep_asked`]), they are served in this order, as by Kafka: their client says
    /// which comes first. Else they take turns.
    pub(crate) fn begin_round(&mut self, is_whole: bool) {
        self.round += 1;
        (self.is_whole, self.named) = (is_whole, 0);
    }

    /// Adds partitions of a topic, or asks for other places of those that are there.
    pub(crate) fn ask(
        &mut self,
        (id, name): (KafkaUuid, &KafkaString),
        topic: Result<&FetchTopic, ErrorCode>,
        asked: impl Iterator<Item = (i32, FetchPosition)>,
    ) {
        let mut asked = asked.peekable();
        if asked.peek().is_none() {
            return;
        }
        let of_topic = self.places.entry(key(id, name)).or_insert_with(|| {
            self.name_bytes += name.len();
            // A copy: the session outlives the request.
            TopicSlots { name: text(name.as_str()), slots: BTreeMap::new() }
        });
        let name = &of_topic.name;
        for (index, asked) in asked {
            let slot_id = *of_topic.slots.entry(index).or_insert_with(|| {
                self.next_slot += 1;
                self.next_slot
            });
            let place = || (id, name.clone(), index);
            let slot = self.slots.entry(slot_id);
            let slot = slot.or_insert_with(|| SessionSlot::new(place(), asked.clone()));
            if slot.round != self.round {
                (slot.round, slot.order) = (self.round, self.named);
                self.named += 1;
            }
            let waits = slot.waits_for(&asked);
            slot.asked = asked;
            if waits {
                continue;
            }
            slot.lose_if_gone();
            if self.is_whole || slot.lost.is_none() {
                slot.partition = topic.and_then(|it| partition_of(it, &slot.place));
                slot.lost = None;
            }
            make_due(&mut self.slots, &mut self.due, slot_id);
        }
    }

    /// Looks for the topics of partitions that had errors: they may be there by now, or again.
    /// `is_name` says whether there is a topic of a name.
    pub(crate) fn mend(
        &mut self,
        find: impl Fn(&FetchPlace) -> Result<FetchTopic, ErrorCode>,
        is_name: impl Fn(&str) -> bool,
    ) {
        for id in std::mem::take(&mut self.failed) {
            if let Some(slot) = self.slots.get_mut(&id)
                && slot.partition.is_err()
            {
                let found = find(&slot.place).and_then(|it| partition_of(&it, &slot.place));
                slot.partition = found.map_err(|error| match slot.lost.as_deref() {
                    // Ids do not come again, but names do.
                    Some(name) if is_name(name) => ErrorCode::InconsistentTopicId,
                    Some(_) => ErrorCode::UnknownTopicOrPartition,
                    None => error,
                });
            }
        }
    }

    /// Drops partitions that a client no longer reads.
    pub(crate) fn forget(&mut self, place: &FetchPlace) {
        let topic = key(place.0, &place.1);
        let Some(of_topic) = self.places.get_mut(&topic) else { return };
        if let Some(id) = of_topic.slots.remove(&place.2) {
            self.slots.remove(&id);
            self.held_back.remove(&id);
        }
        if of_topic.slots.is_empty() {
            self.places.remove(&topic);
            self.name_bytes -= place.1.len();
        }
    }

    /// Drops all partitions but those that were asked for in this round.
    pub(crate) fn keep_asked(&mut self) {
        let (slots, round) = (&mut self.slots, self.round);
        if slots.values().all(|it| it.round == round) {
            return;
        }
        let name_bytes = &mut self.name_bytes;
        self.places.retain(|_, of_topic| {
            of_topic.slots.retain(|_, id| slots.get(id).is_some_and(|it| it.round == round));
            if of_topic.slots.is_empty() {
                *name_bytes -= of_topic.name.len();
            }
            !of_topic.slots.is_empty()
        });
        slots.retain(|_, slot| slot.round == round);
        self.held_back.retain(|id| slots.contains_key(id));
    }

    /// Slots of which something has moved that their clients do not know, as of this count of the log.
    fn moved(&mut self, moves: u64) -> Vec<u32> {
        let slots = &self.slots;
        self.held_back.retain(|id| slots.get(id).is_some_and(SessionSlot::is_held_back));
        let has_moved = |it: &SessionSlot| it.interest.is_some() && it.has_moved(self.committed);
        if std::mem::replace(&mut self.moves, moves) == moves {
            let held = self.held_back.iter().copied();
            return held.filter(|id| slots.get(id).is_some_and(has_moved)).collect();
        }
        slots.iter().filter(|(_, it)| has_moved(it)).map(|(id, _)| *id).collect()
    }

    /// Has partitions looked at of which something has moved, though there is nothing new to read.
    pub(crate) fn look_where_it_moved(&mut self, moves: u64) {
        for id in self.moved(moves) {
            self.make_due(id);
        }
    }

    /// Adds partitions that have moved since they were read.
    pub(crate) fn add_moved(&mut self, found: &mut DueRecords, moves: u64) {
        for id in self.moved(moves) {
            if let Some(slot) = self.slots.get(&id)
                && slot.looked != self.looks
            {
                found.slots.push((id, slot.nothing(self.committed)));
            }
        }
    }

    fn make_due(&mut self, id: u32) {
        make_due(&mut self.slots, &mut self.due, id);
    }

    /// Reads the due slots as far as there is room. The partitions of `before` are read again, so
    /// that an answer that waited for more has them in one piece.
    pub(crate) fn look(&mut self, room: AnswerRoom, before: DueRecords) -> DueRecords {
        for (id, _) in before.slots.iter().rev() {
            if let Some(slot) = self.slots.get_mut(id)
                && !slot.is_due
            {
                slot.is_due = true;
                self.due.push_front(*id);
            }
        }
        for id in self.wake.take() {
            self.make_due(id);
        }
        if self.is_whole {
            let order = |id: &u32| self.slots.get(id).map(|it| it.order);
            self.due.make_contiguous().sort_by_key(order);
        }
        self.looks += 1;
        let mut found = DueRecords::default();
        let (mut hungry, mut fed) = (Vec::new(), Vec::new());
        while let Some(id) = self.due.pop_front() {
            if found.bytes >= room.bytes && found.bytes > 0 {
                self.due.push_front(id);
                break;
            }
            let wake = &self.wake;
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.is_due = false;
            slot.looked = self.looks;
            let left = room.bytes.saturating_sub(found.bytes);
            let (answer, full) = slot.read(left, found.bytes == 0, self.committed);
            let (bytes, failed) = (answer.bytes(), answer.is_urgent());
            if failed {
                self.failed.insert(id);
            }
            if bytes > 0 {
                // There may be more, and the client will come back for it.
                fed.push(id);
            } else if failed || full {
                hungry.push(id);
            } else {
                slot.wait(id, wake, self.committed);
                if slot.is_held_back() {
                    self.held_back.insert(id);
                }
            }
            found.bytes += bytes;
            found.failed |= failed;
            found.full |= full;
            found.slots.push((id, answer));
        }
        // Whoever got nothing for want of room comes first next time.
        for id in hungry.into_iter().chain(fed) {
            self.make_due(id);
        }
        found
    }

    /// Waits for more records in the partitions that were found.
    pub(crate) fn wait_for_more(&mut self, found: &DueRecords) {
        for (id, answer) in &found.slots {
            if let Some(slot) = self.slots.get_mut(id)
                && answer.bytes() > 0
            {
                slot.wait(*id, &self.wake, self.committed);
                if slot.is_held_back() {
                    self.held_back.insert(*id);
                }
            }
        }
    }

    /// The answer: all partitions found, or only those with news for the client.
    pub(crate) fn tell(&mut self, found: DueRecords, all: bool) -> Vec<TopicAnswer> {
        let mut topics: Vec<TopicAnswer> = Vec::new();
        for (id, answer) in found.slots {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            let now = answer.reach();
            let news = slot.told != Some(now) || answer.is_urgent();
            if !all && !news && answer.chunks.is_empty() {
                continue;
            }
            slot.told = Some(now);
            match topics.last_mut() {
                Some(last) if last.id == slot.place.0 && last.name == slot.place.1 => {
                    last.partitions.push(answer);
                }
                _ => topics.push(TopicAnswer {
                    name: slot.place.1.clone(),
                    id: slot.place.0,
                    partitions: vec![answer],
                }),
            }
        }
        topics
    }

    /// Says anew how far the partitions go in which nothing was found: that was a while ago.
    pub(crate) fn renew(&self, found: &mut DueRecords) {
        for (id, answer) in &mut found.slots {
            if let Some(slot) = self.slots.get(id) {
                *answer = slot.nothing(self.committed);
            }
        }
    }

    /// Answers for slots that were not looked at, as a client without sessions expects them: in
    /// the order in which it asked.
    pub(crate) fn fill(&self, found: &mut DueRecords) {
        for (id, slot) in &self.slots {
            if slot.looked != self.looks {
                found.slots.push((*id, slot.nothing(self.committed)));
            }
        }
        found.slots.sort_by_key(|(id, _)| self.slots.get(id).map(|it| it.order));
    }
}

fn make_due(slots: &mut BTreeMap<u32, SessionSlot>, due: &mut VecDeque<u32>, id: u32) {
    if let Some(slot) = slots.get_mut(&id)
        && !slot.is_due
    {
        slot.is_due = true;
        slot.interest = None;
        due.push_back(id);
    }
}
