//! The contract on a store in memory that is killed at any of its operations.

use super::*;
use crate::{contract, store::OwnerCheck};
use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
};
use tidemill_checkpoints::{CheckpointError, Checkpoints, Manifest, RunRef, SavedStage};
use tidemill_env::Random;
use tidemill_state::Delta;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceId, SliceKey, StageIx};

type Values = BTreeMap<Vec<u8>, Bytes>;

/// A server as bad as the contract of [`Store`] permits: requests side by side, in any order.
#[derive(Clone)]
struct Memory(Arc<Mutex<Inside>>);

struct Inside {
    owner: Option<Bytes>,
    values: Values,
    /// Operations until everything fails.
    left: u64,
    random: Random,
}

impl Memory {
    fn new(left: u64) -> Self {
        let (owner, values, random) = (None, Values::new(), Random::new(left));
        Self(Arc::new(Mutex::new(Inside { owner, values, left, random })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    fn ask(&self) -> Result<MutexGuard<'_, Inside>, BackendError> {
        let mut inside = self.inside();
        if inside.left == 0 {
            let (place, why) = ("memory".to_owned(), "it was killed".to_owned());
            return Err(BackendError::Unreachable { place, why });
        }
        inside.left -= 1;
        Ok(inside)
    }

    fn shuffled<T: Copy>(&self, mut all: Vec<T>) -> Vec<T> {
        let random = &mut self.inside().random;
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at as u64 + 1) as usize);
        }
        all
    }
}

impl Store for Memory {
    fn place(&self) -> &str {
        "memory"
    }

    fn how_to_free(&self) -> String {
        "forget its owner".to_owned()
    }

    fn value_bytes_max(&self) -> usize {
        1 << 30
    }

    fn owner(&self) -> Result<Option<Bytes>, BackendError> {
        Ok(self.ask()?.owner.clone())
    }

    fn claim(&self, record: &[u8]) -> Result<(), BackendError> {
        self.ask()?.owner.get_or_insert(Bytes::copy_from_slice(record));
        Ok(())
    }

    fn free(&self, owner: &OwnerCheck<'_>) -> Result<(), BackendError> {
        owner(self.owner()?.as_deref())?;
        self.ask()?.owner = None;
        Ok(())
    }

    fn apply(&self, owner: &OwnerCheck<'_>, changes: &Changes<'_>) -> Result<(), BackendError> {
        owner(self.owner()?.as_deref())?;
        for (key, value) in self.shuffled(changes.puts.clone()) {
            self.ask()?.values.insert(key.to_vec(), crate::seal::seal(key, value).into());
        }
        for key in self.shuffled(changes.deletes.clone()) {
            self.ask()?.values.remove(key);
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        Ok(self.ask()?.values.get(key).cloned())
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let mut keys: Vec<_> = self.ask()?.values.keys().cloned().collect();
        keys.retain(|key| key.starts_with(prefix));
        keys.reverse();
        Ok(keys)
    }
}

fn open_on(memory: &Memory, world: &World) -> Result<Arc<dyn Backend>, BackendError> {
    let identity = OwnerIdentity::open(world, Path::new("/job"))?;
    Ok(Arc::new(RemoteBackend::open(Box::new(memory.clone()), identity, world)?))
}

const SLICES: u32 = 3;

fn changes_of(slice: u32, number: u64) -> Delta {
    let mut delta = Delta::default();
    delta.put_with(&slice.to_be_bytes(), |out| out.extend_from_slice(&number.to_be_bytes()));
    delta.put_with(&[number as u8; 5], |out| out.extend_from_slice(&[1; 40]));
    delta
}

fn manifest((number, cycle): (CheckpointNumber, Cycle), slices: Vec<Vec<RunRef>>) -> Manifest {
    let (name, does) = ("stage".to_owned(), "work".to_owned());
    let stages = vec![SavedStage { name, does, watermark: Micros(0), slices }];
    let (sources, sinks, letters) = (Vec::new(), Vec::new(), Cycle::NONE);
    let (made, time) = (Micros(0), Micros(0));
    Manifest { number, made, cycle, time, sources, stages, sinks, letters, coordinated: true }
}

fn checkpoint(checkpoints: &mut Checkpoints, cycle: Cycle) -> Result<(), CheckpointError> {
    let number = checkpoints.begin()?;
    for slice in 0..SLICES {
        // Slices that do not change keep the runs of checkpoints before.
        if !(cycle.0 + u64::from(slice)).is_multiple_of(3) {
            checkpoints
                .put_changes(
                    SliceKey::new(StageIx(0), SliceId(slice)),
                    &mut changes_of(slice, cycle.0),
                )
                .unwrap();
        }
    }
    checkpoints.complete(manifest((number, cycle), checkpoints.chains(StageIx(0), SLICES)))
}

/// All that the newest manifest names is there; gives how many runs that is.
fn whole(checkpoints: &Checkpoints) -> usize {
    (0..SLICES)
        .map(|slice| {
            checkpoints
                .runs_of(SliceKey::new(StageIx(0), SliceId(slice)))
                .read()
                .unwrap()
                .get()
                .len()
        })
        .sum()
}

/// A server that is killed after some requests.
pub(crate) trait Mortal {
    /// A backend on it.
    fn open(&self, world: &World) -> Result<Arc<dyn Backend>, BackendError>;
    /// From now on it does what it is asked.
    fn revive(&self);
}

impl Mortal for Memory {
    fn open(&self, world: &World) -> Result<Arc<dyn Backend>, BackendError> {
        open_on(self, world)
    }

