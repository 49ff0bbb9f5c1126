//! Members that do anything in any order, and stores that fail: what must hold whatever they do.

use super::{Asking, Stage, asking};
use crate::group::member::Ticket;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_wire::kafka::ErrorCode;

const SLOTS: usize = 4;
const PARTITIONS: usize = 6;

#[derive(Clone, Debug)]
enum Act {
    /// With the id that it has, or as a stranger.
    Join {
        slot: usize,
        as_stranger: bool,
        changed: bool,
    },
    /// As the leader, if it is; how it assigns depends on the number.
    Sync {
        slot: usize,
        deal: usize,
    },
    Heartbeat {
        slot: usize,
    },
    Commit {
        slot: usize,
        older: i32,
    },
    Leave {
        slot: usize,
    },
    Store {
        is_stored: bool,
    },
    Pass {
        ms: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let slot = || 0..SLOTS;
    prop_oneof![
        5 => (slot(), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(slot, as_stranger, changed)| Act::Join { slot, as_stranger, changed }),
        5 => (slot(), 0usize..9).prop_map(|(slot, deal)| Act::Sync { slot, deal }),
        2 => slot().prop_map(|slot| Act::Heartbeat { slot }),
        2 => (slot(), 0i32..2).prop_map(|(slot, older)| Act::Commit { slot, older }),
        1 => slot().prop_map(|slot| Act::Leave { slot }),
        4 => prop::bool::weighted(0.9).prop_map(|is_stored| Act::Store { is_stored }),
        2 => (0u64..20_000).prop_map(|ms| Act::Pass { ms }),
    ]
}

/// What one client knows.
#[derive(Debug, Default)]
struct Slot {
    id: String,
    generation: i32,
    /// As the leader was told.
    members: Vec<String>,
    join: Option<Ticket>,
    sync: Option<(Ticket, i32)>,
    is_assigned: bool,
}

/// The last two slots are static members; the odd ones need a promised id.
struct Play {
    stage: Stage,
    slots: Vec<Slot>,
    /// Who owns a partition in a generation.
    owners: BTreeMap<(i32, u8), String>,
}

impl Play {
    fn new(initial_delay_ms: u64) -> Self {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Self { stage: Stage::new(initial_delay_ms), slots, owners: BTreeMap::new() }
    }

    fn instance(slot: usize) -> Option<String> {
        (slot >= SLOTS / 2).then(|| format!("static {slot}"))
    }

    fn join(&mut self, slot: usize, as_stranger: bool, changed: bool) {
        let id = if as_stranger { String::new() } else { self.slots[slot].id.clone() };
        let protocols = if changed { vec![("range", "other")] } else { vec![("range", "one")] };
        let asking = Asking {
            protocols,
            instance: Self::instance(slot),
            needs_known_id: slot % 2 == 1,
            may_skip: slot.is_multiple_of(2),
            ..asking(&id)
        };
        let ticket = self.stage.join(asking);
        self.slots[slot].join = Some(ticket);
    }

    fn sync(&mut self, slot: usize, deal: usize) {
        let it = &self.slots[slot];
        let partitions = (0..PARTITIONS).map(|it| (b'0' + it as u8) as char);
        let mut shares: BTreeMap<&str, String> = BTreeMap::new();
        for (at, partition) in partitions.enumerate() {
            if let Some(member) = it.members.get((at + deal) % it.members.len().max(1)) {
                shares.entry(member).or_default().push(partition);
            }
        }
        let shares: Vec<(&str, &str)> = shares.iter().map(|(id, it)| (*id, it.as_str())).collect();
        let (id, generation) = (it.id.clone(), it.generation);
        let ticket = self.stage.sync_as(&id, Self::instance(slot).as_deref(), generation, &shares);
        self.slots[slot].sync = Some((ticket, generation));
    }

    /// Lets the clients read their answers.
    fn read(&mut self) {
        for (slot, it) in self.slots.iter_mut().enumerate() {
            if let Some(answer) = it.join.and_then(|ticket| self.stage.joined.remove(&ticket)) {
                it.join = None;
                match answer.error {
                    ErrorCode::None => {
                        it.id = answer.member_id;
                        it.generation = answer.generation;
                        it.members = answer.members.into_iter().map(|it| it.0).collect();
                        it.is_assigned = false;
                        if answer.skip_assignment {
                            it.members.clear();
                        }
                    }
                    ErrorCode::MemberIdRequired => it.id = answer.member_id,
                    ErrorCode::UnknownMemberId
                    | ErrorCode::FencedInstanceId
                    | ErrorCode::GroupMaxSizeReached => it.id.clear(),
                    ErrorCode::RebalanceInProgress | ErrorCode::CoordinatorNotAvailable => {}
                    other => panic!("an answer to a join is {other:?}"),
                }
            }
            let Some((ticket, generation)) = it.sync else { continue };
            let Some(answer) = self.stage.synced.remove(&ticket) else { continue };
            it.sync = None;
            it.is_assigned = answer.error == ErrorCode::None;
            if !it.is_assigned {
                continue;
            }
            // One owner of a partition in a generation, whoever asks for it how often. A static
            // member that comes back is the same owner under another id.
            let owner = Self::instance(slot).unwrap_or_else(|| it.id.clone());
            for partition in &answer.assignment[..] {
                let owner = owner.clone();
                let known = self.owners.entry((generation, *partition)).or_insert(owner.clone());
                assert_eq!(*known, owner, "partition {partition} in generation {generation}");
            }
        }
    }

