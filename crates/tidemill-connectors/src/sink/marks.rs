//! The journal beside a file: marks that say how much of it is committed.
//!
//! `out.ndjson.tidemill` stays when the job ends, with one mark in it: without it nobody knows
//! how much of `out.ndjson` is whole.

use super::append_file::{AppendFile, checksum};
use crate::error::ConnectorError;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::Disk;
use tidemill_types::Cycle;
use tidemill_wire::{journal, mark::SinkMark};

/// The journal is written anew, with one mark, when it is longer than this.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;

/// The committed part of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Committed {
    pub(super) cycle: Cycle,
    /// In bytes.
    pub(super) length: u64,
    /// The synced part of it. The rest can be read, and may be on no disk.
    pub(super) synced: u64,
    /// The description of its rows; none from an older build.
    pub(super) rows: Option<String>,
}

/// The journal of a file.
pub(super) struct Marks {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// The description of the rows.
    rows: String,
    file: Option<AppendFile>,
}

/// The path with something after its last letter.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Marks {
    /// The journal beside `path`, whose rows are these; nothing is opened yet.
    pub(super) fn beside(disk: Arc<dyn Disk>, path: &Path, rows: String) -> Self {
        Self { disk, path: with_suffix(path, ".tidemill"), rows, file: None }
    }

    /// Replaces the journal by one with a single mark, in one step that outlives a power cut.
    pub(super) fn replace(&mut self, cycle: Cycle, length: u64) -> io::Result<()> {
        let fresh = with_suffix(&self.path, ".new");
        let mark = SinkMark { cycle, length, checksum: 0, synced: true };
        let bytes = framed(&mark.encode_first(&self.rows));
        let mut file = AppendFile::begin(&self.disk, &fresh)?;
        file.append(&bytes)?;
        file.sync()?;
        self.disk.rename(&fresh, &self.path)?;
        file.is_named(&self.path);
        self.disk.sync_dir(folder(&self.path))?;
        self.file = Some(file);
        Ok(())
    }

    /// Adds a mark for bytes that were appended and not synced.
    pub(super) fn add(&mut self, cycle: Cycle, length: u64, checksum: u32) -> io::Result<()> {
        self.append(&SinkMark { cycle, length, checksum, synced: false })
    }

    /// Adds a mark for a file that was synced, and syncs it.
    pub(super) fn add_synced(&mut self, cycle: Cycle, length: u64) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|it| it.length() > JOURNAL_BYTES_MAX) {
            return self.replace(cycle, length);
        }
        self.append(&SinkMark { cycle, length, checksum: 0, synced: true })?;
        match &mut self.file {
            Some(file) => file.sync(),
            None => Ok(()),
        }
    }

    fn append(&mut self, mark: &SinkMark) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.append(&framed(&mark.encode())).map(drop),
            None => Err(io::Error::other("the sink is not open")),
        }
    }

    /// The committed length of `data`, by the journal and the bytes themselves; none without a journal and
    /// data.
    ///
    /// # Errors
    /// They contradict each other in a way that no crash leaves. Nothing is changed then.
    pub(super) fn committed(&self, data: &Path) -> Result<Option<Committed>, ConnectorError> {
        let unreadable = |error: io::Error| ConnectorError::io(data, &error);
        let held = self.disk.exists(data).map_err(unreadable)?;
        let length = match held {
            true => self.disk.open_read(data).and_then(|it| it.length()).map_err(unreadable)?,
            false => 0,
        };
        if !self.disk.exists(&self.path).map_err(unreadable)? {
            if length == 0 {
                return Ok(None);
            }
            let message = format!(
                "`{}`, which says how much of it is committed, is missing. Move `{}` away, or start \
                 the job anew",
                self.path.display(),
                data.display()
            );
            return Err(ConnectorError::unwritable(data, message));
        }
        let bytes =
            self.disk.read(&self.path).map_err(|error| ConnectorError::io(&self.path, &error))?;
        let (marks, rows) = self.read(&bytes)?;
        let last_synced = marks.iter().rposition(|mark| mark.synced).unwrap_or(0);
        let mut accepted = marks[last_synced];
        if length < accepted.length {
            let message = format!(
                "it has {length} bytes, but {} were committed. Put the whole file back, or start the \
                 job anew",
                accepted.length
            );
            return Err(ConnectorError::unwritable(data, message));
        }
        let synced = accepted.length;
        for mark in &marks[last_synced + 1..] {
            let range = accepted.length..mark.length;
            let fits = mark.length <= length
                && checksum(&*self.disk, data, range).map_err(unreadable)? == Some(mark.checksum);
            if !fits {
                break;
            }
            accepted = *mark;
        }
        Ok(Some(Committed { cycle: accepted.cycle, length: accepted.length, synced, rows }))
    }

    /// The whole marks of a journal, at least one, and the description of its rows; the first is synced.
    fn read(&self, bytes: &[u8]) -> Result<(Vec<SinkMark>, Option<String>), ConnectorError> {
        let damaged = || {
            let message = "the journal of a sink is damaged. Move it away together with the file \
                           beside it, or start the job anew";
            ConnectorError::unreadable(&self.path, message)
        };
        let (records, whole, error) = journal::read(bytes);
        let (first, others) = records.split_first().ok_or_else(damaged)?;
        let (first, rows) = SinkMark::decode_first(first).map_err(|_| damaged())?;
        if !first.synced {
            return Err(damaged());
        }
        let others = others.iter().map(|record| SinkMark::decode(record));
        let marks = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>, _>>();
        let marks = marks.map_err(|_| damaged())?;
        // What was not synced may be lost in any part; but what a synced mark follows was synced.
        if error.is_some() && synced_follows(&bytes[whole..]) {
            return Err(damaged());
        }
        Ok((marks, rows))
    }
}

fn framed(mark: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    journal::append(&mut bytes, mark);
    bytes
}

/// Returns true if a synced mark stands anywhere in damaged bytes.
fn synced_follows(bytes: &[u8]) -> bool {
    (1..bytes.len()).any(|at| {
        // A mark is short: what claims to be longer is not one.
        let end = bytes.len().min(at + 64);
        let (records, _, _) = journal::read(&bytes[at..end]);
        records.first().is_some_and(|it| SinkMark::decode(it).is_ok_and(|mark| mark.synced))
    })
}
