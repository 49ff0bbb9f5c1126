//! Checkpoints across kills, power cuts and failing disks, of states that are known.

use super::{run_writer::GENERATIONS_MAX, *};
use crate::tests::{BY_HAND, run_of};
use crate::{FileBackend, IndexedBackend};
use std::path::Path;
use tidemill_env::{Random, World};
use tidemill_state::structure::{self, Map, ReadRows};
use tidemill_state::{Delta, delta};
use tidemill_types::Micros;

type Slice = Map<u32, Vec<u8>>;
type Model = BTreeMap<u32, Vec<u8>>;

const SLICES: u32 = 3;
const STAGE: StageIx = StageIx(7);

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

    /// What changed in a slice, in runs of a few entries.
    fn runs(slice: &mut Slice) -> Vec<Vec<u8>> {
        structure::freeze(slice);
        let (mut runs, mut is_done) = (Vec::new(), false);
        while !is_done {
            let mut delta = Delta::default();
            is_done = structure::drain(slice, &mut delta, 5);
            if !delta.is_empty() {
                runs.push(run_of(&mut delta));
            }
        }
        runs
    }
}

fn manifest(checkpoints: &Checkpoints, (number, cycle): (CheckpointNumber, Cycle)) -> Manifest {
    let stage = SavedStage {
        name: "stage".to_owned(),
        does: "work".to_owned(),
        watermark: Micros(cycle.0 as i64),
        slices: checkpoints.chains(STAGE, SLICES),
    };
    Manifest {
        number,
        made: Micros(0),
        cycle,
        time: Micros(0),
        sources: Vec::new(),
        stages: vec![stage],
        sinks: Vec::new(),
        letters: Cycle::NONE,
        coordinated: cycle.0 % 2 == 1,
    }
}

fn checkpoint(
    checkpoints: &mut Checkpoints,
    work: &mut Work,
    cycle: Cycle,
) -> Result<(), CheckpointError> {
    work.history.insert(cycle, work.models.clone());
    let number = checkpoints.begin()?;
    for (slice, state) in (0..).zip(&mut work.slices) {
        for run in Work::runs(state) {
            checkpoints.put(SliceKey::new(STAGE, SliceId(slice)), &run)?;
        }
    }
    checkpoints.complete(manifest(checkpoints, (number, cycle)))
}

/// Checkpoints 1 to 5 of a new backend, as of cycles 1 to 5, of which these are kept.
fn five(backend: &Arc<dyn Backend>, kept: &[u64]) -> (Checkpoints, Work) {
    let (mut checkpoints, _) = gone_on(backend);
    let mut work = Work::new();
    for number in 1..6 {
        work.change(number);
        checkpoint(&mut checkpoints, &mut work, Cycle(number)).unwrap();
        if kept.contains(&number) {
            checkpoints.keep(CheckpointNumber(number), "").unwrap();
        }
    }
    (checkpoints, work)
}

/// The checkpoints in a backend, gone on from the newest.
fn gone_on(backend: &Arc<dyn Backend>) -> (Checkpoints, Option<Arc<Manifest>>) {
    let mut checkpoints = Checkpoints::open(Arc::clone(backend)).unwrap();
    let newest = checkpoints.newest().cloned();
    if let Some(newest) = &newest {
        checkpoints.go_on(newest.number, |_| Some(STAGE)).unwrap();
    }
    (checkpoints, newest)
}

fn restored(checkpoints: &Checkpoints, manifest: &Manifest) -> Vec<Model> {
    let restored = |chain: &Vec<RunRef>| {
        let mut slice = Slice::default();
        structure::restore(&mut slice, &checkpoints.named(chain).read().unwrap().get()).unwrap();
        slice.iter().map(|(key, value)| (*key, value.clone())).collect()
    };
    manifest.stages[0].slices.iter().map(restored).collect()
}

fn indexed(world: &World) -> Result<Arc<dyn Backend>, BackendError> {
    Ok(Arc::new(IndexedBackend::open(world, Path::new("/state"), BY_HAND)?.0))
}

fn keys(backend: &dyn Backend) -> Vec<Vec<u8>> {
    backend.keys(b"").unwrap()
}

