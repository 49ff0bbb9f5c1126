//! Checks that a file can be written, without a change to it.
//!
//! The rights of a folder do not say it all: its file system may be mounted to be read only, or be
//! full. So a small file is made in it, and removed again.

use super::marks::{folder, with_suffix};
use std::{io, path::Path};
use tidemill_env::Disk;

/// Suffix of the trial file, one for each file to be written.
const TRIAL: &str = ".tidemill-trial";

/// Finds out whether a file can be made, or written to if it is there; folders that are missing are
/// left missing, and looked at where the first of them would be made.
///
/// # Errors
/// Why it cannot be written.
pub(super) fn check(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.exists(path)? {
        // Nothing is cut off by that.
        drop(disk.open_append(path)?);
    }
    let mut there = folder(path);
    while there.file_name().is_some() && !disk.exists(there)? {
        there = folder(there);
    }
    let name = path.file_name().unwrap_or_default();
    let trial = with_suffix(&there.join(name), TRIAL);
    let mut file = disk.create(&trial)?;
    let written = file.append(b"\n");
    drop(file);
    written.and(disk.remove(&trial))
}
