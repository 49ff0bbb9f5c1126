//! The cycles recorded in the files of a ledger.

use super::super::cuts::slice_of;
use super::{Beginning, LedgerHead, Owner};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
};
use tidemill_env::Disk;
use tidemill_types::{Cycle, Micros, SliceKey};
use tidemill_wire::{
    journal,
    ledger::{Cut, LEDGER_VERSION, LedgerEntry},
};

/// The recorded cycles of a ledger.
#[derive(Debug, Default)]
pub(crate) struct RecordedCycles {
    /// The cycle of the checkpoint that the job began with; none if it began at its start.
    pub(crate) began: Cycle,
    /// The number of that beginning, if it was given one.
    pub(crate) life: Option<u64>,
    /// Cycles after this one are recorded.
    pub(crate) after: Cycle,
    /// The recorded time of that cycle.
    pub(super) time: Micros,
    pub(crate) times: Vec<(Cycle, Micros)>,
    pub(crate) cuts: Vec<(Cycle, Cut)>,
    /// The watermarks of source slices at the ends of cycles, where they are recorded.
    pub(crate) watermarks: BTreeMap<(Cycle, SliceKey), Micros>,
}

impl RecordedCycles {
    /// The record of a ledger that begins.
    pub(crate) fn of_new(Beginning { after, time, life }: Beginning) -> Self {
        Self { began: after, after, time, life, ..Self::default() }
    }

    /// The time of a cycle, if it is recorded.
    pub(crate) fn time(&self, cycle: Cycle) -> Option<Micros> {
        if cycle == self.after {
            return (cycle > Cycle::NONE).then_some(self.time);
        }
        let found = self.times.binary_search_by_key(&cycle, |(it, _)| *it);
        found.ok().map(|index| self.times[index].1)
    }

    /// The last recorded cycle.
    pub(crate) fn last(&self) -> Cycle {
        self.times.last().map_or(self.after, |(cycle, _)| *cycle)
    }

    /// The time of the last recorded cycle.
    pub(crate) fn last_time(&self) -> Micros {
        self.times.last().map_or(self.time, |(_, time)| *time)
    }

    /// The next cycle.
    fn add(&mut self, (cycle, time): (Cycle, Micros), cuts: Vec<Cut>) -> Result<(), String> {
        let last = self.last();
        if cycle != last.next() {
            return Err(format!("cycle {cycle} follows cycle {last}"));
        }
        self.times.push((cycle, time));
        self.cuts.extend(cuts.into_iter().map(|cut| (cycle, cut)));
        Ok(())
    }

    /// The recorded cuts of one source slice after a cycle, in order. In cycles before the slice
    /// existed, its cut is `at_first`: no records, and no event time held back.
    pub(crate) fn of(&self, at_first: Cut, after: Cycle) -> VecDeque<(Cycle, Cut)> {
        let is_mine = |cut: &Cut| slice_of(cut) == slice_of(&at_first);
        let mine = self.cuts.iter().filter(|(cycle, cut)| *cycle > after && is_mine(cut));
        let first = self.cuts.iter().find(|(_, cut)| is_mine(cut)).map(|(cycle, _)| *cycle);
        let is_before = |cycle: &Cycle| *cycle > after && first.is_none_or(|first| *cycle < first);
        let before = self.times.iter().map(|(cycle, _)| *cycle).filter(is_before);
        before.map(|cycle| (cycle, at_first)).chain(mine.copied()).collect()
    }
}

/// The files of a ledger that follow each other.
pub(super) struct LedgerFiles {
    pub(super) recorded: RecordedCycles,
    /// In the order of their cycles; at least one.
    pub(super) files: VecDeque<LedgerFile>,
    /// Files that do not belong to them.
    pub(super) of_no_use: Vec<PathBuf>,
}

/// One file of a ledger.
pub(super) struct LedgerFile {
    pub(super) path: PathBuf,
    /// The cycle before its first.
    pub(super) after: Cycle,
    /// Its last cycle; [`Self::after`] if it has none.
    pub(super) last: Cycle,
    /// Its length without a torn tail.
    pub(super) whole: u64,
}

/// Reads a ledger from its files; none if it has no head.
///
/// # Errors
/// The path of a file, and its fault.
pub(super) fn all(
    disk: &dyn Disk,
    files: &[PathBuf],
    owner: &Owner,
) -> Result<Option<LedgerFiles>, (PathBuf, String)> {
    // From the last one back, as far as they follow each other.
    let mut found: Option<LedgerFiles> = None;
    let mut without_cycles: Option<(LedgerFile, RecordedCycles)> = None;
    let mut of_no_use = Vec::new();
    for (nth, path) in files.iter().enumerate().rev() {
        if found.as_ref().is_some_and(|it| it.recorded.after == Cycle::NONE) {
            of_no_use.push(path.clone());
            continue;
        }
        let Some((file, recorded)) = one(disk, path, owner)? else {
            // Its head is not whole: it had just been begun.
            of_no_use.push(path.clone());
            continue;
        };
        match &mut found {
            // One without a cycle counts only if there is no other: the one before it may have
            // grown past it.
            None if recorded.times.is_empty() && without_cycles.is_none() => {
                without_cycles = Some((file, recorded));
            }
            None if recorded.times.is_empty() => of_no_use.push(file.path),
            None => {
                found = Some(LedgerFiles { recorded, files: [file].into(), of_no_use: Vec::new() })
            }
            Some(found) if follows(&found.recorded, &recorded) => {
                found.files.push_front(file);
                prepend(&mut found.recorded, recorded);
            }
            Some(_) if recorded.times.is_empty() => of_no_use.push(file.path),
            // What is before a gap was removed, and its name came back with a power cut.
            Some(_) => {
                of_no_use.extend(files[..=nth].iter().cloned());
                break;
            }
        }
    }
    if let Some((file, recorded)) = without_cycles {
        match &found {
            None => {
                found = Some(LedgerFiles { recorded, files: [file].into(), of_no_use: Vec::new() })
            }
            Some(_) => of_no_use.push(file.path),
        }
    }
    Ok(found.map(|found| LedgerFiles { of_no_use, ..found }))
}

