//! Slices of which keys leave, while others begin to.

use super::*;
use crate::operator::SliceState;
use std::sync::{Arc, atomic::Ordering};
use tidemill_state::structure::{ExpiryCounts, Map, ReadRows};
use tidemill_state::{Delta, ReadError, SavedRows};

const SLICES: usize = 8;

/// Keys of a slice: more than leave at once.
const KEYS: u64 = LEAVE_AT_ONCE as u64 + 100;

/// What has left stays where it is.
struct NobodyReads;

impl ReadRows for NobodyReads {
    fn read(&self, _: &[u8]) -> Result<Vec<u8>, ReadError> {
        Err(ReadError::Failed("nobody uses it".to_owned()))
    }
}

/// A slice whose keys are all saved.
fn saved(counts: &Arc<ExpiryCounts>) -> SliceSlot {
    let mut state: SliceState = Box::<Map<u64, u64>>::default();
    structure::track(&mut *state);
    let rows = SavedRows::new(Arc::new(NobodyReads), Arc::clone(counts), usize::MAX);
    structure::expiry::expires(&mut *state, &rows);
    let map: &mut Map<u64, u64> =
        (&mut *state as &mut dyn std::any::Any).downcast_mut().expect("a map");
    for key in 0..KEYS {
        map.set(key, key);
    }
    structure::freeze(&mut *state);
    assert!(structure::drain(&mut *state, &mut Delta::default(), usize::MAX));
    SliceSlot::Resident(state)
}

/// However often it is found out what leaves, and of however many slices: none of them waits for
/// ever.
#[test]
fn all_keys_that_nobody_uses_leave_in_the_end() {
    let counts = Arc::default();
    let mut held: Vec<_> = (0..SLICES).map(|_| saved(&counts)).collect();
    let mut eviction = Eviction::new(Span(1), SLICES, 0);
    let all = KEYS * SLICES as u64;
    let mut before = 0;
    for cycle in 1_u64.. {
        held.iter_mut().enumerate().for_each(|(slice, it)| eviction.begin(slice, it, cycle));
        eviction.evict(&mut held);
        let expired = counts.expired.load(Ordering::Relaxed);
        assert!(expired - before <= LEAVE_AT_ONCE as u64, "{expired} after {before}");
        before = expired;
        if expired == all {
            break;
        }
        // The first time all of them have just been made, so that it finds none.
        assert!(
            cycle < 4 + 2 * all / LEAVE_AT_ONCE as u64,
            "{expired} of {all} after {cycle} cycles"
        );
    }
}