/// What manifests name, themselves and the note of their beginning.
fn named(manifests: &[&Manifest]) -> usize {
    let runs: BTreeSet<&RunRef> = manifests.iter().flat_map(|it| it.runs()).collect();
    runs.len() + manifests.len() + 1
}

#[test]
fn the_newest_complete_checkpoint_is_what_was_there() {
    let sim = World::simulated(1);
    let file = |world: &World| -> Arc<dyn Backend> {
        Arc::new(FileBackend::open(world, Path::new("/files")).unwrap())
    };
    for backend in [indexed(&sim.world).unwrap(), file(&sim.world)] {
        let (mut checkpoints, none) = gone_on(&backend);
        assert_eq!(none, None);
        let mut work = Work::new();
        for number in 1..60 {
            work.change(number);
            checkpoint(&mut checkpoints, &mut work, Cycle(number)).unwrap();
            let (again, newest) = gone_on(&backend);
            let newest = newest.unwrap();
            assert_eq!(newest.cycle, Cycle(number));
            assert_eq!(restored(&again, &newest), work.models);
            assert_eq!(keys(&*backend).len(), named(&[&newest]), "nothing is left behind");
            for chain in &newest.stages[0].slices {
                let generations: BTreeSet<_> = chain.iter().map(|run| run.checkpoint).collect();
                assert!(generations.len() <= GENERATIONS_MAX);
            }
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
                let mut checkpoints = Checkpoints::open(indexed(&process)?)?;
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
            let (checkpoints, newest) = gone_on(&backend);
            let cycle = newest.as_ref().map_or(Cycle::NONE, |it| it.cycle);
            assert!(cycle == completed || cycle == completed.next(), "{cycle} of {completed}");
            if let Some(newest) = &newest {
                assert_eq!(restored(&checkpoints, newest), work.history[&cycle]);
            }
            // It goes on, and what the last life left behind is deleted.
            let mut again = Work::new();
            let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).unwrap();
            checkpoints.confirm().unwrap();
            assert_eq!(checkpoints.newest(), None);
            again.change(operations + 100);
            let next = Cycle(cycle.0 + 20);
            checkpoint(&mut checkpoints, &mut again, next).unwrap();
            let (checkpoints, newest) = gone_on(&backend);
            let newest = newest.unwrap();
            assert_eq!(restored(&checkpoints, &newest), again.models);
            let notes = usize::from(backend.get(b"o").unwrap().is_some());
            assert_eq!(keys(&*backend).len(), named(&[&newest]) + notes, "nothing is left behind");
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
        let (mut checkpoints, _) = gone_on(&backend);
        let mut work = Work::new();
        sim.disk.fail_after(operations);
        let mut has_failed = false;
        for number in 1..8 {
            work.change(number);
            let runs: Vec<_> = work.slices.iter_mut().map(Work::runs).collect();
            let begun = checkpoints.begin();
            let again_begun = if begun.is_err() { checkpoints.begin() } else { begun.clone() };
            let given = again_begun.clone().unwrap_or(CheckpointNumber::NONE);
            let mut outcomes = vec![begun.map(drop), again_begun.map(drop)];
            let is_failed = |it: &Result<(), CheckpointError>| {
                matches!(it, Err(CheckpointError::Backend(BackendError::Failed { .. })))
            };
            if outcomes.iter().any(is_failed) {
                has_failed = true;
                break;
            }
            for (slice, runs) in (0..).zip(runs) {
                outcomes.extend(
                    runs.iter()
                        .map(|run| checkpoints.put(SliceKey::new(STAGE, SliceId(slice)), run)),
                );
            }
            let manifest = manifest(&checkpoints, (given, Cycle(number)));
            outcomes.push(checkpoints.complete(manifest.clone()));
            if outcomes.last().is_some_and(Result::is_err) {
                outcomes.push(checkpoints.complete(manifest));
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
        let (checkpoints, newest) = gone_on(&indexed(&sim.world).unwrap());
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

/// A server that takes no batch that deletes, and notes the most that it was asked to delete at once.
struct Refuses {
    inner: Arc<dyn Backend>,
    deletes_most: Mutex<usize>,
}

impl Backend for Refuses {
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        let deletes = batch.changes().filter(|(_, value)| value.is_none()).count();
        if deletes == 0 {
            return self.inner.commit(batch);
        }
        let mut most = self.deletes_most.lock().unwrap();
        *most = deletes.max(*most);
        Err(BackendError::Refused { place: "there".to_owned(), why: "it is full".to_owned() })
    }
    fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, BackendError> {
        self.inner.get(key)
    }
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        self.inner.keys(prefix)
    }
}

#[test]
fn what_cannot_be_deleted_is_asked_for_once_in_each_try() {
    let sim = World::simulated(1);
    let backend = indexed(&sim.world).unwrap();
    // Some runs that a process left behind, and checkpoints before.
    let (mut checkpoints, mut work) = five(&backend, &[]);
    checkpoints.begin().unwrap();
    work.change(6);
    for (slice, state) in (0..).zip(&mut work.slices) {
        Work::runs(state)
            .iter()
            .for_each(|run| checkpoints.put(SliceKey::new(STAGE, SliceId(slice)), run).unwrap());
    }
    checkpoints.flush().unwrap();
    drop(checkpoints);
    let left = backend.keys(&runs_prefix(CheckpointNumber(6))).unwrap().len();
    assert!(left > 0);
    let refuses = Arc::new(Refuses { inner: backend, deletes_most: Mutex::new(0) });
    let most = || std::mem::take(&mut *refuses.deletes_most.lock().unwrap());
    let (mut checkpoints, _) = gone_on(&(Arc::clone(&refuses) as Arc<dyn Backend>));
    for _ in 0..5 {
        checkpoints.begin().unwrap_err();
        assert_eq!(most(), left);
    }
    // What nobody names any more once the next one is complete.
    checkpoints.left_behind = None;
    let number = checkpoints.begin().unwrap();
    let chain = checkpoints.chains.clone();
    chain.keys().for_each(|of| drop(checkpoints.chains.remove(of)));
    let gone: usize = chain.values().map(Vec::len).sum();
    let manifest = manifest(&checkpoints, (number, Cycle(9)));
    for _ in 0..5 {
        checkpoints.complete(manifest.clone()).unwrap_err();
        assert_eq!(most(), gone);
    }
    assert_eq!(checkpoints.newest().unwrap().cycle, Cycle(9));
}

/// One that is kept is what it was, whatever comes after it, until it is deleted; and nothing else
/// is left behind.
#[test]
fn what_is_kept_stays_until_it_is_deleted() {
    let sim = World::simulated(1);
    let backend = indexed(&sim.world).unwrap();
    let (mut checkpoints, _) = gone_on(&backend);
    let mut work = Work::new();
    let mut kept: BTreeMap<CheckpointNumber, Vec<Model>> = BTreeMap::new();
    let mut random = Random::new(3);
    for number in 1..80 {
        work.change(number);
        checkpoint(&mut checkpoints, &mut work, Cycle(number)).unwrap();
        let newest = checkpoints.newest().unwrap().number;
        if random.below(5) == 0 {
            checkpoints.keep(newest, &format!("of {number}")).unwrap();
            kept.insert(newest, work.models.clone());
        }
        if random.below(8) == 0
            && let Some((number, _)) = kept.pop_first()
        {
            checkpoints.delete(number).unwrap();
        }
        if random.below(10) == 0 {
            checkpoints = gone_on(&backend).0;
        }
        let all = checkpoints.list();
        let is_there = |number: &CheckpointNumber| all.iter().any(|(it, _)| it.number == *number);
        assert!(kept.keys().all(is_there) && is_there(&newest));
        assert!(all.len() <= kept.len() + 1, "{all:?}");
        for (info, manifest) in &all {
            assert_eq!(info.kept.is_some(), kept.contains_key(&info.number));
            assert_eq!(info.newest, info.number == newest);
            let model = kept.get(&info.number).unwrap_or(&work.models);
            assert_eq!(restored(&checkpoints, manifest), *model);
        }
        let manifests: Vec<&Manifest> = all.iter().map(|(_, manifest)| &**manifest).collect();
        let notes = kept.len();
        assert_eq!(keys(&*backend).len(), named(&manifests) + notes, "nothing is left behind");
    }
    assert!(kept.len() > 3);
    assert!(matches!(
        checkpoints.delete(CheckpointNumber(7_000)),
        Err(CheckpointError::Unknown(_))
    ));
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let newest = checkpoints.newest().unwrap().number;
    for name in [&long, "\u{1b}[31mred", "two\nlines", "\u{7f}", "\u{9b}1m"] {
        assert!(matches!(checkpoints.keep(newest, name), Err(CheckpointError::Name)), "{name:?}");
    }
    checkpoints.keep(newest, "grün, `5 o'clock`").expect("a name for people");
}

/// An older one is gone on from, at every moment of which the power may fail.
#[test]
fn what_is_restored_is_the_newest_then() {
    for operations in 0..40 {
        let sim = World::simulated(operations);
        let backend = indexed(&sim.world).unwrap();
        let (checkpoints, work) = five(&backend, &[2]);
        drop((checkpoints, backend));
        let process = sim.process();
        sim.disk.fail_after(operations);
        let outcome = (|| -> Result<(), CheckpointError> {
            let mut checkpoints = Checkpoints::open(indexed(&process)?)?;
            checkpoints.go_on(CheckpointNumber(2), |_| Some(STAGE))?;
            checkpoints.confirm()
        })();
        sim.disk.power_cut();
        let backend = indexed(&sim.world).unwrap();
        let (mut checkpoints, newest) = gone_on(&backend);
        let newest = newest.unwrap();
        let expected = if newest.number > CheckpointNumber(5) { Cycle(2) } else { Cycle(5) };
        assert_eq!(newest.cycle, expected);
        assert!(outcome.is_err() || newest.number > CheckpointNumber(5), "it is durable");
        assert_eq!(restored(&checkpoints, &newest), work.history[&expected]);
        // It goes on from there, beside the one that is kept.
        let mut again = Work::new();
        for (slice, model) in again.slices.iter_mut().zip(&work.history[&expected]) {
            model.iter().for_each(|(key, value)| drop(slice.set(*key, value.clone())));
        }
        again.models = work.history[&expected].clone();
        again.change(77);
        checkpoint(&mut checkpoints, &mut again, Cycle(20)).unwrap();
        let (checkpoints, newest) = gone_on(&backend);
        assert_eq!(restored(&checkpoints, &newest.unwrap()), again.models);
        let before = checkpoints.get(CheckpointNumber(2)).unwrap();
        assert_eq!(restored(&checkpoints, before), work.history[&Cycle(2)]);
        assert_eq!(checkpoints.list().len(), 2);
        if outcome.is_ok() {
            return;
        }
    }
    panic!("it never went well");
}

/// A life begins with a checkpoint of one before, at every moment of which the power may fail.
#[test]
fn a_life_that_begins_with_a_checkpoint_knows_those_of_the_life_before() {
    for operations in 0..40 {
        let sim = World::simulated(operations);
        let backend = indexed(&sim.world).unwrap();
        let (checkpoints, work) = five(&backend, &[2, 4]);
        assert_eq!(checkpoints.floor(), Cycle(2), "the oldest is kept");
        drop((checkpoints, backend));
        let process = sim.process();
        sim.disk.fail_after(operations);
        // Of those that are not kept it is the newest.
        let from = if operations % 2 == 0 { 4 } else { 5 };
        let outcome = (|| -> Result<(), CheckpointError> {
            let mut checkpoints = Checkpoints::open(indexed(&process)?)?;
            checkpoints.begin_from(CheckpointNumber(from), |_| Some(STAGE))?;
            checkpoints.confirm()?;
            assert_eq!(checkpoints.floor(), Cycle(from), "others are of the life before");
            Ok(())
        })();
        sim.disk.power_cut();
        let (checkpoints, newest) = gone_on(&indexed(&sim.world).unwrap());
        let newest = newest.expect("one of the two lives");
        let begun = newest.number > CheckpointNumber(5);
        assert!(begun || outcome.is_err(), "it is durable");
        let cycle = Cycle(if begun { from } else { 5 });
        assert_eq!(newest.cycle, cycle);
        assert_eq!(restored(&checkpoints, &newest), work.history[&cycle]);
        for number in [2, 4] {
            let kept = checkpoints.get(CheckpointNumber(number)).expect("it is kept");
            assert_eq!(restored(&checkpoints, kept), work.history[&Cycle(number)]);
        }
        if outcome.is_ok() && from == 5 {
            return;
        }
    }
    panic!("it never went well");
}

#[test]
fn a_damaged_checkpoint_holds_up_nothing_but_what_needs_it() {
    let sim = World::simulated(0);
    let backend = indexed(&sim.world).unwrap();
    let (checkpoints, mut work) = five(&backend, &[2, 4]);
    drop(checkpoints);
    let damage = |number: CheckpointNumber| {
        let mut batch = WriteBatch::default();
        batch.put(&manifest_key(number), b"\x01damaged");
        backend.commit(&mut batch).unwrap();
    };
    // One that is kept: the job goes on, and what it may name stays.
    damage(CheckpointNumber(2));
    let (mut checkpoints, newest) = gone_on(&backend);
    checkpoints.newest_is_whole().unwrap();
    assert_eq!(newest.unwrap().cycle, Cycle(5));
    assert!(matches!(
        checkpoints.get(CheckpointNumber(2)),
        Err(CheckpointError::Saved { number: CheckpointNumber(2), .. })
    ));
    let runs = |of| {
        let prefix = runs_prefix(CheckpointNumber(of));
        keys(&*backend).iter().filter(|key| key.starts_with(&prefix)).count()
    };
    let of_it = (runs(1), runs(2));
    for number in 6..20 {
        work.change(number);
        checkpoint(&mut checkpoints, &mut work, Cycle(number)).unwrap();
    }
    assert_eq!((runs(1), runs(2)), of_it);
    assert_eq!(
        checkpoints.damaged().map(|(number, _)| number).collect::<Vec<_>>(),
        [CheckpointNumber(2)]
    );
    checkpoints.delete(CheckpointNumber(2)).unwrap();
    assert!(matches!(
        checkpoints.delete(CheckpointNumber(2)),
        Err(CheckpointError::Unknown(CheckpointNumber(2)))
    ));
    // The newest: the job does not go on from one before by itself.
    let last = checkpoints.newest().unwrap().number;
    drop(checkpoints);
    damage(last);
    let (mut checkpoints, newest) = gone_on(&backend);
    assert!(matches!(checkpoints.newest_is_whole(), Err(CheckpointError::Saved { .. })));
    assert_eq!(newest.map(|it| it.number), Some(CheckpointNumber(4)));
    checkpoints.delete(last).unwrap();
    checkpoints.newest_is_whole().unwrap();
    let (mut checkpoints, newest) = gone_on(&backend);
    assert_eq!(restored(&checkpoints, &newest.unwrap()), work.history[&Cycle(4)]);
    checkpoint(&mut checkpoints, &mut Work::new(), Cycle(30)).unwrap();
    assert_eq!(checkpoints.newest().unwrap().cycle, Cycle(30));
}

#[test]
fn what_is_pinned_stays_until_it_is_let_go() {
    let world = World::simulated(11);
    let backend = indexed(&world.world).expect("it can be opened");
    let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).expect("it can be opened");
    let (mut work, looker) = (Work::new(), checkpoints.looker());
    assert!(matches!(looker.pin(None), Err(CheckpointError::None)));
    let mut make = |checkpoints: &mut Checkpoints, cycle: u64| {
        work.change(cycle);
        checkpoint(checkpoints, &mut work, Cycle(cycle)).expect("it can be written");
        work.models.clone()
    };
    let first = make(&mut checkpoints, 1);
    let (pinned, again) =
        (looker.pin(None).expect("the newest"), looker.pin(Some(CheckpointNumber(1))).expect("it"));
    // More than so many that runs are merged, and those that were are not needed any more.
    let mut last = Vec::new();
    for cycle in 2..40 {
        last = make(&mut checkpoints, cycle);
        let read = restored(&checkpoints, pinned.manifest());
        assert_eq!(read, first, "as of cycle 1, after cycle {cycle}");
    }
    let numbers = |checkpoints: &Checkpoints| -> Vec<CheckpointNumber> {
        checkpoints.list().iter().map(|(info, _)| info.number).collect()
    };
    assert_eq!(numbers(&checkpoints).len(), 2);
    drop(pinned);
    make(&mut checkpoints, 40);
    assert_eq!(numbers(&checkpoints)[0], CheckpointNumber(1), "somebody reads from it still");
    drop(again);
    let newest = make(&mut checkpoints, 41);
    assert_ne!(newest, last);
    let left = numbers(&checkpoints);
    assert_eq!(left.len(), 1);
    assert!(matches!(
        looker.pin(Some(CheckpointNumber(1))),
        Err(CheckpointError::Unknown(CheckpointNumber(1)))
    ));
    let manifest = Arc::clone(checkpoints.newest().expect("one is there"));
    assert_eq!(named(&[&manifest]), keys(&*backend).len());

    // One that is kept and deleted while somebody reads goes with the next one.
    checkpoints.keep(left[0], "kept").expect("it can be written");
    let pinned = looker.pin(Some(left[0])).expect("it is there");
    make(&mut checkpoints, 42);
    checkpoints.delete(left[0]).expect("it can be deleted");
    assert_eq!(restored(&checkpoints, pinned.manifest()), newest);
    drop(pinned);
    make(&mut checkpoints, 43);
    assert_eq!(numbers(&checkpoints).len(), 1);
    // A process that ends forgets what it had pinned.
    let _pinned = looker.pin(None).expect("the newest");
    make(&mut checkpoints, 44);
    drop(checkpoints);
    let (mut checkpoints, _) = gone_on(&backend);
    checkpoints.confirm().expect("it can be written");
    make(&mut checkpoints, 45);
    assert_eq!(numbers(&checkpoints).len(), 1);
}

#[test]
fn manifests_of_earlier_builds_can_be_read() {
    let sim = World::simulated(0);
    let (checkpoints, _) = five(&indexed(&sim.world).unwrap(), &[]);
    let written = manifest(&checkpoints, (CheckpointNumber(6), Cycle(6)));
    let key = manifest_key(CheckpointNumber(6));
    assert_eq!(Manifest::decode(&key, &written.encode()).unwrap(), written);
    // Before runs had forms.
    let mut bytes = written.encode();
    bytes[0] = 4;
    assert_eq!(Manifest::decode(&key, &bytes).unwrap(), written);
    // Before runs had an index.
    let bytes = manifest::tests::encode_without_index(&written);
    assert_eq!(Manifest::decode(&key, &bytes).unwrap(), written);
    // Before its runs said in parts of which size they are, and before it said that it is of one
    // cycle.
    let mut bytes = manifest::tests::encode_of_one_size(&written);
    assert_eq!(Manifest::decode(&key, &bytes).unwrap(), written);
    bytes.pop();
    bytes[0] = 1;
    assert_eq!(Manifest::decode(&key, &bytes).unwrap(), Manifest { coordinated: true, ..written });
    // One of a build to come is told from one that is damaged.
    bytes[0] = 6;
    let error = Manifest::decode(&key, &bytes).unwrap_err().to_string();
    assert!(error.contains("version 6 is not known to this build"), "{error}");
}

#[test]
fn single_rows_are_read_as_they_are_in_the_newest() {
    let sim = World::simulated(3);
    let backend = indexed(&sim.world).expect("it can be opened");
    let (mut checkpoints, _) = gone_on(&backend);
    checkpoints.read_by_row(STAGE);
    let (mut work, looker, mut random) = (Work::new(), checkpoints.looker(), Random::new(5));
    let rows: Vec<RowReader> =
        (0..SLICES).map(|slice| looker.rows_of("stage", SliceId(slice))).collect();
    let first = rows[0].read_row(&[0; 5]);
    assert!(matches!(first, Err(CheckpointError::None)), "{first:?}");
    for cycle in 1..16 {
        // Some that go over several parts, and runs of many.
        let slice = random.below(u64::from(SLICES)) as usize;
        for _ in 0..random.below(400) {
            let key = 100 + random.below(300) as u32;
            let bytes = if random.below(20) == 0 { 90_000 } else { random.below(600) };
            let value = vec![cycle as u8; bytes as usize];
            work.slices[slice].set(key, value.clone());
            work.models[slice].insert(key, value);
        }
        work.change(cycle);
        checkpoint(&mut checkpoints, &mut work, Cycle(cycle)).expect("it can be written");
        // Another process, which has to find out where rows are.
        let again = Checkpoints::open(Arc::clone(&backend)).expect("it can be opened").looker();
        for slice in 0..SLICES as usize {
            let manifest = Arc::clone(checkpoints.newest().expect("one is complete"));
            let runs = checkpoints.named(&manifest.stages[0].slices[slice]);
            let mut all = BTreeMap::new();
            delta::visit_entries(&runs.read().unwrap().get(), &mut |key, value| {
                all.insert(key.to_vec(), value.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(all.len(), work.models[slice].len());
            let of_again = again.rows_of("stage", SliceId::at(slice));
            for (key, value) in all.into_iter().filter(|_| random.below(8) == 0) {
                for rows in [&rows[slice], &of_again] {
                    let read = ReadRows::read(rows, &key).expect("it is there");
                    assert!(read == value, "{key:?} after cycle {cycle}");
                }
            }
            for missing in [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]] {
                let read = rows[slice].read_row(&missing);
                assert!(matches!(read, Err(CheckpointError::Saved { .. })), "{read:?}");
            }
        }
    }
}

#[test]
fn what_is_written_as_a_whole_takes_the_place_of_what_was_written_before() {
    let sim = World::simulated(1);
    let backend = indexed(&sim.world).unwrap();
    let (mut checkpoints, _) = gone_on(&backend);
    let of_slice = |checkpoints: &Checkpoints, manifest: &Manifest| {
        let mut found = BTreeMap::new();
        let runs = checkpoints.named(&manifest.stages[0].slices[0]).read().unwrap();
        delta::visit_entries(&runs.get(), &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
        .unwrap();
        found
    };
    let mut model = BTreeMap::new();
    let mut history = Vec::new();
    for number in 1_u8..9 {
        let is_whole = number % 3 == 0;
        checkpoints.begin().unwrap();
        // In two runs, of which the first says that nothing before it counts.
        let mut delta = Delta::default();
        if is_whole {
            delta.clear(&[]);
            model.clear();
        }
        for key in [number, number + 1] {
            delta.put_with(&[0, key], |out| out.push(number));
            model.insert(vec![0, key], vec![number]);
            checkpoints.put_changes(SliceKey::new(STAGE, SliceId(0)), &mut delta).unwrap();
        }
        let chain = checkpoints.chains(STAGE, SLICES).remove(0);
        let first = if is_whole { number } else { (number / 3 * 3).max(1) };
        let generations: BTreeSet<u64> = chain.iter().map(|run| run.checkpoint.0).collect();
        let wanted = u64::from(first)..=u64::from(number);
        assert_eq!(generations.into_iter().collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        let of = (CheckpointNumber(u64::from(number)), Cycle(u64::from(number)));
        let manifest = manifest(&checkpoints, of);
        checkpoints.complete(manifest.clone()).unwrap();
        if number == 2 {
            checkpoints.keep(CheckpointNumber(2), "").unwrap();
        }
        history.push((manifest, model.clone()));
        assert_eq!(of_slice(&checkpoints, &history.last().unwrap().0), model);
    }
    // One that is kept has all of its runs, and nothing else is left of those before the last whole.
    let kept = &history[1];
    assert_eq!(of_slice(&checkpoints, &kept.0), kept.1);
    let (left, note_of_kept) = ([&history[1].0, &history[7].0], 1);
    assert_eq!(keys(&*backend).len(), named(&left) + note_of_kept);
    drop(checkpoints);
    let (checkpoints, newest) = gone_on(&backend);
    assert_eq!(of_slice(&checkpoints, &newest.unwrap()), model);
}
