//! A file that reserves disk space for deletions.
//!
//! Deletions, retention and startup write metadata before they free anything. On a full disk they
//! remove this file first, and make it again when there is room.

use crate::{error::LogError, log_core::at, meta};
use serde::Serialize;
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::{Disk, has_no_room};

/// See the module.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    path: PathBuf,
    bytes: usize,
}

impl DiskReserve {
    /// In the folder of a log; none if it has no bytes.
    pub(crate) fn new(folder: &Path, bytes: u64) -> Self {
        Self { path: folder.join("reserve"), bytes: usize::try_from(bytes).unwrap_or(0) }
    }

    /// Makes the reserve again, if it was given up and there is room.
    pub(crate) fn take(&self, disk: &dyn Disk) {
        if self.bytes == 0 || disk.exists(&self.path).unwrap_or(true) {
            return;
        }
        let take = || -> io::Result<()> {
            let mut file = disk.create(&self.path)?;
            file.append(&vec![0; self.bytes])?;
            file.sync()
        };
        if take().is_err() {
            // What there was is left for others.
            let _none = disk.remove(&self.path);
        }
    }

    /// As [`meta::write`]; where there is no room for it, with that which was kept.
    pub(crate) fn write<T: Serialize>(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        meta: &T,
    ) -> Result<(), LogError> {
        match meta::write(disk, folder, meta) {
            Err(LogError::Disk { error, .. }) if self.gives_room(disk, &error)? => {
                meta::write(disk, folder, meta)
            }
            other => other,
        }
    }

    /// Runs an operation, and once more with the reserve's room if there is no other.
    pub(crate) fn with_room<T>(
        &self,
        disk: &dyn Disk,
        mut operation: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        match operation() {
            Err(error) if self.give_up(disk, &error)? => operation(),
            other => other,
        }
    }

    fn gives_room(&self, disk: &dyn Disk, error: &io::Error) -> Result<bool, LogError> {
        self.give_up(disk, error).map_err(at(&self.path))
    }

    /// Removes the reserve if there is one and `error` is for want of room.
    fn give_up(&self, disk: &dyn Disk, error: &io::Error) -> io::Result<bool> {
        if !has_no_room(error) || !disk.exists(&self.path).is_ok_and(|it| it) {
            return Ok(false);
        }
        // Until that is durable a file system may not give the room to others.
        disk.remove(&self.path)?;
        disk.sync_dir(self.path.parent().unwrap_or(Path::new("")))?;
        Ok(true)
    }
}
