//! The ledger of a job on disk: appended and synced before effects leave, read on restart.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};
use tidemill_env::{Disk, DiskFile};
use tidemill_types::{Cycle, Micros};
use tidemill_wire::{
    journal,
    ledger::{Cut, LEDGER_VERSION, LedgerEntry},
};

#[cfg(test)]
mod tests;

/// An open ledger.
pub(crate) struct Ledger {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// The last cycle it holds.
    last: Cycle,
    buffer: Vec<u8>,
}

/// What a ledger belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) job: String,
    pub(crate) seed: u64,
    pub(crate) sources: Vec<(String, u32)>,
}

/// What an existing ledger says.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) times: Vec<(Cycle, Micros)>,
    pub(crate) cuts: Vec<(Cycle, Cut)>,
}

impl Recorded {
    /// When a cycle was, if it is recorded.
    pub(crate) fn time(&self, cycle: Cycle) -> Option<Micros> {
        let found = self.times.binary_search_by_key(&cycle, |(it, _)| *it);
        found.ok().map(|index| self.times[index].1)
    }

    /// The last recorded cycle.
    pub(crate) fn last(&self) -> Cycle {
        self.times.last().map_or(Cycle::NONE, |(cycle, _)| *cycle)
    }

    /// The recorded cuts of one source slice, in order.
    pub(crate) fn of(&self, source: usize, slice: u32) -> VecDeque<(Cycle, Cut)> {
        let mine = |cut: &Cut| (cut.source as usize, cut.slice) == (source, slice);
        self.cuts.iter().filter(|(_, cut)| mine(cut)).copied().collect()
    }
}

impl Ledger {
    /// Opens the ledger of a job in its folder; makes one if there is none, or if the job does not
    /// resume. A torn tail is cut off; anything else that is wrong is an error, and stays.
    ///
    /// What is believed is written anew: it may be what a failed sync of an earlier process gave
    /// up, which can be read, is not on the disk, and never will be by another sync.
    pub(crate) fn open(
        disk: &dyn Disk,
        folder: &Path,
        owner: &Owner,
        resume: bool,
    ) -> Result<(Self, Recorded), (PathBuf, String)> {
        let path = folder.join("ledger");
        let fail = |message: String| (path.clone(), message);
        disk.create_dir_all(folder).map_err(|error| fail(error.to_string()))?;
        let exists = disk.exists(&path).map_err(|error| fail(error.to_string()))?;
        if !(resume && exists) {
            return Self::create(disk, folder, &path, owner).map_err(fail);
        }
        let bytes = disk.read(&path).map_err(|error| fail(error.to_string()))?;
        let (recorded, length) = read(&bytes, owner).map_err(fail)?;
        if length == 0 {
            return Self::create(disk, folder, &path, owner).map_err(fail);
        }
        let whole = &bytes[..length as usize];
        let file = put(disk, folder, &path, whole).map_err(|error| fail(error.to_string()))?;
        let last = recorded.last();
        Ok((Self { path, file, last, buffer: Vec::new() }, recorded))
    }

    fn create(
        disk: &dyn Disk,
        folder: &Path,
        path: &Path,
        owner: &Owner,
    ) -> Result<(Self, Recorded), String> {
        let head = LedgerEntry::Head {
            version: LEDGER_VERSION,
            job: owner.job.clone(),
            seed: owner.seed,
            sources: owner.sources.clone(),
        };
        let mut buffer = Vec::new();
        journal::append(&mut buffer, &head.encode());
        let file = put(disk, folder, path, &buffer).map_err(|error| error.to_string())?;
        let ledger = Self { path: path.to_path_buf(), file, last: Cycle::NONE, buffer };
        Ok((ledger, Recorded::default()))
    }

    /// Appends entries and syncs. Entries that the ledger holds already (a replay) are left out.
    pub(crate) fn append(&mut self, entries: &[LedgerEntry]) -> Result<(), String> {
        self.buffer.clear();
        for entry in entries {
            if let LedgerEntry::Cycle { cycle, .. } = entry
                && *cycle > self.last
            {
                assert_eq!(self.last.next(), *cycle, "the ledger has no gap");
                journal::append(&mut self.buffer, &entry.encode());
                self.last = *cycle;
            }
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.append(&self.buffer).and_then(|()| self.file.sync());
        // After a failed sync nothing is known about the file: the job ends, and a restart reads it.
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Puts a ledger in place of what is there, durably.
fn put(
    disk: &dyn Disk,
    folder: &Path,
    path: &Path,
    bytes: &[u8],
) -> std::io::Result<Box<dyn DiskFile>> {
    let new = path.with_extension("new");
    let mut file = disk.create(&new)?;
    file.append(bytes)?;
    file.sync()?;
    disk.rename(&new, path)?;
    disk.sync_dir(folder)?;
    Ok(file)
}

/// Reads a whole ledger; gives back what it says and its length without a torn tail: 0 if not even
/// the head is whole.
fn read(bytes: &[u8], owner: &Owner) -> Result<(Recorded, u64), String> {
    let (records, length, error) = journal::read(bytes);
    if let Some(error) = error.filter(|error| !error.is_torn_tail()) {
        return Err(format!("{error}; the file was left as it is"));
    }
    let mut recorded = Recorded::default();
    for (index, record) in records.iter().enumerate() {
        let entry = LedgerEntry::decode(record)
            .map_err(|error| format!("record {index} is not a ledger entry: {error}"))?;
        match entry {
            LedgerEntry::Head { version, .. } if version != LEDGER_VERSION => {
                return Err(format!("version {version} is not known to this build"));
            }
            LedgerEntry::Head { job, seed, sources, .. } if index == 0 => {
                let found = Owner { job, seed, sources };
                if found != *owner {
                    return Err(format!(
                        "it belongs to job `{}` with other sources; use another --data folder",
                        found.job
                    ));
                }
            }
            LedgerEntry::Cycle { cycle, time, cuts } if index > 0 => {
                let last = recorded.last();
                if cycle != last.next() {
                    return Err(format!("cycle {cycle} follows cycle {last}"));
                }
                recorded.times.push((cycle, time));
                recorded.cuts.extend(cuts.into_iter().map(|cut| (cycle, cut)));
            }
            LedgerEntry::Head { .. } | LedgerEntry::Cycle { .. } => {
                return Err(format!("record {index} is out of place"));
            }
        }
    }
    Ok((recorded, length as u64))
}
