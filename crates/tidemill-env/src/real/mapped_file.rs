//! A file that is written through a memory map: Chimera's journal (Chimera, section III-C3).
//!
//! ```text
//! reserved and mapped ────────────────────────┐
//! written ──▶ pages brought in ahead ──▶      │ beyond it: positioned writes
//! ```
//!
//! Reads are positioned reads: their errors come back as values. Invariants: only space that is
//! really reserved is mapped; the file is cut only while it is not mapped.

use super::{
    RealRead,
    mapping::{Mapping, PAGE_BYTES},
};
use crate::{DiskRead, RandomAccessFile};
use rustix::{fs::FallocateFlags, io::Errno};
use std::{
    io,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Pages are brought in half as far ahead as there is in the file, within these bounds.
const AHEAD_MIN: u64 = 16 << 10;
const AHEAD_MAX: u64 = 256 << 10;

struct Mapped {
    map: Mapping,
    /// Pages below are brought in.
    ready: AtomicU64,
}

pub(super) struct MappedFile {
    file: RealRead,
    mapped: RwLock<Option<Arc<Mapped>>>,
    /// Something was written by a positioned write.
    beside: AtomicBool,
}

impl MappedFile {
    /// Existing bytes are not mapped before they are reserved: the file may have holes.
    pub(super) fn new(file: RealRead) -> Self {
        Self { file, mapped: RwLock::default(), beside: AtomicBool::new(false) }
    }

    fn mapped(&self) -> RwLockReadGuard<'_, Option<Arc<Mapped>>> {
        self.mapped.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps the file from its start to `length`, which is reserved.
    fn map(&self, length: u64) -> io::Result<()> {
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        let ready = mapped.as_ref().map_or(0, |it| it.ready.load(Ordering::Relaxed));
        let map = Mapping::new(&self.file.0, length)?;
        *mapped = Some(Arc::new(Mapped { map, ready: AtomicU64::new(ready) }));
        Ok(())
    }
}

impl Mapped {
    /// Brings in the pages for a write that ends at `end`, and some ahead of it.
    fn prepare(&self, offset: u64, end: u64) -> io::Result<()> {
        let ready = self.ready.load(Ordering::Relaxed);
        if end <= ready {
            return Ok(());
        }
        let until = end + (end / 2).clamp(AHEAD_MIN, AHEAD_MAX);
        let until = until.next_multiple_of(PAGE_BYTES).min(self.map.length());
        self.map.prepare(offset.max(ready), until)?;
        self.ready.fetch_max(until, Ordering::Relaxed);
        Ok(())
    }
}

impl DiskRead for MappedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

impl RandomAccessFile for MappedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_parts_at(offset, &[bytes])
    }

    fn write_parts_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|it| it.len()).sum();
        let end = offset.saturating_add(bytes as u64);
        // Held to the end: the file is not cut while it is written to.
        let mapped = self.mapped();
        let Some(mapped) = mapped.as_ref().filter(|it| end <= it.map.length()) else {
            self.beside.store(true, Ordering::SeqCst);
            return self.file.write_parts_at(offset, parts);
        };
        mapped.prepare(offset, end)?;
        let mut at = offset;
        for part in parts {
            if !mapped.map.write(at, part) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let length = length.max(self.file.length()?);
        if length == 0 || self.mapped().as_ref().is_some_and(|it| it.map.length() >= length) {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file.0, FallocateFlags::empty(), 0, length) {
            Ok(()) => self.map(length),
            // Without room behind it, a map is not safe to write to.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_length(length),
            Err(error) => Err(error.into()),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        *mapped = None;
        self.beside.store(true, Ordering::SeqCst);
        self.file.set_length(length)
    }

    fn sync(&self) -> io::Result<()> {
        // A copy of the reference: a sync is slow, and the file may grow meanwhile.
        let mapped = self.mapped().clone();
        if self.beside.swap(false, Ordering::SeqCst) || mapped.is_none() {
            let outcome = self.file.sync();
            if outcome.is_err() {
                self.beside.store(true, Ordering::SeqCst);
            }
            return outcome;
        }
        mapped.map_or(Ok(()), |it| it.map.sync())
    }
}
