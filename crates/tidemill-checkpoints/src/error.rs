//! What can go wrong with a backend.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{DiskLock, World};

/// Why a backend could not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
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
    #[error(
        "{}: in use by another process, or another part of this one: a job that runs has its \
         checkpoints for itself", path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A server cannot be reached, or does not answer in time. What was asked for may be done, or
    /// not; it may be asked again.
    #[error("{place}: cannot be reached: {why}")]
    Unreachable {
        /// The server, and where on it; without passwords.
        place: String,
        /// What was tried, and what came of it.
        why: String,
    },
    /// A server answers that it will not.
    #[error("{place}: refused: {why}")]
    Refused {
        /// The server, and where on it; without passwords.
        place: String,
        /// What it says, and what to do.
        why: String,
    },
    /// A value on a server is not the one that was written there.
    #[error("{place}: damaged: the value of key {key} is not the one that was written")]
    WrongValue {
        /// The server, and where on it.
        place: String,
        /// The key, in hexadecimal digits.
        key: String,
    },
    /// Another job or node has the place on the server.
    #[error("{place}: kept for another job or node: {why}")]
    Taken {
        /// The server, and where on it.
        place: String,
        /// Whose it is, and what to do.
        why: String,
    },
    /// What was committed to a server is not there any more. The backend must be opened again.
    #[error("{place}: lost what was committed: {why}")]
    Lost {
        /// The server, and where on it.
        place: String,
        /// How that shows, and what to do.
        why: String,
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

impl BackendError {
    /// Whether what is kept is not what was written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::WrongValue { .. })
    }
}

/// An error of the disk at this path.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> BackendError + '_ {
    move |error| BackendError::Disk { path: path.to_owned(), error: Arc::new(error) }
}

/// Takes a folder for one backend alone.
pub(crate) fn lock(world: &World, folder: &Path) -> Result<Box<dyn DiskLock>, BackendError> {
    world.disk.lock(&folder.join("lock")).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => BackendError::InUse { path: folder.to_owned() },
        _ => at(folder)(error),
    })
}
