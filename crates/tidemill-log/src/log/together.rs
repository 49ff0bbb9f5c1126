//! Changes of many streams: each writes its metadata, and a sync of the whole file system makes all
//! of them durable at once.

use super::Log;
use crate::error::LogError;
use std::{io, sync::Arc};
use tidemill_env::FileSystem;

/// Fewer than these are changed one by one.
const TOGETHER_MIN: usize = 4;

impl Log {
    /// What syncs a change of so many streams; none if they are better changed one by one. What is
    /// written before this is opened would not be told of.
    pub(super) fn together(&self, count: usize) -> Option<Arc<dyn FileSystem>> {
        let disk = &*self.0.shared.world.disk;
        (count >= TOGETHER_MIN)
            .then(|| disk.file_system(&self.0.streams_folder))
            .and_then(Result::ok)
    }

    /// A sync of the whole failed, and this is told of one of those who needed it.
    pub(super) fn not_synced(&self, error: &io::Error) -> LogError {
        let error = io::Error::new(error.kind(), error.to_string());
        LogError::Disk { path: self.0.streams_folder.clone(), error }
    }
}
