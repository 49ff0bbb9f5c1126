//! Any bytes as what a backend holds of checkpoints, for tests and for fuzz targets.

use crate::checkpoints::fuzzing::read_rows;
use crate::delta::most_entries;
use crate::structure::{self, List, Map, Queue, State, Structure, Value, Window, row_of};
use crate::{Backend, Batch, Checkpoints, Delta, IndexedBackend, IndexedOptions, merge, merged};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tidemill_env::{SimWorld, World};
use tidemill_types::{ByteSize, Micros};

pub use crate::checkpoints::fuzzing::{manifest, manifest_seeds};

/// Rows of structures beyond this are not restored: a slab has a place for each row before.
const ROWS_MAX: usize = 1 << 16;

/// One of each structure, as a program's state may be.
#[derive(Default)]
struct Each {
    map: Map<u64, String>,
    queue: Queue<String>,
    window: Window<u32>,
    list: List<(i64, bool)>,
    value: Value<Option<f64>>,
}

impl State for Each {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.map, &mut self.queue, &mut self.window, &mut self.list, &mut self.value]
    }
}

/// What is in a state, in words.
fn shown(state: &mut Each) -> Vec<String> {
    let mut rows = Vec::new();
    for structure in state.structures() {
        structure.show(&mut |row| {
            rows.push(format!("{row:?}"));
            std::ops::ControlFlow::Continue(())
        });
    }
    // A map shows its entries by their places, which are others in one that was restored.
    rows.sort();
    rows
}

/// All of a state as one run.
fn saved(state: &mut Each) -> Vec<u8> {
    let (mut delta, mut run) = (Delta::default(), Vec::new());
    structure::freeze(state);
    while !structure::drain(state, &mut delta, 3) {}
    delta.finish(&mut run).expect("little was written");
    run
}

/// Runs, each after its length (2 bytes, big endian); the last one may be cut short.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut runs = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (run, rest) = rest.split_at(length);
        runs.push(run);
        bytes = rest;
    }
    runs
}

/// The bytes as runs of one slice: read together and merged they say the same, each row is found by
/// its key, and a state that takes them back writes out what it took.
///
/// # Panics
/// One of that is not so.
pub fn runs(bytes: &[u8]) {
    let runs = split(bytes);
    let most = most_entries(&runs);
    let mut entries = BTreeMap::new();
    let mut last: Option<Vec<u8>> = None;
    let mut are_few = true;
    let read = merged(&runs, &mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        let row = key.split_first().and_then(|(_, key)| row_of(key).ok());
        are_few &= row.is_none_or(|row| row < ROWS_MAX);
        entries.insert(key.to_vec(), value.to_vec());
        Ok(())
    });
    for run in &runs {
        read_rows(run);
    }
    let one = merge(&runs);
    assert_eq!(one.is_ok(), read.is_ok(), "what can be read can be merged");
    let Ok(one) = one else { return };
    assert!(entries.len() <= runs.iter().map(|run| run.len() / 8).sum());
    assert!(most.is_ok_and(|most| most <= bytes.len() / 8));
    let mut again = BTreeMap::new();
    let read = merged(&[&one], &mut |key, value| {
        again.insert(key.to_vec(), value.to_vec());
        Ok(())
    });
    assert_eq!((read, &again), (Ok(()), &entries), "one run says what many said");
    assert_eq!(merge(&[&one]), Ok(one.clone()), "and is the same when it is merged again");
    if are_few {
        restored(&runs);
    }
}

fn restored(runs: &[&[u8]]) {
    let mut state = Each::default();
    structure::track(&mut state);
    if structure::restore(&mut state, runs).is_err() {
        return;
    }
    let rows = shown(&mut state);
    // Everything is written anew by a state that was told all of it.
    state.queue.push("more".to_owned());
    state.window.push(Micros(5), 5);
    state.map.set(0, "zero".to_owned());
    let changes = saved(&mut state);
    let after = shown(&mut state);
    let all: Vec<&[u8]> = runs.iter().copied().chain([&changes[..]]).collect();
    let mut again = Each::default();
    structure::restore(&mut again, &all).expect("it was taken before, and then written");
    assert_eq!(shown(&mut again), after);
    assert!(after.len() >= rows.len());
}

