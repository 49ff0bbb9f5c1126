//! Any bytes as the runs of a slice, for tests and for fuzz targets.

use crate::delta::most_entries;
use crate::structure::{self, List, Map, Queue, State, Structure, Value, Window, row_of};
use crate::{Delta, merge, visit_entries};
use std::collections::BTreeMap;
use tidemill_types::Micros;

/// The largest row number that is restored: a slab has a slot for every smaller one.
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

/// The content of a state as text.
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
#[must_use]
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut runs = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (run, rest) = rest.split_at(length);
        runs.push(run);
        bytes = rest;
    }
    runs
}

/// Takes the bytes as runs of one slice. Merging them keeps their content, and a state that
/// restores them writes that content out again.
///
/// # Panics
/// Panics if one of these does not hold.
pub fn runs(bytes: &[u8]) {
    let runs = split(bytes);
    let most = most_entries(&runs);
    let mut entries = BTreeMap::new();
    let mut last: Option<Vec<u8>> = None;
    let mut are_few = true;
    let read = visit_entries(&runs, &mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        let row = key.split_first().and_then(|(_, key)| row_of(key).ok());
        are_few &= row.is_none_or(|row| row < ROWS_MAX);
        entries.insert(key.to_vec(), value.to_vec());
        Ok(())
    });
    let one = merge(&runs);
    assert_eq!(one.is_ok(), read.is_ok(), "what can be read can be merged");
    let Ok(one) = one else { return };
    assert!(entries.len() <= runs.iter().map(|run| run.len() / 8).sum());
    assert!(most.is_ok_and(|most| most <= bytes.len() / 8));
    let mut again = BTreeMap::new();
    let read = visit_entries(&[&one], &mut |key, value| {
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

#[cfg(test)]
mod tests;
