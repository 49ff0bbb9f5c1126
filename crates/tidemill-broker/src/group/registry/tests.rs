//! The registry on the simulated disk: what is in memory is what is stored, whatever happens.

use super::*;
use crate::group::offsets::TopicPartition;
use proptest::prelude::*;
use std::path::Path;
use tidemill_env::{Disk, SimWorld};
use tidemill_types::ByteSize;

mod limits;

const RETENTION_MS: u64 = 1_000_000;

struct Node {
    sim: SimWorld,
    store: Arc<MetadataStore>,
    groups: Arc<GroupRegistry>,
}

fn settings() -> GroupSettings {
    GroupSettings {
        initial_delay_ms: 0,
        offsets_retention_ms: RETENTION_MS,
        groups: 20,
        offsets: 100,
        group_bytes: ByteSize(1 << 20),
        ..GroupSettings::default()
    }
}

fn open(sim: &SimWorld) -> (Arc<MetadataStore>, Arc<GroupRegistry>) {
    let store = Arc::new(MetadataStore::open(&sim.world, Path::new("data/broker.redb")).unwrap());
    let groups = GroupRegistry::open(&sim.world, Arc::clone(&store), settings()).unwrap();
    (store, groups)
}

impl Node {
    fn new(seed: u64) -> Self {
        let sim = World::simulated(seed);
        sim.disk.create_dir_all(Path::new("data")).unwrap();
        sim.disk.sync_dir(Path::new("")).unwrap();
        let (store, groups) = open(&sim);
        Self { sim, store, groups }
    }

    /// The power is cut, or the process killed; then it starts again.
    fn restart(&mut self, power_cut: bool) {
        if power_cut {
            self.sim.disk.power_cut()
        } else {
            self.sim.disk.kill()
        }
        // The file is not closed in order: its handle is dead already.
        self.store.close();
        (self.store, self.groups) = open(&self.sim);
    }

    /// Waits until the store has answered for all that it was given.
    fn settle(&self) {
        self.store.commit_blocking(StoreBatch::default()).unwrap();
    }

    fn live(&self) -> BTreeMap<String, GroupOffsets> {
        offsets(&self.groups)
    }

    /// What a restart would find.
    fn stored(&self) -> BTreeMap<String, GroupOffsets> {
        offsets(&GroupRegistry::open(&self.sim.world, Arc::clone(&self.store), settings()).unwrap())
    }
}

fn offsets(groups: &GroupRegistry) -> BTreeMap<String, GroupOffsets> {
    let all = groups.all().into_iter().map(|it| (it.id.clone(), it.lock().offsets.clone()));
    all.filter(|(_, offsets)| !offsets.is_empty()).collect()
}

fn nobody(group: &str) -> RequestSender {
    RequestSender {
        group: group.to_owned(),
        member_id: String::new(),
        instance: None,
        generation: -1,
    }
}

fn place(number: u32) -> TopicPartition {
    (format!("topic {}", number % 2), number / 2)
}

fn offset(offset: i64) -> NewOffset {
    NewOffset { offset, leader_epoch: 1, topic_id: [3; 16], metadata: format!("at {offset}") }
}

fn joining(group: &str, id: &str) -> Joining {
    Joining {
        group: group.to_owned(),
        member_id: id.to_owned(),
        instance: None,
        client_id: "client".into(),
        client_host: "host".into(),
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), vec![1].into())],
        session_ms: 10_000,
        rebalance_ms: 60_000,
        needs_known_id: false,
        may_skip: false,
    }
}

async fn enter(groups: &Arc<GroupRegistry>, group: &str) -> RequestSender {
    let joined = groups.join(joining(group, "")).await;
    assert_eq!(joined.error, ErrorCode::None);
    let sender = RequestSender {
        group: group.to_owned(),
        member_id: joined.member_id.clone(),
        instance: None,
        generation: joined.generation,
    };
    let assignments = BTreeMap::from([(joined.member_id, vec![7].into())]);
    let syncing =
        Syncing { sender: sender.clone(), protocol_type: None, protocol: None, assignments };
    assert_eq!(groups.sync(syncing).await.assignment, vec![7]);
    sender
}

/// Something that happens to offsets.
#[derive(Clone, Debug)]
enum Act {
    Commit { group: u8, place: u32, waits: bool },
    Stage { group: u8, producer: i64, place: u32, waits: bool },
    End { group: u8, producer: i64, commit: bool },
    DeleteOffset { group: u8, place: u32 },
    DeleteGroup { group: u8 },
    Sweep { after_ms: u64 },
    Restart { power_cut: bool },
}