/// Returns true if a file ends where the files after it begin, in the same life of the job.
fn follows(later: &RecordedCycles, earlier: &RecordedCycles) -> bool {
    (later.began, later.after, later.time) == (earlier.began, earlier.last(), earlier.last_time())
}

fn prepend(later: &mut RecordedCycles, mut earlier: RecordedCycles) {
    earlier.times.append(&mut later.times);
    earlier.cuts.append(&mut later.cuts);
    earlier.watermarks.append(&mut later.watermarks);
    *later = earlier;
}

/// Reads one file; nothing if not even its head is whole.
fn one(
    disk: &dyn Disk,
    path: &Path,
    owner: &Owner,
) -> Result<Option<(LedgerFile, RecordedCycles)>, (PathBuf, String)> {
    let fail = |message: String| (path.to_path_buf(), message);
    let bytes = disk.read(path).map_err(|error| fail(error.to_string()))?;
    let (recorded, whole) = read(&bytes, owner).map_err(fail)?;
    if whole == 0 {
        return Ok(None);
    }
    let (after, last) = (recorded.after, recorded.last());
    let file = LedgerFile { path: path.to_path_buf(), after, last, whole };
    Ok(Some((file, recorded)))
}

/// Reads a whole file; returns its cycles and its length without a torn tail: 0 if not even the
/// head is complete.
fn read(bytes: &[u8], owner: &Owner) -> Result<(RecordedCycles, u64), String> {
    let (records, length, error) = journal::read(bytes);
    if let Some(error) = error.filter(|error| !error.is_torn_tail()) {
        return Err(format!("{error}; the file was left as it is"));
    }
    let mut recorded = RecordedCycles::default();
    for (index, record) in records.iter().enumerate() {
        let entry = LedgerEntry::decode(record)
            .map_err(|error| format!("record {index} is not a ledger entry: {error}"))?;
        match entry {
            LedgerEntry::Head(head) if index == 0 => belongs(head, owner)?,
            LedgerEntry::Later { head, began, after, time } if index == 0 => {
                belongs(head, owner)?;
                (recorded.began, recorded.after, recorded.time) = (began, after, time);
            }
            LedgerEntry::Life(life) if index == 1 => recorded.life = Some(life),
            LedgerEntry::Cycle { cycle, time, cuts } if index > 0 => {
                recorded.add((cycle, time), cuts)?;
            }
            LedgerEntry::Marked { cycle, time, cuts, watermarks } if index > 0 => {
                let slices = cuts.iter().map(|cut| (cycle, slice_of(cut)));
                recorded.watermarks.extend(slices.zip(watermarks));
                recorded.add((cycle, time), cuts)?;
            }
            LedgerEntry::Head(_)
            | LedgerEntry::Later { .. }
            | LedgerEntry::Life(_)
            | LedgerEntry::Cycle { .. }
            | LedgerEntry::Marked { .. } => {
                return Err(format!("record {index} is out of place"));
            }
        }
    }
    Ok((recorded, length as u64))
}

/// More than the head of a ledger has, which names the sources of its job.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// The first file that belongs to another job, with the name of that job, if there is one.
///
/// A file without a complete head belongs to no job.
///
/// # Errors
/// The path of a file that cannot be read, and why.
pub(super) fn of_another(
    disk: &dyn Disk,
    files: &[PathBuf],
    job: &str,
) -> Result<Option<(PathBuf, String)>, (PathBuf, io::Error)> {
    for path in files {
        let bytes = beginning_of(disk, path).map_err(|error| (path.clone(), error))?;
        let entry = journal::first(&bytes).and_then(|record| LedgerEntry::decode(record).ok());
        if let Some(LedgerEntry::Head(head) | LedgerEntry::Later { head, .. }) = entry
            && head.job != job
        {
            return Ok(Some((path.clone(), head.job)));
        }
    }
    Ok(None)
}

/// The first bytes of a file: a ledger without checkpoints is as long as its job has run.
fn beginning_of(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES_MAX];
    let read = disk.open_read(path)?.read_full_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The number of the life that a file is of, if it has one; nothing if its head is not whole.
pub(super) fn life_of(disk: &dyn Disk, path: &Path) -> io::Result<Option<Option<u64>>> {
    let bytes = beginning_of(disk, path)?;
    let (records, ..) = journal::read(&bytes);
    Ok(records.first().map(|_| match records.get(1).map(|it| LedgerEntry::decode(it)) {
        Some(Ok(LedgerEntry::Life(life))) => Some(life),
        _ => None,
    }))
}

/// Checks that a head is the owner's, in a version that this build knows.
fn belongs(head: LedgerHead, owner: &Owner) -> Result<(), String> {
    let LedgerHead { version, job, seed, sources } = head;
    if version != LEDGER_VERSION {
        return Err(format!("version {version} is not known to this build"));
    }
    let found = Owner { job, seed, sources };
    if found.job != owner.job {
        let (theirs, ours) = (&found.job, &owner.job);
        return Err(format!(
            "it belongs to job `{theirs}`, and not to `{ours}`; use another --data folder"
        ));
    }
    if found != *owner {
        return Err(format!(
            "it belongs to job `{}` with other sources; use another --data folder",
            found.job
        ));
    }
    Ok(())
}