/// Runs of a state that changed twice.
///
/// # Panics
/// Never.
#[must_use]
pub fn runs_seeds() -> Vec<Vec<u8>> {
    let mut state = Each::default();
    structure::track(&mut state);
    let mut seed = Vec::new();
    for round in 0..3_u64 {
        for number in 0..4 {
            state.map.set(number * round, format!("value {number}"));
            state.queue.push(format!("{round}"));
            state.window.push(Micros(number as i64), round as u32);
            state.list.push((number as i64, round == 1));
        }
        state.map.delete(&0);
        state.queue.pop();
        let run = saved(&mut state);
        seed.extend_from_slice(&(run.len() as u16).to_be_bytes());
        seed.extend_from_slice(&run);
    }
    vec![seed]
}

const FOLDER: &str = "/data/checkpoints";

/// A store with some files, an index and values behind it, on a disk of its own; and every value
/// that was ever under a key.
fn written() -> (SimWorld, BTreeMap<Vec<u8>, Vec<Vec<u8>>>) {
    let sim = World::simulated(7);
    let mut values: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let (store, _) = open(&sim.world).expect("an empty disk");
    for round in 0..6_u8 {
        let mut batch = Batch::default();
        for key in 0..6_u8 {
            let key = [b'r', key];
            let value = vec![round ^ key[1]; usize::from(round) * 17 + 3];
            batch.put(&key, &value);
            values.entry(key.to_vec()).or_default().push(value);
        }
        batch.delete(&[b'r', round]);
        store.commit(&mut batch).expect("there is room");
        if round == 3 {
            store.flush().expect("there is room");
        }
    }
    drop(store);
    (sim, values)
}

fn open(world: &World) -> Result<(IndexedBackend, crate::Opened), crate::StateError> {
    let options = IndexedOptions {
        file_bytes: ByteSize(600),
        flush_in_background: false,
        ..IndexedOptions::default()
    };
    IndexedBackend::open(world, Path::new(FOLDER), options)
}

/// The bytes as damage to the files of a store: it is not opened, or a value is refused, or it is
/// one that was once put under that key.
///
/// Damage is five bytes: which file, where (two bytes), what becomes of the byte there, and whether
/// the file is cut there.
///
/// # Panics
/// A value was never put under its key.
pub fn store(bytes: &[u8]) {
    let (sim, values) = written();
    let mut names = sim.world.disk.list(Path::new(FOLDER)).expect("it is there");
    names.retain(|name| name != "lock");
    names.sort();
    for damage in bytes.as_chunks::<5>().0 {
        let path = Path::new(FOLDER).join(&names[usize::from(damage[0]) % names.len()]);
        let mut content = sim.world.disk.read(&path).expect("it is there");
        if content.is_empty() {
            continue;
        }
        let at = usize::from(u16::from_be_bytes([damage[1], damage[2]])) % content.len();
        match damage[4] {
            0 => content.truncate(at),
            _ => content[at] ^= damage[3],
        }
        sim.disk.put(&path, &content);
    }
    let Ok((store, _)) = open(&sim.world) else { return };
    for key in store.keys(b"").expect("they are in memory") {
        let were = values.get(&key).expect("nobody put another key");
        if let Ok(value) = store.get(&key) {
            let value = value.expect("a key that is there has a value");
            assert!(were.iter().any(|it| *it == value), "{key:?} has {value:?}");
        }
    }
    // What is committed then is there, whatever was damaged before.
    let mut batch = Batch::default();
    batch.put(b"new", b"value");
    if store.commit(&mut batch).is_ok() {
        assert_eq!(store.get(b"new").expect("it was just put").as_deref(), Some(&b"value"[..]));
    }
    let _any = Checkpoints::open(Arc::new(store));
}

#[cfg(test)]
mod tests;
