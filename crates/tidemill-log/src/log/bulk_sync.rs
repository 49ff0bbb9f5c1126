//! Changes of many streams: each writes its metadata, and a sync of the whole file system makes all
//! of them durable at once.

use super::Log;
use crate::error::LogError;
use std::{io, sync::Arc};
use tidemill_env::FileSystem;

/// Fewer than these are changed one by one.
const BULK_MIN: usize = 4;

impl Log {
    /// The file system to sync after a change of `count` streams. None if they are better changed
    /// one by one. Open it before the first write: it reports no earlier error.
    pub(super) fn bulk_sync(&self, count: usize) -> Option<Arc<dyn FileSystem>> {
        let disk = &*self.0.shared.world.disk;
        (count >= BULK_MIN).then(|| disk.file_system(&self.0.streams_folder)).and_then(Result::ok)
    }

    /// The error of one stream after a failed sync of the whole file system.
    pub(super) fn not_synced(&self, error: &io::Error) -> LogError {
        let error = io::Error::new(error.kind(), error.to_string());
        LogError::Disk { path: self.0.streams_folder.clone(), error }
    }
}
