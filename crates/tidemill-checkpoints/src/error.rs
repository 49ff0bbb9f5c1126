//! The errors of backends.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{DiskLock, World};

/// An error of a backend.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
    /// An error of the disk.
    #[error("{}: {error}", path.display())]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: Arc<io::Error>,
    },
    /// Damaged bytes. Nothing was changed.
    #[error("{}: damaged at byte {position}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position in the file, in bytes.
        position: u64,
        /// The damage.
        why: String,
    },
    /// The folder is in use.
    #[error(
        "{}: in use by another process, or another part of this one: a job that runs has its \
         checkpoints for itself", path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A server cannot be reached or does not answer in time. The request may have had its effect
    /// or not, and may be repeated.
    #[error("{place}: cannot be reached: {why}")]
    Unreachable {
        /// The server and the place on it, without passwords.
        place: String,
        /// The attempts and their results.
        why: String,
    },
    /// A server refuses the request.
    #[error("{place}: refused: {why}")]
    Refused {
        /// The server and the place on it, without passwords.
        place: String,
        /// The server's answer, and a way out.
        why: String,
    },
    /// A damaged value on a server.
    #[error("{place}: damaged: the value of key {key} is not the one that was written")]
    WrongValue {
        /// The server and the place on it.
        place: String,
        /// The key, in hexadecimal digits.
        key: String,
    },
    /// The place on the server belongs to another job or node.
    #[error("{place}: kept for another job or node: {why}")]
    Taken {
        /// The server and the place on it.
        place: String,
        /// The owner, and a way out.
        why: String,
    },
    /// A server lost committed values. The backend must be opened again.
    #[error("{place}: lost what was committed: {why}")]
    Lost {
        /// The server and the place on it.
        place: String,
        /// The evidence, and a way out.
        why: String,
    },
    /// A key that is longer than the backend allows.
    #[error("a key of {bytes} bytes: {max} are allowed")]
    KeyTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// A value that is longer than any backend allows.
    #[error("a value of {bytes} bytes: {max} are allowed")]
    ValueTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// A sync failed before, so the state of the file is unknown. The backend must be opened again.
    #[error("{}: a sync failed before; open it again", path.display())]
    Failed {
        /// The folder.
        path: PathBuf,
    },
}

impl BackendError {
    /// Returns true if stored bytes are damaged.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::WrongValue { .. })
    }
}

/// Makes an error of the disk at this path.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> BackendError + '_ {
    move |error| BackendError::Disk { path: path.to_owned(), error: Arc::new(error) }
}

/// Locks a folder for one backend.
pub(crate) fn lock(world: &World, folder: &Path) -> Result<Box<dyn DiskLock>, BackendError> {
    world.disk.lock(&folder.join("lock")).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => BackendError::InUse { path: folder.to_owned() },
        _ => at(folder)(error),
    })
}
