//! Notes beside the ledger about sources and stateful stages, for a job that repeats recorded
//! cycles: from its start, or after its checkpoint.
//!
//! The sinks of such a job leave out the cycles that they hold. So rows of changed stages, or of
//! bytes read in another way, would not belong to the rows that are there.
//!
//! Invariants:
//!
//! - The note is the old one or the new one, whole. It is written after the ledger was opened and
//!   before the first cycle: a ledger that has cycles has the note of the job that made them.
//! - A ledger without a note is one of an older build, and fits any job of its name and sources.
//! - A note has a ledger: it is written after that and removed before a new one is begun. One that
//!   has none tells that the ledger was lost.

use super::LedgerError;
use crate::error::ErrorKind;
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::Disk;
use tidemill_wire::{
    journal,
    ledger::{LEDGER_VERSION, StageNote, StagesNote},
};

/// The file of the note.
fn file(folder: &Path) -> PathBuf {
    folder.join("ledger.stages")
}

/// Returns true if there is a note.
pub(super) fn is_there(disk: &dyn Disk, folder: &Path) -> Result<bool, LedgerError> {
    let path = file(folder);
    disk.exists(&path).map_err(|error| LedgerError::of(&path, &error))
}

/// Removes the note, if there is one.
pub(super) fn remove(disk: &dyn Disk, folder: &Path) -> Result<(), LedgerError> {
    let path = file(folder);
    if !is_there(disk, folder)? {
        return Ok(());
    }
    let removed = disk.remove(&path).and_then(|()| disk.sync_dir(folder));
    removed.map_err(|error| LedgerError::of(&path, &error))
}

/// Reads the note; none if there is no note.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Vec<StageNote>>, LedgerError> {
    let path = file(folder);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LedgerError::of(&path, &error)),
    };
    let note = journal::first(&bytes).and_then(|record| StagesNote::decode(record).ok());
    let message = match note {
        Some(note) if note.version == LEDGER_VERSION => return Ok(Some(note.stages)),
        Some(note) => format!("version {} is not known to this build", note.version),
        None => {
            "it is damaged, and tells whether the job is still the one that was begun; without \
                 it the job goes on whatever became of its stages"
                .to_owned()
        }
    };
    Err(LedgerError { path, message, kind: ErrorKind::Corrupt })
}

/// Replaces the note in one step that outlives a power cut.
pub(crate) fn write(
    disk: &dyn Disk,
    folder: &Path,
    stages: Vec<StageNote>,
) -> Result<(), LedgerError> {
    let path = file(folder);
    let fresh = folder.join("ledger.stages.new");
    let mut bytes = Vec::new();
    journal::append(&mut bytes, &StagesNote { version: LEDGER_VERSION, stages }.encode());
    let write = || {
        let mut file = disk.create(&fresh)?;
        file.append(&bytes)?;
        file.sync()?;
        drop(file);
        disk.rename(&fresh, &path)?;
        disk.sync_dir(folder)
    };
    write().map_err(|error| LedgerError::of(&path, &error))
}
