//! The ledger of a job on disk: appended and synced before effects leave, read on restart.
//!
//! ```text
//! ledger             head │ (life) │ cycle 1 … 40,000       ┐ removed when no checkpoint needs them
//! ledger-…40000      head │ (life) │ cycle 40,001 … 80,000  ┘
//! ledger-…80000      head │ (life) │ cycle 80,001 …           appended to
//! ```
//!
//! Beside it are the notes about the stages (`stages.rs`), which are no part of it.
//!
//! A job without checkpoints has one file, whatever its length: it can only be done again from its
//! start. One with checkpoints begins a file now and then, and the oldest go when every checkpoint
//! that it may go on from is behind them.
//!
//! Invariants:
//!
//! - A new file follows one that is complete and synced; files are removed from the oldest on. So
//!   only the files that follow each other up to the last one count, whatever a crash left before
//!   them.
//! - A job that begins anew writes the first file anew before it removes the others: until it has,
//!   the others are a ledger of the life before.

mod read;
pub(crate) mod stages;
#[cfg(test)]
mod tests;

pub(crate) use read::RecordedCycles;

use crate::error::{ErrorKind, PartError};
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{Disk, DiskFile, has_no_room};
use tidemill_types::{Cycle, Micros};
use tidemill_wire::{
    journal,
    ledger::{LEDGER_VERSION, LedgerEntry, LedgerHead},
};

/// Bytes of a file from which on the next one is begun, if a checkpoint was completed meanwhile.
const FILE_BYTES: u64 = 64 << 10;

/// An open ledger.
pub(crate) struct Ledger {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    head: LedgerHead,
    /// See [`RecordedCycles::began`].
    began: Cycle,
    /// See [`RecordedCycles::life`].
    life: Option<u64>,
    /// Files before the one that is appended to, with the cycle from which on each is over.
    older: VecDeque<(PathBuf, Cycle)>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// The cycle before the first of that file.
    after: Cycle,
    /// Its length, all of it synced.
    bytes: u64,
    /// A write failed: there may be more of it.
    is_torn: bool,
    /// The length from which on the next one is begun.
    full: u64,
    /// The same, of every file.
    file_bytes: u64,
    /// The last cycle of all, and its time.
    last: (Cycle, Micros),
    /// Cycles up to this one are not needed.
    floor: Cycle,
    /// The encoded entries to write next.
    buffer: Vec<u8>,
}

/// The job and sources that a ledger belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) job: String,
    pub(crate) seed: u64,
    pub(crate) sources: Vec<(String, u32)>,
}

impl Owner {
    fn head(&self) -> LedgerHead {
        LedgerHead {
            version: LEDGER_VERSION,
            job: self.job.clone(),
            seed: self.seed,
            sources: self.sources.clone(),
        }
    }
}

/// The error of a ledger that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerError {
    /// Which file.
    pub(crate) path: PathBuf,
    /// Its fault, for a person.
    pub(crate) message: String,
    /// [`ErrorKind::Retry`] if there is no room.
    pub(crate) kind: ErrorKind,
}

impl LedgerError {
    fn of(path: &Path, error: &io::Error) -> Self {
        Self { path: path.to_owned(), message: error.to_string(), kind: kind_of(error) }
    }
}

/// The kind of an error of the ledger's disk.
fn kind_of(error: &io::Error) -> ErrorKind {
    if has_no_room(error) { ErrorKind::Retry } else { ErrorKind::Failed }
}

/// The treatment of an existing ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It is gone on with.
    Resume,
    /// It is replaced.
    Anew(Beginning),
}

/// The beginning of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The cycle before its first; none if the job begins at its start.
    pub(crate) after: Cycle,
    /// The time of that cycle.
    pub(crate) time: Micros,
    /// The number of this life of the job, for [`is_of_life`].
    pub(crate) life: Option<u64>,
}