    fn play(&mut self, act: &Act) {
        match *act {
            Act::Join { slot, as_stranger, changed } => self.join(slot, as_stranger, changed),
            Act::Sync { slot, deal } => self.sync(slot, deal),
            Act::Heartbeat { slot } => {
                let it = &self.slots[slot];
                let (id, instance) = (it.id.clone(), Self::instance(slot));
                let now_ms = self.stage.now_ms;
                let _any =
                    self.stage.group.heartbeat(now_ms, &id, instance.as_deref(), it.generation);
            }
            Act::Commit { slot, older } => {
                let it = &self.slots[slot];
                let (generation, instance) = (it.generation - older, Self::instance(slot));
                let now_ms = self.stage.now_ms;
                let id = it.id.clone();
                let group = &mut self.stage.group;
                let before = group.generation();
                let is_member = group.members().any(|member| member.id == id);
                let outcome = group.may_commit(now_ms, &id, instance.as_deref(), generation, false);
                // K7: whoever is no member of this generation changes nothing.
                if outcome.is_ok() && generation >= 0 {
                    assert!(is_member && generation == before, "a zombie commits");
                }
            }
            Act::Leave { slot } => {
                let id = self.slots[slot].id.clone();
                let _any = self.stage.leave(&id, Self::instance(slot).as_deref());
            }
            Act::Store { is_stored } => {
                if !self.stage.stores.is_empty() {
                    self.stage.store(is_stored);
                }
            }
            Act::Pass { ms } => self.stage.pass(ms),
        }
        self.stage.take();
        self.read();
    }

    fn store_all(&mut self) {
        while !self.stage.stores.is_empty() {
            self.stage.store(true);
        }
        self.read();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn whatever_members_do(
        delay in prop_oneof![Just(0u64), Just(500)],
        acts in prop::collection::vec(act(), 0..120),
        everybody_stays in any::<bool>(),
    ) {
        let mut play = Play::new(delay);
        acts.iter().for_each(|act| play.play(act));
        if everybody_stays {
            // Good clients from here on: within a minute or so all are in one generation.
            for _ in 0..200 {
                play.store_all();
                for slot in 0..SLOTS {
                    let it = &play.slots[slot];
                    if it.join.is_some() || it.sync.is_some() {
                        continue;
                    }
                    let (id, generation) = (it.id.clone(), it.generation);
                    let instance = Play::instance(slot);
                    let now_ms = play.stage.now_ms;
                    let alive =
                        play.stage.group.heartbeat(now_ms, &id, instance.as_deref(), generation);
                    play.stage.take();
                    match alive {
                        Ok(()) if it.is_assigned => {}
                        Ok(()) => play.sync(slot, 0),
                        Err(ErrorCode::UnknownMemberId) if it.generation == 0 && !id.is_empty() => {
                            play.join(slot, false, false);
                        }
                        Err(ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) => {
                            play.slots[slot].generation = 0;
                            play.join(slot, true, false);
                        }
                        Err(_) => play.join(slot, false, false),
                    }
                    play.play(&Act::Pass { ms: 0 });
                }
                play.store_all();
                play.play(&Act::Pass { ms: 1_000 });
            }
            prop_assert_eq!(play.stage.state(), "Stable");
            prop_assert_eq!(play.stage.group.members().count(), SLOTS);
            prop_assert!(play.stage.waiting.is_empty(), "{:?}", play.stage.waiting);
            let generation = play.stage.group.generation();
            let owned = play.owners.keys().filter(|it| it.0 == generation).count();
            prop_assert_eq!(owned, PARTITIONS);
        } else {
            // Silence: nobody is waited for for ever, and nobody waits.
            for _ in 0..20 {
                play.store_all();
                play.stage.pass(100_000);
            }
            play.store_all();
            prop_assert_eq!(play.stage.state(), "Empty");
            prop_assert!(play.stage.waiting.is_empty(), "{:?}", play.stage.waiting);
            prop_assert_eq!(play.stage.group.alarm_ms(), u64::MAX);
        }
    }
}
