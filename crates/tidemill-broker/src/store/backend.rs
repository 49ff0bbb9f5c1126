//! A file of [`tidemill_env::Disk`] as redb's storage.
//!
//! It remembers the first error of the disk, because redb tells only that there was one. Space is
//! reserved when the file grows, so that a full disk shows before anything is half written.

use redb::StorageBackend;
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_env::RandomAccessFile;

/// Where redb says which transaction is the newest: nothing else makes one count.
const HEAD_BYTES: u64 = 4096;

/// The first failure.
#[derive(Debug, Default)]
pub(super) struct DiskFailure {
    first: Mutex<Option<(io::ErrorKind, String, bool)>>,
    /// The head of the file was written, or a part of it.
    decided: AtomicBool,
}

impl DiskFailure {
    /// The error, and whether it was of a sync.
    pub(super) fn first(&self) -> Option<(io::Error, bool)> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.as_ref().map(|(kind, why, sync)| (io::Error::new(*kind, why.clone()), *sync))
    }

    /// True if the head of the file was written since the last call.
    pub(super) fn take_decided(&self) -> bool {
        self.decided.swap(false, Ordering::Relaxed)
    }

    fn note<T>(&self, outcome: io::Result<T>, sync: bool) -> io::Result<T> {
        if let Err(error) = &outcome {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| (error.kind(), error.to_string(), sync));
        }
        outcome
    }
}

/// The file.
pub(super) struct Backend {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) trouble: Arc<DiskFailure>,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.trouble.note(self.file.length(), false)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let filled = self.trouble.note(self.file.read_full_at(offset, out), false)?;
        // Not the disk's fault: the file is shorter than it says.
        if filled < out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let set = || {
            if length >= self.file.length()? {
                self.file.reserve(length)
            } else {
                self.file.set_length(length)
            }
        };
        self.trouble.note(set(), false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.trouble.note(self.file.sync(), true)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < HEAD_BYTES {
            self.trouble.decided.store(true, Ordering::Relaxed);
        }
        self.trouble.note(self.file.write_at(offset, data), false)
    }
}