fn act() -> impl Strategy<Value = Act> {
    let (group, place, producer) = (0u8..3, 0u32..4, 0i64..3);
    prop_oneof![
        6 => (group.clone(), place.clone(), any::<bool>())
            .prop_map(|(group, place, waits)| Act::Commit { group, place, waits }),
        6 => (group.clone(), producer.clone(), place.clone(), any::<bool>()).prop_map(
            |(group, producer, place, waits)| Act::Stage { group, producer, place, waits }
        ),
        4 => (group.clone(), producer, any::<bool>())
            .prop_map(|(group, producer, commit)| Act::End { group, producer, commit }),
        2 => (group.clone(), place).prop_map(|(group, place)| Act::DeleteOffset { group, place }),
        1 => group.prop_map(|group| Act::DeleteGroup { group }),
        2 => (0..RETENTION_MS).prop_map(|after_ms| Act::Sweep { after_ms }),
        1 => any::<bool>().prop_map(|power_cut| Act::Restart { power_cut }),
    ]
}

/// What offsets must be there: offset and age, and what producers hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    committed: BTreeMap<(String, TopicPartition), (i64, u64)>,
    held: BTreeMap<(String, i64, TopicPartition), (i64, u64)>,
}

impl Model {
    fn of(live: &BTreeMap<String, GroupOffsets>) -> Self {
        let mut model = Self::default();
        for (group, offsets) in live {
            for (place, it) in offsets.all() {
                assert_eq!(it.metadata, format!("at {}", it.offset));
                model.committed.insert((group.clone(), place.clone()), (it.offset, it.since_ms));
            }
            for (producer, held) in offsets.pending() {
                for (place, it) in held {
                    let key = (group.clone(), *producer, place.clone());
                    model.held.insert(key, (it.offset, it.since_ms));
                }
            }
        }
        model
    }

    fn is_held(&self, group: &str, place: &TopicPartition) -> bool {
        self.held.keys().any(|it| it.0 == group && it.2 == *place)
    }

