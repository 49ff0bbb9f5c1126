//! The machine by hand: scenes with known ends, and random ones against what must always hold.

mod model;
mod scenes;
mod statics;

use super::{
    join::Join,
    machine::{ConsumerGroup, Decision, Rules, StoreId},
    member::{JoinAnswer, SyncAnswer, Ticket},
    sync::Sync,
};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use tidemill_wire::{groups::GroupRecord, kafka::ErrorCode};

const SESSION_MS: u64 = 10_000;
const REBALANCE_MS: u64 = 60_000;

/// A group on a table, with all that was answered and is to be stored.
pub(super) struct Stage {
    pub(super) group: ConsumerGroup,
    pub(super) now_ms: u64,
    next_ticket: u64,
    next_id: u64,
    /// Tickets that wait for an answer.
    pub(super) waiting: BTreeMap<Ticket, &'static str>,
    pub(super) joined: BTreeMap<Ticket, JoinAnswer>,
    pub(super) synced: BTreeMap<Ticket, SyncAnswer>,
    pub(super) stores: VecDeque<(StoreId, GroupRecord)>,
}

/// How somebody asks to join.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) protocols: Vec<(&'static str, &'static str)>,
    pub(super) protocol_type: &'static str,
    pub(super) needs_known_id: bool,
    pub(super) may_skip: bool,
}

pub(super) fn asking(id: &str) -> Asking {
    Asking {
        id: id.to_owned(),
        instance: None,
        protocols: vec![("range", "about me")],
        protocol_type: "consumer",
        needs_known_id: false,
        may_skip: false,
    }
}

impl Stage {
    pub(super) fn new(initial_delay_ms: u64) -> Self {
        Self::with(Rules { members_max: 5, bytes_max: 1 << 20, initial_delay_ms })
    }

    pub(super) fn with(rules: Rules) -> Self {
        Self {
            group: ConsumerGroup::new(rules, 1_000),
            now_ms: 1_000,
            next_ticket: 0,
            next_id: 0,
            waiting: BTreeMap::new(),
            joined: BTreeMap::new(),
            synced: BTreeMap::new(),
            stores: VecDeque::new(),
        }
    }

    /// Takes what was decided; each answer must be waited for.
    pub(super) fn take(&mut self) {
        for decision in self.group.take_decisions() {
            match decision {
                Decision::Joined(ticket, answer) => {
                    assert_eq!(self.waiting.remove(&ticket), Some("join"), "{ticket:?}");
                    self.joined.insert(ticket, answer);
                }
                Decision::Synced(ticket, answer) => {
                    assert_eq!(self.waiting.remove(&ticket), Some("sync"), "{ticket:?}");
                    self.synced.insert(ticket, answer);
                }
                Decision::Store(id, record) => self.stores.push_back((id, record)),
            }
        }
    }

    fn ticket(&mut self, kind: &'static str) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.waiting.insert(ticket, kind);
        ticket
    }

    pub(super) fn join(&mut self, asking: Asking) -> Ticket {
        self.join_by(asking, |join| join)
    }

    /// Joins with something changed in the request.
    pub(super) fn join_by(&mut self, asking: Asking, change: impl FnOnce(Join) -> Join) -> Ticket {
        let ticket = self.ticket("join");
        self.next_id += 1;
        let protocol = |(name, metadata): (&str, &'static str)| {
            (name.to_owned(), Bytes::from_static(metadata.as_bytes()))
        };
        let join = Join {
            ticket,
            fresh_id: format!("m{}", self.next_id),
            member_id: asking.id,
            instance: asking.instance,
            client_id: "client".into(),
            client_host: "host".into(),
            protocol_type: asking.protocol_type.into(),
            protocols: asking.protocols.into_iter().map(protocol).collect(),
            session_ms: SESSION_MS,
            rebalance_ms: REBALANCE_MS,
            needs_known_id: asking.needs_known_id,
            may_skip: asking.may_skip,
        };
        self.group.join(self.now_ms, change(join));
        self.take();
        ticket
    }

