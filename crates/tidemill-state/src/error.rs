//! What can go wrong with a backend.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{DiskLock, World};

/// Why a backend could not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StateError {
    /// An error of the disk.
    #[error("{}: {error}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: Arc<io::Error>,
    },
    /// Bytes that are not what was written. Nothing was changed.
    #[error("{}: damaged at byte {position}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        position: u64,
        /// What is wrong.
        why: String,
    },
    /// Another has the folder.
    #[error("{}: in use by another process, or another part of this one", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A key is longer than the backend takes.
    #[error("a key of {bytes} bytes: {max} are allowed")]
    KeyTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// Most that is taken.
        max: usize,
    },
    /// A value is longer than any backend takes.
    #[error("a value of {bytes} bytes: {max} are allowed")]
    ValueTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// Most that is taken.
        max: usize,
    },
    /// A sync failed: nothing is known of what was not durable then. Open it again.
    #[error("{}: a sync failed before; open it again", path.display())]
    Failed {
        /// The folder.
        path: PathBuf,
    },
}

/// An error of the disk at this path.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> StateError + '_ {
    move |error| StateError::Disk { path: path.to_owned(), error: Arc::new(error) }
}

/// Takes a folder for one backend alone.
pub(crate) fn lock(world: &World, folder: &Path) -> Result<Box<dyn DiskLock>, StateError> {
    world.disk.lock(&folder.join("lock")).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StateError::InUse { path: folder.to_owned() },
        _ => at(folder)(error),
    })
}
