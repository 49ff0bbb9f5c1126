//! Small files of a job's folder: where a source began, and where a sink begins to look for its own
//! chunks when its job resumes.

use serde::{Serialize, de::DeserializeOwned};
use std::{
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{ErrorKind, SinkError};
use tidemill_wire::json_seal::{seal, unseal};

/// Why a sink could not write its note; without room it passes.
pub(crate) fn not_noted(error: &io::Error) -> SinkError {
    SinkError::new(error.to_string()).retry_if(has_no_room(error))
}

/// The error of a sink that could not read its note.
pub(crate) fn not_read(error: &io::Error) -> SinkError {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::Corrupt,
        _ => ErrorKind::Failed,
    };
    SinkError::of_kind(kind, error.to_string())
}

/// The file of a note.
pub(crate) struct Notes<T> {
    world: World,
    path: PathBuf,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Notes<T> {
    pub(crate) fn new(world: &World, path: &Path) -> Self {
        Self { world: world.clone(), path: path.to_owned(), of: PhantomData }
    }

    /// The note; none if there is no file.
    pub(crate) fn read(&self) -> io::Result<Option<T>> {
        let bytes = match self.world.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |error: &dyn std::fmt::Display| {
            let path = self.path.display();
            let message =
                format!("{path} is damaged: {error}; without it the job cannot go on where it was");
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let json = unseal(&bytes).map_err(|error| damaged(&error))?;
        serde_json::from_slice(&json).map(Some).map_err(|error| damaged(&error))
    }

    /// Replaces the note in one step that outlives a power cut.
    pub(crate) fn write(&self, note: &T) -> io::Result<()> {
        let disk = &*self.world.disk;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        disk.create_dir_all(folder)?;
        let mut fresh = self.path.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let bytes = seal(&serde_json::to_vec(note).map_err(io::Error::other)?);
        let mut file = disk.create(&fresh)?;
        file.append(&bytes)?;
        file.sync()?;
        drop(file);
        disk.rename(&fresh, &self.path)?;
        disk.sync_dir(folder)
    }
}