/// The first file of a ledger.
fn first_file(folder: &Path) -> PathBuf {
    folder.join("ledger")
}

fn later_file(folder: &Path, after: Cycle) -> PathBuf {
    folder.join(format!("ledger-{:020}", after.0))
}

/// All files of a ledger, in the order of their cycles.
fn files(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "ledger" || name.strip_prefix("ledger-").is_some_and(|it| it.parse::<u64>().is_ok())
    };
    Ok(disk.list(folder)?.into_iter().filter(is_one).collect())
}

/// Returns true if a folder has the ledger of a job.
#[must_use]
pub fn has_ledger(disk: &dyn Disk, folder: &Path) -> bool {
    files(disk, folder).is_ok_and(|files| !files.is_empty())
}

/// Returns true if the ledger of a job was begun with this number: files of the life before are
/// obsolete then.
///
/// # Errors
/// Its files cannot be read.
pub fn is_of_life(disk: &dyn Disk, folder: &Path, life: u64) -> io::Result<bool> {
    if !disk.exists(folder)? {
        return Ok(false);
    }
    let lives = files(disk, folder)?.into_iter().map(|path| read::life_of(disk, &path));
    let lives = lives.filter_map(Result::transpose).collect::<io::Result<Vec<_>>>()?;
    Ok(!lives.is_empty() && lives.into_iter().all(|it| it == Some(life)))
}

