//! Helpers of this crate's own tests.

use crate::Delta;

/// The run of a delta.
pub(crate) fn run_of(delta: &mut Delta) -> Vec<u8> {
    let mut run = Vec::new();
    delta.finish(&mut run).expect("little has changed");
    run
}
