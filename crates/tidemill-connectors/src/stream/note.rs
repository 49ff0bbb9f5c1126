//! Small files of a job's folder: where a source began, and where a sink begins to look for its own
//! chunks when its job resumes.

use super::reach::{Bounds, Reach};
use super::schema_note::SchemaNote;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::SinkError;
use tidemill_wire::json_seal::{seal, unseal};

/// Of a sink: offsets by streamlet, below which all chunks of the run are of cycles that were held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// Which run of the job wrote the chunks.
    pub(super) run: u64,
    /// The last cycle that was whole.
    pub(super) held: u64,
    /// As many as the run writes to.
    pub(super) offsets: Vec<i64>,
    /// The stream's id: another stream may have its name later. None: a program that noted none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<String>,
}

/// Of a source: where each streamlet began and, if it does, ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Began {
    /// The stream's id: another stream may have its name later.
    pub(crate) stream: String,
    pub(crate) bounds: Vec<Bounds>,
    /// The number of streamlets when the job began; none: as many as are listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<u32>,
    /// The columns that were found in its first records. None: a program that kept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) columns: Option<SchemaNote>,
}

impl Began {
    /// A note of the reach, for the stream of this id.
    pub(crate) fn new(id: &str, reach: &Reach, columns: Option<SchemaNote>) -> Self {
        let (stream, bounds) = (id.to_owned(), reach.bounds().to_vec());
        Self { stream, bounds, first: Some(reach.first()), columns }
    }

    /// The noted reach.
    pub(crate) fn reach(&self) -> Reach {
        Reach::of(self.first, self.bounds.clone())
    }

    /// Checks that a checkpoint's positions are of this stream and not of another one.
    ///
    /// # Errors
    /// It is another one.
    pub(crate) fn is_of(&self, id: &str) -> Result<(), &'static str> {
        let is_it = self.stream == id;
        is_it.then_some(()).ok_or(
            "it is not the one that the job read when the checkpoint was made, but another one; \
             begin anew without the checkpoint",
        )
    }
}

/// Why a sink could not write its note; without room it passes.
pub(crate) fn not_noted(error: &io::Error) -> SinkError {
    SinkError::new(error.to_string()).retry_if(has_no_room(error))
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
            io::Error::other(format!(
                "{} is damaged: {error}; without it the job cannot go on where it was",
                self.path.display()
            ))
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