impl Ledger {
    /// Opens the ledger of a job in its folder; makes one if there is none, or if the job begins
    /// anew. A torn tail is cut off; anything else that is wrong is an error, and stays, and so does
    /// the ledger of another job.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        owner: &Owner,
        opening: Opening,
    ) -> Result<(Self, RecordedCycles), LedgerError> {
        let path = first_file(folder);
        let fail = |error: io::Error| LedgerError::of(&path, &error);
        let damaged = |(path, message)| LedgerError { path, message, kind: ErrorKind::Corrupt };
        disk.create_dir_all(folder).map_err(fail)?;
        let there = files(&**disk, folder).map_err(fail)?;
        let at = match opening {
            Opening::Anew(beginning) => {
                Self::is_of_no_other(&**disk, &there, &owner.job)?;
                // It says that there is a ledger: until the new one is there, there may be none.
                stages::remove(&**disk, folder)?;
                beginning
            }
            Opening::Resume => match read::all(&**disk, &there, owner).map_err(damaged)? {
                Some(found) => return Self::go_on(disk, folder, owner, found).map_err(fail),
                None if stages::is_there(&**disk, folder)? => {
                    let message = "it is gone, or what is there has no beginning, though \
                                   `ledger.stages` says that the job had begun: without it, what \
                                   sinks hold would be written again; put it back, or begin anew, \
                                   without resuming";
                    return Err(LedgerError {
                        path,
                        message: message.to_owned(),
                        kind: ErrorKind::Failed,
                    });
                }
                None => Beginning::default(),
            },
        };
        let made = Self::create(disk, folder, owner, at).map_err(fail)?;
        for left in there.iter().filter(|it| **it != path) {
            disk.remove(left).and_then(|()| disk.sync_dir(folder)).map_err(fail)?;
        }
        Ok((made, RecordedCycles::of_new(at)))
    }

    /// Removes the ledger of a job that keeps none any more, if there is one: it says nothing about
    /// cycles from now on.
    pub(crate) fn remove(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        job: &str,
    ) -> Result<(), LedgerError> {
        let path = first_file(folder);
        let fail = |error: io::Error| LedgerError::of(&path, &error);
        let there = match disk.exists(folder).map_err(fail)? {
            true => files(&**disk, folder).map_err(fail)?,
            false => Vec::new(),
        };
        if there.is_empty() {
            return Ok(());
        }
        Self::is_of_no_other(&**disk, &there, job)?;
        stages::remove(&**disk, folder)?;
        there.iter().try_for_each(|it| disk.remove(it)).map_err(fail)?;
        disk.sync_dir(folder).map_err(fail)
    }

    /// A job that begins anew replaces its own ledger: by a slip of the folder it would be that of
    /// another one, which could not go on any more.
    fn is_of_no_other(disk: &dyn Disk, files: &[PathBuf], job: &str) -> Result<(), LedgerError> {
        let found = read::of_another(disk, files, job)
            .map_err(|(path, error)| LedgerError::of(&path, &error))?;
        let Some((path, other)) = found else { return Ok(()) };
        let message = format!(
            "it belongs to job `{other}`, which could not be resumed without it: use another --data \
             folder, or remove `ledger*` and `checkpoints` from this one if that job is over"
        );
        Err(LedgerError { path, message, kind: ErrorKind::Invalid })
    }

    fn go_on(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        owner: &Owner,
        found: read::LedgerFiles,
    ) -> io::Result<(Self, RecordedCycles)> {
        let read::LedgerFiles { recorded, mut files, of_no_use } = found;
        let active = files.pop_back().expect("a ledger has a file");
        let file = Self::write_beside(&**disk, folder, &active)?;
        let last = (recorded.last(), recorded.last_time());
        // They go when a checkpoint shows that nothing of them is missed.
        let of_no_use = of_no_use.into_iter().map(|path| (path, recorded.after));
        let older = of_no_use.chain(files.into_iter().map(|file| (file.path, file.last)));
        let ledger = Self {
            disk: Arc::clone(disk),
            folder: folder.to_path_buf(),
            head: owner.head(),
            began: recorded.began,
            life: recorded.life,
            older: older.collect(),
            path: active.path,
            file,
            after: active.after,
            bytes: active.whole,
            is_torn: false,
            full: FILE_BYTES,
            file_bytes: FILE_BYTES,
            last,
            floor: Cycle::NONE,
            buffer: Vec::new(),
        };
        Ok((ledger, recorded))
    }

    /// Writes the last file again, without a torn tail: entries that an earlier life failed to sync
    /// can be read although the disk may not have them.
    ///
    /// It is not written where it stands, as [`tidemill_env::RandomAccessFile::rewrite`] does: of
    /// many entries a power cut could leave later ones without earlier ones, and that is no torn
    /// tail but damage. So it is the old file or the new one, whole.
    fn write_beside(
        disk: &dyn Disk,
        folder: &Path,
        last: &read::LedgerFile,
    ) -> io::Result<Box<dyn DiskFile>> {
        let mut bytes = disk.read(&last.path)?;
        bytes.truncate(usize::try_from(last.whole).unwrap_or(usize::MAX));
        let path = folder.join("ledger.new");
        let mut file = disk.create(&path)?;
        file.append(&bytes)?;
        file.sync()?;
        disk.rename(&path, &last.path)?;
        disk.sync_dir(folder)?;
        Ok(file)
    }

    /// The first file of a ledger that begins after a cycle.
    fn create(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        owner: &Owner,
        beginning: Beginning,
    ) -> io::Result<Self> {
        let (path, head) = (first_file(folder), owner.head());
        let Beginning { after, time, life } = beginning;
        let (file, bytes) = begin_file(&**disk, &path, &head, (after, beginning))?;
        disk.sync_dir(folder)?;
        Ok(Self {
            disk: Arc::clone(disk),
            folder: folder.to_path_buf(),
            head,
            began: after,
            life,
            older: VecDeque::new(),
            path,
            file,
            after,
            bytes,
            is_torn: false,
            full: FILE_BYTES,
            file_bytes: FILE_BYTES,
            last: (after, time),
            floor: Cycle::NONE,
            buffer: Vec::new(),
        })
    }

    /// A file is followed by the next one from this length on, in bytes.
    pub(crate) fn begin_next_at(&mut self, bytes: u64) {
        (self.full, self.file_bytes) = (bytes, bytes);
    }

    /// Appends entries and syncs, those first that there was no room for before. Entries that the
    /// ledger holds already (a replay) are left out.
    ///
    /// # Errors
    /// After [`ErrorKind::Retry`] the file is unchanged but for a tail that the next attempt cuts
    /// off, and the entries are kept for it. After any other error the content of the file is
    /// unknown.
    pub(crate) fn append(&mut self, entries: &[LedgerEntry]) -> Result<(), PartError> {
        let (first, is_new) = (self.last, self.buffer.is_empty());
        for entry in entries {
            if let Some((cycle, time)) = entry.cycle().filter(|(cycle, _)| *cycle > self.last.0) {
                assert_eq!(self.last.0.next(), cycle, "the ledger has no gap");
                journal::append(&mut self.buffer, &entry.encode());
                self.last = (cycle, time);
            }
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        if is_new && self.bytes >= self.full && self.floor > self.after {
            self.begin_next(first);
        }
        self.write().map_err(|error| {
            let message = format!("{}: {error}", self.path.display());
            PartError { kind: kind_of(&error), message }
        })
    }

    /// Writes the kept entries.
    ///
    /// A sync on a full disk may have dropped the bytes, so it is not simply repeated: the bytes
    /// are written again first. After a sync that failed otherwise the job ends, and a restart
    /// reads the file.
    fn write(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.truncate(self.bytes)?;
        }
        self.is_torn = true;
        self.file.append(&self.buffer)?;
        self.file.sync()?;
        self.is_torn = false;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Begins the next file. If that fails, the one before is appended to as ever.
    fn begin_next(&mut self, last: (Cycle, Micros)) {
        let path = later_file(&self.folder, last.0);
        let (after, time) = last;
        let beginning = Beginning { after, time, life: self.life };
        let begun = begin_file(&*self.disk, &path, &self.head, (self.began, beginning))
            .and_then(|begun| self.disk.sync_dir(&self.folder).map(|()| begun));
        match begun {
            Ok((file, bytes)) => {
                self.older.retain(|(older, _)| *older != path);
                let before = std::mem::replace(&mut self.path, path);
                self.older.push_back((before, last.0));
                (self.file, self.after, self.bytes) = (file, last.0, bytes);
                self.full = self.file_bytes;
            }
            Err(error) => {
                let job = &self.head.job;
                let file = path.display();
                tracing::warn!(job, %file, %error, "the ledger grows on in its last file");
                // If it stays: a file without a cycle, that others go past, is of no use.
                drop(self.disk.remove(&path));
                self.full = self.bytes + self.file_bytes;
            }
        }
    }

    /// Cycles up to this one are not needed any more: files of nothing else go.
    pub(crate) fn forget(&mut self, upto: Cycle) {
        self.floor = self.floor.max(upto);
        while let Some((path, _)) = self.older.front().filter(|(_, last)| *last <= self.floor) {
            if let Err(error) = self.disk.remove(path) {
                let (job, file) = (&self.head.job, path.display());
                tracing::warn!(job, %file, %error, "a part of the ledger that is over stays");
            }
            self.older.pop_front();
        }
    }
}

/// A file of a ledger that begins after a cycle, synced; its name is not. Gives back its length.
fn begin_file(
    disk: &dyn Disk,
    path: &Path,
    head: &LedgerHead,
    (began, beginning): (Cycle, Beginning),
) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let Beginning { after, time, life } = beginning;
    let head = head.clone();
    let entry = match after {
        Cycle::NONE => LedgerEntry::Head(head),
        after => LedgerEntry::Later { head, began, after, time },
    };
    let mut buffer = Vec::new();
    journal::append(&mut buffer, &entry.encode());
    if let Some(life) = life {
        journal::append(&mut buffer, &LedgerEntry::Life(life).encode());
    }
    let mut file = disk.create(path)?;
    file.append(&buffer)?;
    file.sync()?;
    Ok((file, buffer.len() as u64))
}
