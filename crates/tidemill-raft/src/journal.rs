//! The durable log of a voter: its vote and its entries, in one file that is appended to.
//!
//! ```text
//! raft-0000000007.journal     record 0: head (version, generation, directory, vote, purged)
//!                             record 1 …: entries, votes, truncations, purges
//! raft-0000000006.journal     the generation before, kept until the next one
//! ```
//!
//! Records are those of [`tidemill_wire::journal`]. Opening begins a new generation, so that all it
//! read is covered by a sync of this process. Entries are also kept in memory: snapshots bound their
//! number to some thousands.
//!
//! Invariants:
//! - A call that returned is on the disk.
//! - A torn tail is cut: it was never answered. Other damage is an error, and nothing is deleted.
//! - After a failed write or sync the journal takes nothing more: the disk's content is unknown.

use crate::voter::{Directory, TableRaft};
use openraft::{Entry, LogId, Vote};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use tidemill_env::{Disk, DiskFile, World};
use tidemill_wire::journal;

#[cfg(test)]
mod tests;

/// The version in the head of each file.
pub const RAFT_JOURNAL_VERSION: u8 = 1;
/// Records behind the head before a new generation may begin, in bytes.
const ROTATE_BYTES_MIN: u64 = 1024 * 1024;
/// Files that are kept: the newest, and the one before it.
const GENERATIONS_KEPT: usize = 2;
/// Around the number of a generation in the name of its file.
const FILE_NAME: (&str, &str) = ("raft-", ".journal");

/// The first record of a file.
#[derive(Serialize, Deserialize)]
struct JournalHead {
    version: u8,
    generation: u64,
    directory: Directory,
    vote: Option<Vote<u64>>,
    purged: Option<LogId<u64>>,
}

/// A record behind the head.
#[derive(Serialize, Deserialize)]
enum LogChange {
    Entry(Entry<TableRaft>),
    Vote(Vote<u64>),
    /// All entries from this index on are removed.
    Truncate(u64),
    /// All entries up to this one are removed: a snapshot has them.
    Purge(LogId<u64>),
}

/// The log in memory.
#[derive(Clone, Debug, Default)]
struct LogContents {
    directory: Directory,
    vote: Option<Vote<u64>>,
    purged: Option<LogId<u64>>,
    entries: BTreeMap<u64, Entry<TableRaft>>,
}

/// The durable log of a voter.
pub struct RaftJournal {
    world: World,
    folder: PathBuf,
    contents: LogContents,
    generation: u64,
    file: Box<dyn DiskFile>,
    /// Length of the head and of the entries that the generation began with.
    base_bytes: u64,
    record_bytes: u64,
    /// The reason why nothing more is taken.
    failure: Option<String>,
}

impl RaftJournal {
    /// Opens the journal in a folder, and makes it if there is none.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::InvalidData`] if the newest file is damaged.
    pub fn open(world: &World, folder: &Path) -> io::Result<Self> {
        world.disk.create_dir_all(folder)?;
        let newest = generations(&*world.disk, folder)?.last().copied();
        let contents = match newest {
            Some(newest) => read(world, folder, newest)?,
            None => LogContents { directory: new_directory(world)?, ..LogContents::default() },
        };
        let generation = newest.map_or(1, |it| it + 1);
        let (file, base_bytes) = write_generation(world, folder, generation, &contents)?;
        let journal = Self {
            world: world.clone(),
            folder: folder.to_owned(),
            contents,
            generation,
            file,
            base_bytes,
            record_bytes: 0,
            failure: None,
        };
        journal.remove_old();
        Ok(journal)
    }

    /// The id of the folder.
    #[must_use]
    pub fn directory(&self) -> Directory {
        self.contents.directory
    }

    /// The newest vote.
    #[must_use]
    pub fn vote(&self) -> Option<Vote<u64>> {
        self.contents.vote
    }

    /// The last entry that was purged.
    #[must_use]
    pub fn purged(&self) -> Option<LogId<u64>> {
        self.contents.purged
    }

