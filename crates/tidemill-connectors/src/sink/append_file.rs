//! A file that grows, and is as it was when its disk had no room for more.
//!
//! ```text
//! bytes   synced │ written since │ torn: of a write that found no room, cut off before the next
//!                └ with a checksum, so that it is known whether they are there still
//! ```
//!
//! A sync that finds no room may have dropped its bytes, though they can be read for a while, and a later sync says nothing about it. So those bytes are checked and written again
//! before the next sync. After any other error the file must not be used.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{Disk, DiskFile, has_no_room};
use tidemill_wire::mark::Checksum;

/// Bytes that are checked at once.
const CHECK_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct AppendFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    length: u64,
    synced: u64,
    /// Of the bytes since.
    checksum: Checksum,
    is_torn: bool,
    /// A sync found no room.
    is_unsure: bool,
}

impl AppendFile {
    /// A file that has so many bytes, all of them synced.
    pub(super) fn of(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file: Box<dyn DiskFile>,
        length: u64,
    ) -> Self {
        Self {
            disk: Arc::clone(disk),
            path: path.to_owned(),
            file,
            length,
            synced: length,
            checksum: Checksum::default(),
            is_torn: false,
            is_unsure: false,
        }
    }

    /// An empty file; an earlier one is replaced.
    pub(super) fn begin(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Self> {
        Ok(Self::of(disk, path, disk.create(path)?, 0))
    }

    /// In bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// It has this name from now on.
    pub(super) fn is_named(&mut self, path: &Path) {
        path.clone_into(&mut self.path);
    }

    /// Appends all bytes, or none. Gives back their checksum.
    ///
    /// # Errors
    /// The disk's. If there is no room the same may be asked for again.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u32> {
        if self.is_torn {
            self.file.truncate(self.length)?;
        }
        self.is_torn = true;
        self.file.append(bytes)?;
        self.is_torn = false;
        self.length += bytes.len() as u64;
        let appended = Checksum::of(bytes);
        self.checksum.combine(&appended);
        Ok(appended.finish())
    }

    /// Makes all bytes survive a power cut.
    ///
    /// # Errors
    /// The disk's. If there is no room the same may be asked for again.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.truncate(self.length)?;
            self.is_torn = false;
        }
        if self.is_unsure {
            self.write_again()?;
        }
        let synced = self.file.sync();
        self.is_unsure = synced.as_ref().is_err_and(has_no_room);
        synced?;
        (self.synced, self.checksum) = (self.length, Checksum::default());
        Ok(())
    }

    fn write_again(&self) -> io::Result<()> {
        let wanted = Some(self.checksum.finish());
        if checksum(&*self.disk, &self.path, self.synced..self.length)? != wanted {
            let why = "the disk was full when it was synced, and what was written is gone; resumed, \
                       the job writes it again";
            return Err(io::Error::other(why));
        }
        self.disk.open_random_access(&self.path)?.rewrite(self.synced, self.length)
    }
}

/// The checksum of a part of a file; none if that is not all there.
pub(super) fn checksum(
    disk: &dyn Disk,
    path: &Path,
    range: std::ops::Range<u64>,
) -> io::Result<Option<u32>> {
    let file = disk.open_read(path)?;
    let mut checksum = Checksum::default();
    let mut buffer = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(CHECK_BYTES);
        buffer.resize(wanted, 0);
        if file.read_full_at(at, &mut buffer)? < wanted {
            return Ok(None);
        }
        checksum.update(&buffer);
        at += wanted as u64;
    }
    Ok((range.start <= range.end).then(|| checksum.finish()))
}
