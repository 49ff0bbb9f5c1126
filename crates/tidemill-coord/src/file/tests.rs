//! The file home keeps the contract, and its files keep what was answered.

use super::*;
use crate::contract::{Harness, contract};
use crate::key::Key;
use proptest::prelude::*;
use std::path::Path;
use tidemill_env::SimWorld;

const FOLDER: &str = "/node/coordinator";

fn open(world: &SimWorld) -> Result<FileCoordinator, CoordinatorError> {
    FileCoordinator::open(&world.world, Path::new(FOLDER))
}

/// Two handles of one home: the same process.
struct Handle(Arc<FileCoordinator>);

impl Coordinator for Handle {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        self.0.list(prefix)
    }
    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        self.0.commit(transaction)
    }
    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        self.0.watch(prefix, after)
    }
    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        self.0.grant_lease(ttl)
    }
    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.0.keep_alive(lease)
    }
    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.0.revoke_lease(lease)
    }
}

fn harness(_name: &str) -> Harness {
    let world = World::simulated(1);
    let home = Arc::new(open(&world).expect("a new folder"));
    let compacting = Arc::clone(&home);
    let clock = Arc::clone(&world.clock);
    Harness {
        coordinator: Box::new(Handle(Arc::clone(&home))),
        other: Box::new(Handle(home)),
        pass: Box::new(move |span| clock.advance(span.as_micros() as u64)),
        compact: Box::new(move |revision| compacting.compact(revision).expect("the home works")),
        prefix: String::new(),
    }
}

contract!(harness);

fn key(number: u32) -> Key {
    Key::new(format!("k/{number}")).expect("a short name")
}

fn put(
    home: &FileCoordinator,
    number: u32,
    value: &str,
) -> Result<CommitOutcome, CoordinatorError> {
    home.commit(&Transaction::new().put(&key(number), value))
}

#[test]
fn a_second_process_is_refused() {
    let world = World::simulated(1);
    let first = open(&world).expect("a new folder");
    let second = open(&world).err().expect("the first one has it");
    assert!(second.to_string().contains("another process"), "{second}");
    drop(first);
    open(&world).expect("the folder is free again");
}

#[test]
fn a_lease_lives_its_whole_time_after_a_restart() {
    let world = World::simulated(1);
    let home = open(&world).expect("a new folder");
    let ttl = Duration::from_secs(10);
    let lease = home.grant_lease(ttl).expect("answers");
    home.commit(&Transaction::new().put_leased(&key(1), "x", lease)).expect("answers");
    drop(home);
    world.clock.advance(60_000_000);
    let home = open(&world).expect("as it was left");
    assert_eq!(home.keep_alive(lease), Ok(()));
    world.clock.advance(10_000_001);
    assert_eq!(home.get(&key(1)), Ok(None));
}

#[test]
fn generations_follow_each_other_and_two_are_kept() {
    let world = World::simulated(1);
    let home = open(&world).expect("a new folder");
    let value = "x".repeat(10_000);
    for number in 0..200 {
        put(&home, number % 3, &value).expect("answers");
    }
    let files = generations(&world.world, Path::new(FOLDER)).expect("listed");
    assert_eq!(files.len(), GENERATIONS_KEPT);
    assert!(files[0] > 1, "{files:?}");
    let before = home.list("").expect("answers");
    drop(home);
    assert_eq!(open(&world).expect("as it was left").list(""), Ok(before));
}

#[test]
fn damage_is_an_error_and_deletes_nothing() {
    let world = World::simulated(1);
    let home = open(&world).expect("a new folder");
    for number in 0..10 {
        put(&home, number, "value").expect("answers");
    }
    drop(home);
    let newest = path(Path::new(FOLDER), 1);
    let disk = &world.world.disk;
    let bytes = disk.read(&newest).expect("is there");
    for at in [3, 9, 40, bytes.len() / 2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let mut file = disk.create(&newest).expect("can be made");
        file.append(&damaged).expect("has room");
        drop(file);
        let error = open(&world).err().expect("damage below the tail is told");
        assert!(error.to_string().contains("coordinator-0000000001.journal"), "{error}");
        assert_eq!(disk.read(&newest).expect("still there"), damaged);
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let world = World::simulated(1);
    drop(open(&world).expect("a new folder"));
    let newest = path(Path::new(FOLDER), 1);
    let mut bytes = Vec::new();
    journal::append(&mut bytes, &[COORDINATOR_VERSION + 1, 1, 2, 3]);
    let mut file = world.world.disk.create(&newest).expect("can be made");
    file.append(&bytes).expect("has room");
    drop(file);
    let error = open(&world).err().expect("it is of a newer program");
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn after_a_failed_sync_nothing_is_answered() {
    let world = World::simulated(1);
    let home = open(&world).expect("a new folder");
    put(&home, 1, "before").expect("answers");
    world.disk.fail_after(1);
    assert!(matches!(put(&home, 2, "lost"), Err(CoordinatorError::Failed(_))));
    assert!(matches!(put(&home, 3, "later"), Err(CoordinatorError::Failed(_))));
    assert!(matches!(home.list(""), Err(CoordinatorError::Failed(_))));
    drop(home);
    let home = open(&world).expect("as the disk has it");
    assert!(home.get(&key(1)).expect("answers").is_some());
    assert_eq!(home.get(&key(3)), Ok(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever was answered is there after a power cut at any moment.
    #[test]
    fn an_answered_commit_survives_a_power_cut(seed: u64, lives in prop::collection::vec(1usize..40, 1..5)) {
        let world = World::simulated(seed);
        let mut answered: Vec<(u32, String)> = Vec::new();
        let mut number = 0;
        for commits in lives {
            let home = open(&world).expect("as the power cut left it");
            for (key_number, value) in &answered {
                let found = home.get(&key(*key_number)).expect("answers").expect("was answered");
                prop_assert_eq!(found.value, value.as_bytes());
            }
            for _ in 0..commits {
                number += 1;
                let value = "v".repeat((seed % 977) as usize * (number as usize % 7));
                put(&home, number, &value).expect("the disk works");
                answered.push((number, value));
            }
            drop(home);
            world.disk.power_cut();
        }
        let home = open(&world).expect("as the power cut left it");
        prop_assert_eq!(home.list("").expect("answers").entries.len(), answered.len());
    }
}
