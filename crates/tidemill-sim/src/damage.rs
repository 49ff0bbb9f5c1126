//! Bits of the files of a job that turn while none of its processes runs.

use crate::life::FOLDER;
use std::path::Path;
use tidemill_env::{Disk, Random, SimDisk};

/// The folder of the checkpoints.
pub(crate) const CHECKPOINTS: &str = "/state";

/// Flips a bit of a file of the checkpoints or of the ledger; not of the ledger if a replay of it
/// is the reference. Describes the flip, if there was a byte.
pub(crate) fn flip(
    output: &SimDisk,
    state: &SimDisk,
    random: &mut Random,
    spares_ledger: bool,
) -> Option<String> {
    let of_ledger = !spares_ledger && random.below(2) == 0;
    let (disk, folder) = if of_ledger { (output, FOLDER) } else { (state, CHECKPOINTS) };
    let mut files = disk.list(Path::new(folder)).ok()?;
    files.retain(|path| disk.read(path).is_ok_and(|bytes| !bytes.is_empty()));
    if files.is_empty() {
        return None;
    }
    let path = &files[random.below(files.len() as u64) as usize];
    let length = disk.read(path).ok()?.len() as u64;
    let (offset, bit) = (random.below(length), random.below(8));
    disk.flip(path, offset, 1 << bit).ok()?;
    Some(format!("bit {bit} of byte {offset} of the {length} of {} turned", path.display()))
}