    /// An answer that must be there.
    pub(super) fn answer(&self, ticket: Ticket) -> JoinAnswer {
        self.joined.get(&ticket).unwrap_or_else(|| panic!("{ticket:?} still waits")).clone()
    }

    pub(super) fn assignment(&self, ticket: Ticket) -> SyncAnswer {
        self.synced.get(&ticket).unwrap_or_else(|| panic!("{ticket:?} still waits")).clone()
    }

    pub(super) fn sync(
        &mut self,
        id: &str,
        generation: i32,
        assignments: &[(&str, &str)],
    ) -> Ticket {
        self.sync_as(id, None, generation, assignments)
    }

    pub(super) fn sync_as(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        assignments: &[(&str, &str)],
    ) -> Ticket {
        let ticket = self.ticket("sync");
        let assigned =
            |(id, what): &(&str, &str)| ((*id).to_owned(), Bytes::copy_from_slice(what.as_bytes()));
        let sync = Sync {
            ticket,
            member_id: id.to_owned(),
            instance: instance.map(str::to_owned),
            generation,
            protocol_type: None,
            protocol: None,
            assignments: assignments.iter().map(assigned).collect(),
        };
        self.group.sync(self.now_ms, sync);
        self.take();
        ticket
    }

    /// Answers the oldest wish to store something.
    pub(super) fn store(&mut self, is_stored: bool) -> GroupRecord {
        let (id, record) = self.stores.pop_front().expect("nothing is to be stored");
        self.group.stored(self.now_ms, id, is_stored);
        self.take();
        record
    }

    pub(super) fn heartbeat(&mut self, id: &str, generation: i32) -> Result<(), ErrorCode> {
        let outcome = self.group.heartbeat(self.now_ms, id, None, generation);
        self.take();
        outcome
    }

    pub(super) fn leave(&mut self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        let outcome = self.group.leave(self.now_ms, id, instance);
        self.take();
        outcome
    }

    pub(super) fn may_commit(&mut self, id: &str, generation: i32) -> Result<(), ErrorCode> {
        self.group.may_commit(self.now_ms, id, None, generation, false)
    }

    /// Time passes, and the alarm rings whenever it is set.
    pub(super) fn pass(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        let mut rings = 0;
        while self.group.alarm_ms() <= end_ms {
            self.now_ms = self.now_ms.max(self.group.alarm_ms());
            self.group.tick(self.now_ms);
            self.take();
            rings += 1;
            assert!(rings < 10_000, "the alarm never stops");
        }
        self.now_ms = end_ms;
    }

    pub(super) fn state(&self) -> &'static str {
        self.group.state_name()
    }

    /// One member alone in generation 1, stable.
    pub(super) fn one() -> (Self, String) {
        let mut stage = Self::new(0);
        let ticket = stage.join(asking(""));
        let id = stage.answer(ticket).member_id;
        stage.sync(&id, 1, &[(&id, "all")]);
        stage.store(true);
        assert_eq!((stage.state(), stage.group.generation()), ("Stable", 1));
        (stage, id)
    }

    /// Two members in generation 2, stable; the first leads.
    pub(super) fn two() -> (Self, String, String) {
        let (mut stage, first) = Self::one();
        let second = stage.join(asking(""));
        assert_eq!(stage.heartbeat(&first, 1), Err(ErrorCode::RebalanceInProgress));
        let again = stage.join(asking(&first));
        assert_eq!(stage.answer(again).members.len(), 2);
        let second = stage.answer(second).member_id;
        let followed = stage.sync(&second, 2, &[]);
        let led = stage.sync(&first, 2, &[(&first, "left"), (&second, "right")]);
        stage.store(true);
        assert_eq!(stage.assignment(led).assignment, "left");
        assert_eq!(stage.assignment(followed).assignment, "right");
        (stage, first, second)
    }
}