    fn end(&mut self, group: &str, producer: i64, commit: bool) {
        let mut held = BTreeMap::new();
        self.held.retain(|key, it| {
            let ends = key.0 == group && key.1 == producer;
            if ends {
                held.insert((key.0.clone(), key.2.clone()), *it);
            }
            !ends
        });
        if commit {
            self.committed.extend(held);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// R11: commits, transactions' offsets and their ends, deletions and retention in any order,
    /// with and without waiting, between restarts: memory, store and model are one.
    #[test]
    fn r11_what_is_in_memory_is_what_is_stored(
        seed in 0u64..100,
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut node = Node::new(seed);
        let mut model = Model::default();
        for (number, act) in (100i64..).zip(acts) {
            let now_ms = node.groups.now_ms();
            match act {
                Act::Commit { group, place, waits } => {
                    let (group, place) = (format!("g{group}"), self::place(place));
                    let offsets = vec![(place.clone(), offset(number))];
                    let begun = node.groups.begin_write(&nobody(&group), offsets, None);
                    if waits {
                        runtime.block_on(commits::done(begun.unwrap())).unwrap();
                    }
                    model.committed.insert((group, place), (number, now_ms));
                }
                Act::Stage { group, producer, place, waits } => {
                    let (group, place) = (format!("g{group}"), self::place(place));
                    let offsets = vec![(place.clone(), offset(number))];
                    let begun = node.groups.begin_write(&nobody(&group), offsets, Some(producer));
                    if waits {
                        runtime.block_on(commits::done(begun.unwrap())).unwrap();
                    }
                    model.held.insert((group, producer, place), (number, now_ms));
                }
                Act::End { group, producer, commit } => {
                    let group = format!("g{group}");
                    let ended = node.groups.end_transaction(&group, producer, commit);
                    runtime.block_on(ended).unwrap();
                    model.end(&group, producer, commit);
                }
                Act::DeleteOffset { group, place } => {
                    let (group, place) = (format!("g{group}"), self::place(place));
                    let gone = node.groups.delete_offsets(&group, vec![place.clone()]);
                    let codes = runtime.block_on(gone);
                    prop_assert!(matches!(codes, Ok(_) | Err(ErrorCode::GroupIdNotFound)));
                    model.committed.remove(&(group, place));
                }
                Act::DeleteGroup { group } => {
                    let group = format!("g{group}");
                    let gone = runtime.block_on(node.groups.delete(&group));
                    prop_assert!(matches!(gone, Ok(()) | Err(ErrorCode::GroupIdNotFound)));
                    model.committed.retain(|it, _| it.0 != group);
                    model.held.retain(|it, _| it.0 != group);
                }
                Act::Sweep { after_ms } => {
                    node.settle();
                    node.sim.clock.advance(after_ms * 1000);
                    // The wall clock is nothing to go by.
                    node.sim.clock.jump_wall(i64::MAX / 4);
                    let now_ms = node.groups.now_ms();
                    node.groups.sweep();
                    node.settle();
                    let before = model.clone();
                    model.committed.retain(|it, (_, since_ms)| {
                        before.is_held(&it.0, &it.1) || *since_ms + RETENTION_MS >= now_ms
                    });
                }
                Act::Restart { power_cut } => {
                    node.settle();
                    node.restart(power_cut);
                }
            }
        }
        node.settle();
        let live = node.live();
        prop_assert_eq!(&live, &node.stored());
        prop_assert_eq!(&Model::of(&live), &model);
        let count = node.groups.offset_count.load(Ordering::Relaxed);
        prop_assert_eq!(count, model.committed.len() + model.held.len());
        node.restart(true);
        prop_assert_eq!(&node.live(), &live);
    }
}

/// R11, with all at once: many tasks on few groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r11_tasks_that_race_leave_memory_and_store_as_one() {
    for seed in 0..10 {
        let node = Node::new(seed);
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8u64 {
            let (groups, mut random) = (Arc::clone(&node.groups), node.sim.world.random(task));
            tasks.spawn(async move {
                for number in 0..100 {
                    let group = format!("g{}", random.below(2));
                    let place = place(random.below(4) as u32);
                    let producer = random.below(2) as i64;
                    let offsets = vec![(place.clone(), offset(number))];
                    let sender = nobody(&group);
                    // Each may be refused while its group is deleted.
                    match random.below(12) {
                        0..4 => drop(groups.commit(&sender, offsets).await),
                        4..7 => drop(groups.stage(&sender, producer, offsets).await),
                        7..10 => {
                            let commit = random.below(2) == 0;
                            groups.end_transaction(&group, producer, commit).await.unwrap();
                        }
                        10 => drop(groups.delete_offsets(&group, vec![place]).await),
                        _ => drop(groups.delete(&group).await),
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        node.settle();
        assert_eq!(node.live(), node.stored());
    }
}

#[tokio::test]
async fn members_and_their_assignments_survive_a_restart() {
    let mut node = Node::new(1);
    let sender = enter(&node.groups, "g").await;
    node.groups.commit(&sender, vec![(place(1), offset(5))]).await.unwrap();
    node.restart(true);
    assert_eq!(node.groups.heartbeat(&sender), Ok(()));
    let (sender, assignments) = (sender.clone(), BTreeMap::new());
    let again =
        Syncing { sender: sender.clone(), protocol_type: None, protocol: None, assignments };
    assert_eq!(node.groups.sync(again).await.assignment, vec![7]);
    node.groups.commit(&sender, vec![(place(1), offset(6))]).await.unwrap();
    // Its session goes on: it ends if the member did not survive.
    node.sim.clock.advance(9_999_000);
    node.groups.tick();
    assert_eq!(node.groups.heartbeat(&sender), Ok(()));
    node.sim.clock.advance(10_000_000);
    node.groups.tick();
    assert_eq!(node.groups.heartbeat(&sender), Err(ErrorCode::UnknownMemberId));
    assert_eq!(node.groups.describe("g").unwrap().state, "Empty");
    // The generation goes on too.
    node.settle();
    node.restart(true);
    assert_eq!(enter(&node.groups, "g").await.generation, sender.generation + 2);
}

#[tokio::test]
async fn what_is_not_stored_is_not_there() {
    let mut node = Node::new(2);
    node.groups.commit(&nobody("g"), vec![(place(1), offset(1))]).await.unwrap();
    node.sim.disk.fail_sync_after(0);
    let unavailable = Err(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(node.groups.commit(&nobody("g"), vec![(place(1), offset(2))]).await, unavailable);
    assert_eq!(node.groups.commit(&nobody("g"), vec![(place(1), offset(3))]).await, unavailable);
    assert_eq!(node.groups.stage(&nobody("g"), 1, vec![(place(1), offset(3))]).await, unavailable);
    assert_eq!(node.groups.delete("g").await, unavailable);
    let seen = node.groups.offsets("g", |it| it.get(&place(1)).unwrap().offset);
    assert_eq!(seen, Some(1));
    // Members can be in groups, but are assigned nothing.
    let joined = node.groups.join(joining("h", "")).await;
    assert_eq!(joined.error, ErrorCode::None);
    let (member_id, generation) = (joined.member_id, joined.generation);
    let sender = RequestSender { group: "h".into(), member_id, instance: None, generation };
    let assignments = BTreeMap::new();
    let sync = Syncing { sender, protocol_type: None, protocol: None, assignments };
    assert_eq!(node.groups.sync(sync).await.error, ErrorCode::CoordinatorNotAvailable);
    node.restart(true);
    node.groups.commit(&nobody("g"), vec![(place(1), offset(4))]).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_commits_until_there_is_room() {
    let node = Node::new(3);
    node.groups.commit(&nobody("g"), vec![(place(1), offset(1))]).await.unwrap();
    node.sim.disk.set_capacity(node.sim.disk.used());
    let long = NewOffset { metadata: "x".repeat(3 << 20), ..offset(2) };
    let refused = node.groups.commit(&nobody("g"), vec![(place(1), long.clone())]).await;
    assert_eq!(refused, Err(ErrorCode::CoordinatorNotAvailable));
    node.sim.disk.set_capacity(u64::MAX);
    node.groups.commit(&nobody("g"), vec![(place(1), long)]).await.unwrap();
    assert_eq!(node.live(), node.stored());
}