    fn revive(&self) {
        self.inside().left = u64::MAX;
    }
}

/// Kills the server after each number of requests in turn, and the process with it; then both begin
/// again.
pub(crate) fn survives_a_kill_at_any_request<S: Mortal>(make: impl Fn(u64) -> S) {
    for operations in 0.. {
        let server = make(operations);
        let sim = World::simulated(operations);
        let mut completed = Cycle::NONE;
        let outcome = (|| -> Result<(), CheckpointError> {
            let backend = server.open(&sim.world)?;
            let mut checkpoints = Checkpoints::open(Arc::clone(&backend))?;
            for number in 1..12 {
                checkpoint(&mut checkpoints, Cycle(number))?;
                completed = Cycle(number);
            }
            checkpoints = Checkpoints::open(backend)?;
            checkpoints.confirm()?;
            completed = Cycle::NONE;
            checkpoint(&mut checkpoints, Cycle(20))
        })();
        server.revive();
        let backend = server.open(&sim.world).unwrap();
        let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).unwrap();
        let newest = checkpoints.newest().map(|it| (it.number, it.cycle));
        let cycle = newest.map_or(Cycle::NONE, |(_, cycle)| cycle);
        if let Some((number, _)) = newest {
            checkpoints.go_on(number, |_| Some(StageIx(0))).unwrap();
        }
        let is_one = cycle == completed || cycle == completed.next();
        // Starting over goes through, once it was noted; and then comes the last one.
        let is_over = (completed.0 == 11 && cycle == Cycle::NONE)
            || (completed == Cycle::NONE && cycle == Cycle(20));
        assert!(is_one || is_over, "operation {operations}: {cycle} of {completed}");
        whole(&checkpoints);
        // What the last life left behind is deleted, all of it.
        checkpoint(&mut checkpoints, Cycle(30)).unwrap();
        let runs = whole(&checkpoints);
        let left: Vec<_> = backend.keys(b"").unwrap();
        let notes = left.iter().filter(|key| matches!(key[0], b'b' | b'o')).count();
        assert_eq!(left.len(), runs + 1 + notes, "operation {operations}: {left:?}");
        if outcome.is_ok() {
            break;
        }
    }
}

#[test]
fn e1_row_17_a_checkpoint_is_whole_or_not_there_after_a_kill_at_any_request() {
    survives_a_kill_at_any_request(Memory::new);
}

#[test]
fn a_place_that_was_being_cleared_is_cleared_by_the_next_life() {
    for operations in 0.. {
        let memory = Memory::new(u64::MAX);
        let sim = World::simulated(operations);
        let fill = |world: &World| {
            let mut checkpoints = Checkpoints::open(open_on(&memory, world).unwrap()).unwrap();
            (1..4).for_each(|number| checkpoint(&mut checkpoints, Cycle(number)).unwrap());
        };
        fill(&sim.world);
        let backend = open_on(&memory, &sim.world).unwrap();
        memory.inside().left = operations;
        let cleared = backend.clear();
        drop(backend);
        memory.revive();
        // What had the place for nothing is done again, and another's place is left alone.
        if cleared.is_err() {
            open_on(&memory, &sim.world).unwrap().clear().unwrap();
        }
        assert!(memory.inside().owner.is_none() && memory.inside().values.is_empty());
        let other = World::simulated(operations + 1);
        fill(&other.world);
        let refused = open_on(&memory, &sim.world).err().unwrap();
        assert!(matches!(refused, BackendError::Taken { .. }), "{refused}");
        if cleared.is_ok() {
            break;
        }
    }
}

#[test]
fn a_server_that_starts_late_is_waited_for_and_not_for_ever() {
    let sim = World::simulated(1);
    let memory = Memory::new(0);
    let error = open_on(&memory, &sim.world).err().unwrap();
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error}");
    let waited_us = sim.world.clock.monotonic_micros();
    assert!((OPEN_US..2 * OPEN_US).contains(&waited_us), "{waited_us}");
}

#[test]
fn row_21_a_value_under_another_key_is_not_taken_for_it() {
    let sim = World::simulated(1);
    let memory = Memory::new(u64::MAX);
    let backend = open_on(&memory, &sim.world).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(b"a", b"value");
    backend.commit(&mut batch).unwrap();
    let value = memory.inside().values[&b"a"[..]].clone();
    memory.inside().values.insert(b"b".to_vec(), value);
    assert!(backend.get(b"b").unwrap_err().is_damage());
    assert!(backend.get(b"a").unwrap().is_some());
}

#[test]
fn a_folder_whose_id_is_no_id_is_told_of() {
    let sim = World::simulated(1);
    let memory = Memory::new(u64::MAX);
    drop(open_on(&memory, &sim.world).unwrap());
    let mut file = sim.world.disk.create(Path::new("/job/owner")).unwrap();
    file.append(b"something else\n").unwrap();
    let error = open_on(&memory, &sim.world).err().unwrap();
    assert!(error.is_damage() && error.to_string().contains("/job/owner"), "{error}");
}

/// Stores of the jobs of one test, by the name of the job.
fn open(name: &str, folder: &Path) -> contract::Opened {
    static STORES: Mutex<BTreeMap<String, Memory>> = Mutex::new(BTreeMap::new());
    let memory = {
        let mut stores = STORES.lock().unwrap();
        stores.entry(name.to_owned()).or_insert_with(|| Memory::new(u64::MAX)).clone()
    };
    let world = World::real();
    let identity = OwnerIdentity::open(&world, folder)?;
    Ok(Arc::new(RemoteBackend::open(Box::new(memory), identity, &world)?))
}

crate::contract! { open }
