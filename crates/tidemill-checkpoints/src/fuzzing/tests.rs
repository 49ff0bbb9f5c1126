//! Bytes that were changed are refused or say what they say; values are never those of others.

use super::*;
use crate::checkpoints::fuzzing::read_manifest;
use proptest::prelude::*;
use tidemill_state::Delta;

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

/// A run with rows of one form, rows of another, and a deleted key.
fn run() -> Vec<u8> {
    let mut delta = Delta::default();
    for part in 0..3_u8 {
        delta.within(&[part], |delta| {
            for row in 0..300 {
                delta.put_row(row, |out| {
                    let bytes = 40 + usize::from(part) * (row as usize / 100);
                    out.extend(std::iter::repeat_n(part, bytes));
                    true
                });
            }
            delta.delete(&[part, 255]);
        });
    }
    crate::tests::run_of(&mut delta)
}

/// The seed with its bytes changed by `change`, and its number.
fn manifest_with(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut seed = manifest_seeds().swap_remove(0);
    change(&mut seed);
    seed
}

#[test]
fn a_checkpoint_with_a_number_that_none_can_follow_is_refused_and_so_is_a_manifest_with_more_behind()
 {
    let number = u64::MAX;
    // Its number is the first field of the manifest too, where it takes ten bytes.
    let last = manifest_with(|seed| {
        seed[..8].copy_from_slice(&number.to_be_bytes());
        seed.splice(9..10, [0xff; 9].into_iter().chain([1]));
    });
    let world = World::simulated(0).world;
    let backend: Arc<dyn Backend> =
        Arc::new(crate::FileBackend::open(&world, Path::new("/data")).expect("an empty disk"));
    let mut batch = WriteBatch::default();
    batch.put(&[&b"m"[..], &last[..8]].concat(), &last[8..]);
    backend.commit(&mut batch).expect("there is room");
    let refused = Checkpoints::open(backend).err().expect("it is refused");
    assert!(refused.to_string().contains("no checkpoint has such a number"), "{refused}");
    manifest(&last);

    let seed = manifest_with(|_| {});
    assert!(read_manifest(&seed).is_ok());
    let refused = read_manifest(&manifest_with(|seed| seed.push(0))).expect_err("it is refused");
    assert!(refused.to_string().contains("1 bytes too many"), "{refused}");
}

proptest! {
    #[test]
    fn rows_of_a_run_that_was_changed_are_refused_or_found(
        changes in changes(), keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        read_rows(&changed(&run(), changes, keep));
    }

    #[test]
    fn a_manifest_that_was_changed_is_refused_or_is_another_manifest(
        which in 0_usize..3,
        changes in changes(),
        keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let seeds = manifest_seeds();
        manifest(&changed(&seeds[which % seeds.len()], changes, keep));
    }

    #[test]
    fn a_damaged_store_gives_no_value_that_was_never_put_under_its_key(
        damage in proptest::collection::vec(any::<[u8; 5]>(), 0..4),
    ) {
        store(damage.as_flattened());
    }
}
