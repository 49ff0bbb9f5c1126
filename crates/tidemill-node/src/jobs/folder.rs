//! A job's folder: the submission and the wanted status, in one file.

use super::Status;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::World;
use tidemill_types::{CheckpointNumber, job::Delivery};
use tidemill_wire::json_seal::{seal, unseal};

/// The file, `job.json`.
const FILE: &str = "job.json";

/// A job on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobRecord {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) status: Status,
    pub(super) delivery: Delivery,
    pub(super) submitted_us: i64,
    /// The name of the job file, for messages.
    pub(super) file: String,
    pub(super) text: String,
    pub(super) set: Vec<String>,
    pub(super) base_dir: Option<PathBuf>,
    /// Worker threads, if they were changed.
    pub(super) threads: Option<usize>,
    /// The way it begins, until it has begun.
    #[serde(default)]
    pub(super) begins: Option<Begins>,
    /// The job that it replaces, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Box<JobRecord>>,
}

/// The way a submitted job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begins {
    /// It goes on where it stopped.
    pub(super) resume: bool,
    /// With the checkpoint of this number.
    pub(super) from: Option<CheckpointNumber>,
    /// The number by which its ledger is known from that of the life before.
    pub(super) life: u64,
}

impl Begins {
    /// It goes on where its ledger ends.
    pub(super) const RESUMED: Self = Self { resume: true, from: None, life: 0 };
}

impl JobRecord {
    /// The file that it was read from, if that is known.
    pub(super) fn job_file(&self) -> Option<PathBuf> {
        Some(self.base_dir.as_ref()?.join(Path::new(&self.file).file_name()?))
    }
}

/// A job's folder.
pub(super) struct Folder {
    pub(super) world: World,
    path: PathBuf,
}

impl Folder {
    pub(super) fn at(world: &World, path: &Path) -> Self {
        Self { world: world.clone(), path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// The file, once its job is being deleted.
    pub(super) fn mark(&self) -> PathBuf {
        self.path.join("deleted.json")
    }

    /// The note; none if there is no such file.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::InvalidData`] if the file is not as it was written.
    pub(super) fn read(&self) -> io::Result<Option<JobRecord>> {
        self.read_file(&self.file())
    }

    pub(super) fn read_file(&self, path: &Path) -> io::Result<Option<JobRecord>> {
        let bytes = match self.world.disk.read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |error: &dyn std::fmt::Display| {
            let message = format!("{} is damaged: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let json = unseal(&bytes).map_err(|error| damaged(&error))?;
        let record: JobRecord = serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
        if self.path.file_name().is_none_or(|it| *it != *record.name) {
            let message = format!("{} is that of job `{}`", path.display(), record.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Some(record))
    }

    /// Replaces it in one step that outlives a power cut.
    pub(super) fn write(&self, record: &JobRecord) -> io::Result<()> {
        let disk = &*self.world.disk;
        disk.create_dir_all(&self.path)?;
        if let Some(above) = self.path.parent() {
            disk.sync_dir(above)?;
        }
        let fresh = self.begun();
        // The text of a job may hold a password.
        let mut file = disk.create_private(&fresh)?;
        file.append(&seal(&serde_json::to_vec_pretty(record).map_err(io::Error::other)?))?;
        file.sync()?;
        drop(file);
        disk.rename(&fresh, &self.path.join(FILE))?;
        disk.sync_dir(&self.path)
    }

    /// The next version of the file.
    fn begun(&self) -> PathBuf {
        self.path.join("job.json.new")
    }

    /// Removes the next version of the file, left by a crash.
    pub(super) fn remove_begun(&self) -> io::Result<()> {
        self.world.disk.remove(&self.begun())
    }

    /// Takes the job out; other files of the folder stay.
    pub(super) fn remove(&self) -> io::Result<()> {
        let disk = &*self.world.disk;
        disk.remove(&self.path.join(FILE))?;
        match disk.remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }
}