    /// The last entry; the last purged one if there is no other.
    #[must_use]
    pub fn last(&self) -> Option<LogId<u64>> {
        self.contents.entries.values().next_back().map(|it| it.log_id).or(self.contents.purged)
    }

    /// The entries of a range of indexes.
    pub fn entries(
        &self,
        range: impl std::ops::RangeBounds<u64>,
    ) -> impl Iterator<Item = &Entry<TableRaft>> {
        self.contents.entries.range(range).map(|(_, entry)| entry)
    }

    /// True if the folder has neither voted nor taken an entry.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.vote().is_none() && self.last().is_none()
    }

    /// Makes a vote durable.
    ///
    /// # Errors
    /// The disk's, now or at an earlier call.
    pub fn save_vote(&mut self, vote: Vote<u64>) -> io::Result<()> {
        self.write([LogChange::Vote(vote)])
    }

    /// Makes entries durable. Each follows the one before it, or replaces one that is there.
    ///
    /// # Errors
    /// As [`Self::save_vote`]; [`io::ErrorKind::InvalidInput`] if an entry leaves a hole.
    pub fn append(&mut self, entries: Vec<Entry<TableRaft>>) -> io::Result<()> {
        let mut last = self.last().map(|it| it.index);
        for entry in &entries {
            let index = entry.log_id.index;
            if let Some(last) = last.filter(|last| index > last + 1) {
                let why = format!("entry {index} leaves a hole behind entry {last}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            last = last.max(Some(index));
        }
        self.write(entries.into_iter().map(LogChange::Entry))
    }

    /// Removes all entries from an index on.
    ///
    /// # Errors
    /// As [`Self::save_vote`].
    pub fn truncate(&mut self, from: u64) -> io::Result<()> {
        self.write([LogChange::Truncate(from)])
    }

    /// Removes all entries up to one of them, which a snapshot has.
    ///
    /// # Errors
    /// As [`Self::save_vote`].
    pub fn purge(&mut self, up_to: LogId<u64>) -> io::Result<()> {
        self.write([LogChange::Purge(up_to)])
    }

    fn write(&mut self, records: impl IntoIterator<Item = LogChange>) -> io::Result<()> {
        if let Some(why) = &self.failure {
            return Err(io::Error::other(why.clone()));
        }
        let records: Vec<LogChange> = records.into_iter().collect();
        let mut framed = Vec::new();
        for record in &records {
            journal::append(&mut framed, &encode(record));
        }
        if let Err(error) = self.file.append(&framed).and_then(|()| self.file.sync()) {
            self.failure = Some(format!("{}: {error}", self.path().display()));
            return Err(error);
        }
        for record in records {
            self.contents.apply(record);
        }
        self.record_bytes += framed.len() as u64;
        if self.record_bytes > self.base_bytes.max(ROTATE_BYTES_MIN) {
            self.rotate();
        }
        Ok(())
    }

    /// Begins a new generation. A failure leaves the old file in use: everything is in it.
    fn rotate(&mut self) {
        self.record_bytes = 0;
        match write_generation(&self.world, &self.folder, self.generation + 1, &self.contents) {
            Ok((file, base_bytes)) => {
                self.generation += 1;
                self.file = file;
                self.base_bytes = base_bytes;
                self.remove_old();
            }
            Err(error) => tracing::warn!(%error, "the journal of votes goes on in its old file"),
        }
    }

    fn remove_old(&self) {
        let remove = || -> io::Result<()> {
            let all = generations(&*self.world.disk, &self.folder)?;
            for old in &all[..all.len().saturating_sub(GENERATIONS_KEPT)] {
                self.world.disk.remove(&path(&self.folder, *old))?;
            }
            Ok(())
        };
        if let Err(error) = remove() {
            tracing::warn!(%error, "an old journal of votes stays");
        }
    }

    fn path(&self) -> PathBuf {
        path(&self.folder, self.generation)
    }
}

impl LogContents {
    fn apply(&mut self, record: LogChange) {
        match record {
            LogChange::Entry(entry) => {
                self.entries.insert(entry.log_id.index, entry);
            }
            LogChange::Vote(vote) => self.vote = Some(vote),
            LogChange::Truncate(from) => {
                self.entries.split_off(&from);
            }
            LogChange::Purge(up_to) => {
                self.entries = self.entries.split_off(&(up_to.index + 1));
                self.purged = self.purged.max(Some(up_to));
            }
        }
    }
}

fn encode(record: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(record).expect("every field has an encoding")
}

fn new_directory(world: &World) -> io::Result<Directory> {
    let mut bits = [0; 16];
    world.entropy.fill(&mut bits)?;
    Ok(Directory(u128::from_le_bytes(bits)))
}

fn path(folder: &Path, generation: u64) -> PathBuf {
    let (before, behind) = FILE_NAME;
    folder.join(format!("{before}{generation:010}{behind}"))
}

/// The generations whose files are in a folder, sorted.
fn generations(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<u64>> {
    let (before, behind) = FILE_NAME;
    let number = |file: &PathBuf| {
        let name = file.file_name()?.to_str()?;
        name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok()
    };
    let mut found: Vec<u64> = disk.list(folder)?.iter().filter_map(number).collect();
    found.sort_unstable();
    Ok(found)
}

/// Writes the file of a generation; gives the file to append to, and its length.
fn write_generation(
    world: &World,
    folder: &Path,
    generation: u64,
    contents: &LogContents,
) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let LogContents { directory, vote, purged, entries } = contents;
    let head = JournalHead {
        version: RAFT_JOURNAL_VERSION,
        generation,
        directory: *directory,
        vote: *vote,
        purged: *purged,
    };
    let mut bytes = Vec::new();
    journal::append(&mut bytes, &encode(&head));
    for entry in entries.values() {
        journal::append(&mut bytes, &encode(&LogChange::Entry(entry.clone())));
    }
    let target = path(folder, generation);
    let draft = target.with_extension("new");
    let mut file = world.disk.create(&draft)?;
    file.append(&bytes)?;
    file.sync()?;
    drop(file);
    world.disk.rename(&draft, &target)?;
    world.disk.sync_dir(folder)?;
    Ok((world.disk.open_append(&target)?, bytes.len() as u64))
}

fn read(world: &World, folder: &Path, newest: u64) -> io::Result<LogContents> {
    let file = path(folder, newest);
    let bytes = world.disk.read(&file)?;
    parse(&bytes, newest).map_err(|why| {
        let advice = "nothing was changed; a voter whose journal is lost must leave the cluster";
        let why = format!("{}: {why}: {advice}", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

fn parse(bytes: &[u8], generation: u64) -> Result<LogContents, String> {
    let (records, _, stopped) = journal::read(bytes);
    if let Some(error) = stopped.filter(|error| !error.is_torn_tail()) {
        return Err(error.to_string());
    }
    let unreadable = |error: postcard::Error| format!("a record that cannot be read: {error}");
    let Some((head, records)) = records.split_first() else {
        return Err("its head is not whole".to_owned());
    };
    // The version is read first: a later one may have other fields behind it.
    if head.first() != Some(&RAFT_JOURNAL_VERSION) {
        let found = head.first().map_or_else(|| "none".to_owned(), |it| it.to_string());
        return Err(format!("version {found}, this program reads {RAFT_JOURNAL_VERSION}"));
    }
    let head: JournalHead = postcard::from_bytes(head).map_err(unreadable)?;
    if head.generation != generation {
        return Err(format!("it is generation {} under another name", head.generation));
    }
    let JournalHead { directory, vote, purged, .. } = head;
    let mut contents = LogContents { directory, vote, purged, entries: BTreeMap::new() };
    for record in records {
        contents.apply(postcard::from_bytes(record).map_err(unreadable)?);
    }
    Ok(contents)
}
