//! Deletion of jobs: their folder, and their checkpoints on a server.
//!
//! ```text
//! job.json ─ renamed ─▶ deleted.json ─▶ the place on the server ─▶ all other files ─▶ deleted.json
//! ```
//!
//! Invariants: a job that has not ended is not deleted; from the renaming on there is no such job,
//! whatever becomes of the node, and the rest is deleted when the node starts, when a job of
//! that name is submitted, or when it is deleted again.

use super::{Folder, JobRecord, Jobs, JobsError};
use crate::checkpoint::remote_place;
use std::{
    io,
    path::Path,
    sync::{Arc, PoisonError},
};
use tidemill_checkpoints::{Backend, BackendError, CheckpointError};

#[cfg(test)]
mod tests;

impl Jobs {
    /// Deletes a job that has ended, with its folder and its checkpoints on a server. The output of its sinks
    /// have written elsewhere stays.
    ///
    /// # Errors
    /// There is no such job, or it has not ended; the server is away, and nothing was deleted; or
    /// the job is deleted and something of it is left, which is deleted later.
    pub fn delete(&self, name: &str) -> Result<(), JobsError> {
        let unknown = || JobsError::Unknown(name.to_owned());
        // Not every text is a folder of this one.
        if !name.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '-' | '_')) {
            return Err(unknown());
        }
        let turn = self.turn(name);
        let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.folder_of(name);
        let disk = |error| JobsError::Disk { path: folder.path().to_owned(), error };
        let record = {
            let state = self.state();
            if state.stopping {
                return Err(JobsError::Stopping);
            }
            match state.jobs.get(name) {
                Some(entry) if !entry.has_ended() => {
                    return Err(JobsError::NotEnded(name.to_owned()));
                }
                entry => entry.map(|it| it.record.clone()),
            }
        };
        if let Some(record) = record {
            // A server that is away is told of while all is still there.
            drop(self.place_of(&record, &folder)?);
            let _noting = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            folder.begin_deletion().map_err(disk)?;
            self.forget(name);
            self.state().jobs.remove(name);
        } else if !folder.is_deleted().map_err(disk)? {
            // One that cannot be read may keep something on a server, or be wanted still.
            let found = folder.read();
            return Err(found.map_or_else(|it| JobsError::unread(folder.path(), it), |_| unknown()));
        }
        self.finish_deletion(name)
    }

    /// Deletes the rest of a job that was being deleted. The caller has the job's turn.
    pub(super) fn finish_deletion(&self, name: &str) -> Result<(), JobsError> {
        let folder = self.folder_of(name);
        let disk = |error| JobsError::Disk { path: folder.path().to_owned(), error };
        if let Some(record) = folder.read_deleted().map_err(disk)?
            && let Some(place) = self.place_of(&record, &folder)?
        {
            place.clear().map_err(CheckpointError::Backend)?;
        }
        folder.delete_all().map_err(disk)?;
        tracing::info!(job = name, "deleted");
        Ok(())
    }

    /// At the start of a node: a folder without a job.
    pub(super) fn go_on_deleting(self: &Arc<Self>, path: &Path) {
        let folder = Folder::at(&self.world, path);
        let record = match folder.read_deleted() {
            Ok(None) => {
                // What is left last is an empty folder; one with something in it stays.
                let _stays = self.world.disk.remove_dir(path);
                return;
            }
            Ok(Some(record)) => record,
            Err(error) => {
                tracing::error!(%error, "what is left of a deleted job cannot be read");
                return;
            }
        };
        let (jobs, name) = (Arc::clone(self), record.name.clone());
        let finish = move || {
            let turn = jobs.turn(&name);
            let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Another who had the turn may have done it.
            let outcome = match jobs.folder_of(&name).is_deleted() {
                Ok(true) => jobs.finish_deletion(&name),
                _ => Ok(()),
            };
            if let Err(error) = outcome {
                tracing::error!(job = name, %error, "something of a deleted job is left");
            }
        };
        if Self::keeps_elsewhere(&record) {
            // Nobody waits for a server that may be away; whatever is left then is left.
            drop(self.world.spawn.spawn("deletion", Box::new(finish)));
        } else {
            finish();
        }
    }

    /// True if a job keeps its checkpoints on a server: its folder proves that they are its own.
    pub(super) fn keeps_elsewhere(record: &JobRecord) -> bool {
        Self::parse(record).is_ok_and(|it| {
            it.spec.checkpoint.as_ref().is_some_and(|it| crate::checkpoint::is_remote(&it.backend))
        })
    }

    /// The checkpoints of a job on a server, if there are any and they are this job's.
    fn place_of(
        &self,
        record: &JobRecord,
        folder: &Folder,
    ) -> Result<Option<Arc<dyn Backend>>, JobsError> {
        let Ok(descriptor) = Self::parse(record) else {
            tracing::warn!(job = record.name, "its file cannot be read, so its folder alone goes");
            return Ok(None);
        };
        match remote_place(&descriptor.spec, folder.path(), &self.world) {
            Ok(place) => Ok(place),
            Err(BackendError::Taken { .. }) => Ok(None),
            Err(error) => Err(CheckpointError::Backend(error).into()),
        }
    }
}

impl Folder {
    /// From now on there is no job here.
    fn begin_deletion(&self) -> io::Result<()> {
        let disk = &*self.world.disk;
        // It may have been done, and not be durable.
        if !self.is_deleted()? {
            disk.rename(&self.file(), &self.mark())?;
        }
        disk.sync_dir(self.path())
    }

    /// Takes away all of a folder that was made for a job which was then refused.
    pub(super) fn undo(&self) -> io::Result<()> {
        self.begin_deletion()?;
        self.delete_all()
    }

    /// True if a job was being deleted here.
    pub(super) fn is_deleted(&self) -> io::Result<bool> {
        self.world.disk.exists(&self.mark())
    }

    /// The job that was being deleted.
    fn read_deleted(&self) -> io::Result<Option<JobRecord>> {
        self.read_file(&self.mark())
    }

    /// Deletes all files, the mark of the deletion last, and the folder.
    fn delete_all(&self) -> io::Result<()> {
        let (disk, mark) = (&*self.world.disk, self.mark());
        for path in disk.list(self.path())?.iter().filter(|it| **it != mark) {
            delete_tree(disk, path)?;
        }
        disk.sync_dir(self.path())?;
        disk.remove(&mark)?;
        disk.sync_dir(self.path())?;
        disk.remove_dir(self.path())?;
        self.path().parent().map_or(Ok(()), |above| disk.sync_dir(above))
    }
}

/// Deletes a file, or a folder with all in it. A link is deleted, and not its target.
fn delete_tree(disk: &dyn tidemill_env::Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::NotFound) =>
        {
            for inside in disk.list(path)? {
                delete_tree(disk, &inside)?;
            }
            disk.remove_dir(path)
        }
        outcome => outcome,
    }
}
