//! Any bytes as the contents of a checkpoint backend; the first byte picks the part.
//!
//! Merged runs of a slice have the rows of their parts, and a state restored from them writes the same
//! rows out. A manifest is refused or encodes to the same bytes. A store with damaged files gives no
//! value that was never put under its key.

#![no_main]

use tidemill_checkpoints::fuzzing::{manifest, manifest_seeds, read_rows, store};
use tidemill_state::fuzzing::{runs, runs_seeds, split};

fn seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, seed: Vec<u8>| [vec![kind], seed].concat();
    let runs = runs_seeds().into_iter().map(|it| of(0, it));
    let manifests = manifest_seeds().into_iter().map(|it| of(1, it));
    let store = (0..8).map(|file| of(2, vec![file, 0, 40, 1, 1, file, 0, 200, 0, 0]));
    runs.chain(manifests).chain(store).collect()
}

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("checkpoint", seeds()),
    |bytes: &[u8]| {
        let Some((kind, rest)) = bytes.split_first() else { return };
        // A state has a place for each of 65,536 rows of a run that names the last of them alone.
        let bytes_max = (64 << 20) + 1000 * rest.len();
        tidemill_fuzz::within(bytes_max, || match kind % 3 {
            0 => {
                split(rest).into_iter().for_each(read_rows);
                runs(rest);
            }
            1 => manifest(rest),
            _ => store(rest),
        });
    }
);
