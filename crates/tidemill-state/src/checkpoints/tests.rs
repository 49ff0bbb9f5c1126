//! Checkpoints across kills, power cuts and failing disks, of states that are known.

use super::*;
use crate::structure::{self, Map};
use crate::tests::BY_HAND;
use crate::{Delta, FileBackend, IndexedBackend};
use std::path::Path;
use tidemill_env::{Random, World};

type Slice = Map<u32, Vec<u8>>;
type Model = BTreeMap<u32, Vec<u8>>;

const SLICES: u32 = 3;

/// Slices of one stage, and what each held at every checkpoint.
struct Work {
    slices: Vec<Slice>,
    models: Vec<Model>,
    history: BTreeMap<Cycle, Vec<Model>>,
}

impl Work {
    fn new() -> Self {
        let mut slices: Vec<Slice> = (0..SLICES).map(|_| Slice::default()).collect();
        slices.iter_mut().for_each(|it| structure::track(it));
        Self { slices, models: vec![Model::new(); SLICES as usize], history: BTreeMap::new() }
    }

    /// Changes some of the slices, the same way for the same number.
    fn change(&mut self, number: u64) {
        let mut random = Random::new(number);
        for _ in 0..random.below(30) {
            let slice = random.below(u64::from(SLICES)) as usize;
            let key = random.below(40) as u32;
            let (state, model) = (&mut self.slices[slice], &mut self.models[slice]);
            if random.below(4) == 0 {
                assert_eq!(state.delete(&key), model.remove(&key));
            } else {
                let value = vec![number as u8; random.below(100) as usize];
                state.set(key, value.clone());
                model.insert(key, value);
            }
        }
    }

    fn run(slice: &mut Slice) -> Bytes {
        structure::freeze(slice);
        let mut delta = Delta::default();
        while !structure::drain(slice, &mut delta, 5) {}
        delta.finish().unwrap().into()
    }
}

fn manifest(checkpoints: &Checkpoints, cycle: Cycle) -> Manifest {
    let stage = SavedStage {
        name: "stage".to_owned(),
        does: "work".to_owned(),
        watermark: Micros(cycle.0 as i64),
        slices: checkpoints.chains(7, SLICES),
    };
    let (stages, letters) = (vec![stage], Cycle::NONE);
    Manifest { cycle, time: Micros(0), sources: Vec::new(), stages, sinks: Vec::new(), letters }
}

fn checkpoint(
    checkpoints: &mut Checkpoints,
    work: &mut Work,
    cycle: Cycle,
) -> Result<(), CheckpointError> {
    work.history.insert(cycle, work.models.clone());
    checkpoints.begin(cycle)?;
    for (number, slice) in (0..).zip(&mut work.slices) {
        let run = Work::run(slice);
        if run.len() > 8 {
            checkpoints.put((7, number), run)?;
        }
    }
    checkpoints.complete(&manifest(checkpoints, cycle))
}

fn restored(checkpoints: &Checkpoints, manifest: &Manifest) -> Vec<Model> {
    let restored = |chain: &Vec<Run>| {
        let mut slice = Slice::default();
        structure::restore(&mut slice, checkpoints.runs(chain).unwrap()).unwrap();
        slice.iter().map(|(key, value)| (*key, value.clone())).collect()
    };
    manifest.stages[0].slices.iter().map(restored).collect()
}

fn indexed(world: &World) -> Result<Arc<dyn Backend>, StateError> {
    Ok(Arc::new(IndexedBackend::open(world, Path::new("/state"), BY_HAND)?.0))
}

fn keys(backend: &dyn Backend) -> Vec<Vec<u8>> {
    backend.keys(b"").unwrap()
}

/// What a manifest names, itself and the note of its beginning.
fn named(manifest: &Manifest) -> usize {
    manifest.stages.iter().flat_map(|it| &it.slices).flatten().count() + 2
}

#[test]
fn the_newest_complete_checkpoint_is_what_was_there() {
    let sim = World::simulated(1);
    let file = |world: &World| -> Arc<dyn Backend> {
        Arc::new(FileBackend::open(world, Path::new("/files")).unwrap())
    };
    for backend in [indexed(&sim.world).unwrap(), file(&sim.world)] {
        let (mut checkpoints, none) = Checkpoints::open(Arc::clone(&backend)).unwrap();
        assert_eq!(none, None);
        let mut work = Work::new();
        for number in 1..60 {
            work.change(number);
            checkpoint(&mut checkpoints, &mut work, Cycle(number)).unwrap();
            let (again, newest) = Checkpoints::open(Arc::clone(&backend)).unwrap();
            let newest = newest.unwrap();
            assert_eq!(newest.cycle, Cycle(number));
            assert_eq!(restored(&again, &newest), work.models);
            assert_eq!(keys(&*backend).len(), named(&newest), "nothing is left behind");
            assert!(newest.stages[0].slices.iter().all(|chain| chain.len() <= RUNS_MAX));
        }
    }
}

