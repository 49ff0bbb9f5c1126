//! Bytes that were changed are refused or read alike.

use super::*;
use crate::structure::{restore, write_plain};
use proptest::prelude::*;

type Changes = Vec<(prop::sample::Index, u8)>;

fn changes() -> impl Strategy<Value = Changes> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
}

fn changed(seed: &[u8], changes: Changes, keep: Option<prop::sample::Index>) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = byte;
    }
    if let Some(keep) = keep {
        bytes.truncate(keep.index(bytes.len()));
    }
    bytes
}

/// A run of one entry: a row of a structure with these bytes.
fn run_of(structure: u8, row: u32, value: &[u8]) -> Vec<u8> {
    let key = [&[structure][..], &row.to_be_bytes()].concat();
    let mut delta = Delta::default();
    delta.put_with(&key, |out| out.extend_from_slice(value));
    crate::testing::run_of(&mut delta)
}

#[test]
fn the_last_number_that_a_row_can_have_is_refused_as_none_can_follow() {
    let mut value = Vec::new();
    write_plain(&(u64::MAX, "text"), &mut value);
    let refused = restore(&mut Queue::<String>::default(), &[run_of(0, 0, &value)]);
    assert!(refused.is_err(), "a queue");
    value.clear();
    write_plain(&(Micros(1), u64::MAX, 3_u32), &mut value);
    let refused = restore(&mut Window::<u32>::default(), &[run_of(0, 0, &value)]);
    assert!(refused.is_err(), "a window");
}

proptest! {
    #[test]
    fn runs_that_were_changed_are_refused_or_read_alike(
        changes in changes(), keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        runs(&changed(&runs_seeds()[0], changes, keep));
    }
}
