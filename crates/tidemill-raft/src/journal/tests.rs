//! The journal keeps what it answered, over kills, power cuts and generations.

use super::*;
use crate::{
    log_storage::LogStorage,
    machine::{Machine, MachineHandle},
};
use openraft::{
    CommittedLeaderId, EntryPayload, StorageError,
    testing::{StoreBuilder, Suite},
};
use proptest::prelude::*;
use std::sync::Arc;
use tidemill_coord::{Key, Transaction, table::Command};
use tidemill_env::{SimWorld, lock::Mutex};

const FOLDER: &str = "/node/raft";

fn open(world: &SimWorld) -> io::Result<RaftJournal> {
    RaftJournal::open(&world.world, Path::new(FOLDER))
}

fn log_id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

fn entry(term: u64, index: u64) -> Entry<TableRaft> {
    let key = Key::new(format!("key-{index}")).expect("a short name");
    let command = Command::Commit(Transaction::new().put(&key, vec![7; (index % 300) as usize]));
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(command) }
}

/// The library's own suite of storage tests.
struct Builder;

impl StoreBuilder<TableRaft, LogStorage, MachineHandle> for Builder {
    async fn build(&self) -> Result<((), LogStorage, MachineHandle), StorageError<u64>> {
        let world = World::simulated(1);
        let journal = open(&world).expect("a new folder");
        let machine = Machine::open(&world.world, Path::new(FOLDER)).expect("a new folder");
        let storage = LogStorage(Arc::new(Mutex::new(journal)));
        Ok(((), storage, MachineHandle(Arc::new(machine))))
    }
}

#[test]
fn the_storage_passes_the_suite_of_the_library() {
    Suite::test_all(Builder).expect("each test of the suite passes");
}

#[test]
fn a_folder_keeps_its_id_and_a_new_one_has_another() {
    let (one, other) = (World::simulated(1), World::simulated(2));
    let directory = open(&one).expect("a new folder").directory();
    assert_eq!(open(&one).expect("as it was left").directory(), directory);
    assert_ne!(open(&other).expect("a new folder").directory(), directory);
}

#[test]
fn damage_is_an_error_and_deletes_nothing() {
    let world = World::simulated(1);
    let mut journal = open(&world).expect("a new folder");
    for index in 1..20 {
        journal.append(vec![entry(1, index)]).expect("the disk works");
    }
    drop(journal);
    let newest = path(Path::new(FOLDER), 1);
    let disk = &world.world.disk;
    let bytes = disk.read(&newest).expect("is there");
    for at in [3, 9, 40, bytes.len() / 2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        world.disk.put(&newest, &damaged);
        let error = open(&world).err().expect("damage before the tail is told");
        assert!(error.to_string().contains("raft-0000000001.journal"), "{error}");
        assert_eq!(disk.read(&newest).expect("still there"), damaged);
    }
}

#[test]
fn after_a_failed_sync_nothing_is_taken() {
    let world = World::simulated(1);
    let mut journal = open(&world).expect("a new folder");
    journal.append(vec![entry(1, 1)]).expect("the disk works");
    world.disk.fail_after(1);
    assert!(journal.append(vec![entry(1, 2)]).is_err());
    assert!(journal.save_vote(Vote::new(2, 1)).is_err());
    assert_eq!(journal.last(), Some(log_id(1, 1)));
}

#[test]
fn a_hole_is_refused() {
    let world = World::simulated(1);
    let mut journal = open(&world).expect("a new folder");
    journal.append(vec![entry(1, 1)]).expect("the disk works");
    assert!(journal.append(vec![entry(1, 3)]).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Vote,
    Truncate(u64),
    Purge(u64),
    Reopen,
    Kill,
    PowerCut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u64..60).prop_map(Step::Append),
        1 => Just(Step::Vote),
        1 => (0u64..10).prop_map(Step::Truncate),
        1 => (0u64..40).prop_map(Step::Purge),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        1 => Just(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_answered_call_survives_all_ends_of_a_process(seed: u64, steps in steps()) {
        let world = World::simulated(seed);
        let mut journal = open(&world).expect("a new folder");
        // The reference: a vector and two values.
        let mut entries: Vec<Entry<TableRaft>> = Vec::new();
        let (mut purged, mut vote, mut term) = (None, None, 1);
        for step in steps {
            match step {
                Step::Append(count) => {
                    let last = entries.last().map(|it| it.log_id).or(purged);
                    let next = last.map_or(1, |it: LogId<u64>| it.index + 1);
                    let new: Vec<_> = (next..next + count).map(|index| entry(term, index)).collect();
                    journal.append(new.clone()).expect("the disk works");
                    entries.extend(new);
                }
                Step::Vote => {
                    term += 1;
                    vote = Some(Vote::new(term, seed % 3));
                    journal.save_vote(vote.expect("just made")).expect("the disk works");
                }
                Step::Truncate(back) => {
                    let Some(last) = entries.last().map(|it| it.log_id.index) else { continue };
                    let from = last.saturating_sub(back).max(entries[0].log_id.index);
                    journal.truncate(from).expect("the disk works");
                    entries.retain(|it| it.log_id.index < from);
                }
                Step::Purge(at) => {
                    let Some(chosen) = entries.get(at as usize).map(|it| it.log_id) else { continue };
                    journal.purge(chosen).expect("the disk works");
                    entries.retain(|it| it.log_id.index > chosen.index);
                    purged = Some(chosen);
                }
                Step::Reopen | Step::Kill | Step::PowerCut => {
                    drop(journal);
                    match step {
                        Step::Kill => world.disk.kill(),
                        Step::PowerCut => world.disk.power_cut(),
                        _ => {}
                    }
                    journal = open(&world).expect("as the process left it");
                }
            }
            let found: Vec<_> = journal.entries(..).cloned().collect();
            prop_assert_eq!(&found, &entries);
            prop_assert_eq!((journal.vote(), journal.purged()), (vote, purged));
        }
    }
}