/// The process is killed, or the power fails, at every operation of its disk; it begins again from
/// the newest checkpoint, with the slices as they were then.
#[test]
fn e1_row_17_a_checkpoint_is_whole_or_not_there_after_any_kill_and_power_cut() {
    for cuts_power in [false, true] {
        for operations in 0.. {
            let sim = World::simulated(operations);
            let process = sim.process();
            sim.disk.fail_after(operations);
            let mut work = Work::new();
            let mut completed = Cycle::NONE;
            let outcome = (|| -> Result<(), CheckpointError> {
                let (mut checkpoints, _) = Checkpoints::open(indexed(&process)?)?;
                for number in 1..12 {
                    work.change(number);
                    checkpoint(&mut checkpoints, &mut work, Cycle(number))?;
                    completed = Cycle(number);
                }
                Ok(())
            })();
            if cuts_power {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let backend = indexed(&sim.world).unwrap();
            let (mut checkpoints, newest) = Checkpoints::open(Arc::clone(&backend)).unwrap();
            let cycle = newest.as_ref().map_or(Cycle::NONE, |it| it.cycle);
            assert!(cycle == completed || cycle == completed.next(), "{cycle} of {completed}");
            if let Some(newest) = &newest {
                assert_eq!(restored(&checkpoints, newest), work.history[&cycle]);
            }
            // It goes on, and what the last life left behind is deleted.
            let mut again = Work::new();
            checkpoints.start_over().unwrap();
            again.change(operations + 100);
            let next = Cycle(cycle.0 + 20);
            checkpoint(&mut checkpoints, &mut again, next).unwrap();
            let (checkpoints, newest) = Checkpoints::open(Arc::clone(&backend)).unwrap();
            let newest = newest.unwrap();
            assert_eq!(restored(&checkpoints, &newest), again.models);
            assert_eq!(keys(&*backend).len(), named(&newest), "nothing is left behind");
            if outcome.is_ok() {
                break;
            }
        }
    }
}

/// A disk that fails once, at every operation: the checkpoint is tried again, and nothing is missing
/// in it.
#[test]
fn row_15_a_checkpoint_that_could_not_be_written_is_written_later() {
    let mut again = 0;
    for operations in 0..120 {
        let sim = World::simulated(operations);
        let backend = indexed(&sim.world).unwrap();
        let (mut checkpoints, _) = Checkpoints::open(Arc::clone(&backend)).unwrap();
        let mut work = Work::new();
        sim.disk.fail_after(operations);
        let mut has_failed = false;
        for number in 1..8 {
            work.change(number);
            let runs: Vec<Bytes> = work.slices.iter_mut().map(Work::run).collect();
            let mut outcomes = vec![checkpoints.begin(Cycle(number))];
            if outcomes[0].is_err() {
                outcomes.push(checkpoints.begin(Cycle(number)));
            }
            let is_failed = |it: &Result<(), CheckpointError>| {
                matches!(it, Err(CheckpointError::Backend(StateError::Failed { .. })))
            };
            if outcomes.iter().any(is_failed) {
                has_failed = true;
                break;
            }
            for (slice, run) in (0..).zip(runs) {
                outcomes.push(checkpoints.put((7, slice), run));
            }
            let manifest = manifest(&checkpoints, Cycle(number));
            outcomes.push(checkpoints.complete(&manifest));
            if outcomes.last().is_some_and(Result::is_err) {
                outcomes.push(checkpoints.complete(&manifest));
            }
            if outcomes.iter().any(is_failed) {
                has_failed = true;
                break;
            }
            assert!(outcomes.last().is_some_and(Result::is_ok), "{outcomes:?}");
            again += outcomes.iter().filter(|it| it.is_err()).count();
            work.history.insert(Cycle(number), work.models.clone());
        }
        drop((checkpoints, backend));
        sim.disk.fail_after(u64::MAX);
        let (checkpoints, newest) = Checkpoints::open(indexed(&sim.world).unwrap()).unwrap();
        match newest {
            Some(newest) => {
                let model = work.history.get(&newest.cycle).unwrap_or(&work.models);
                assert_eq!(restored(&checkpoints, &newest), *model);
            }
            None => assert!(has_failed, "operation {operations}"),
        }
    }
    assert!(again > 20, "{again}");
}
