//! Notes of jobs, in their folders. A note that found no room is written later: a job that was
//! cancelled must not run again because its disk was full just then.
//!
//! Invariant: the last note is the newest one; a note that was put off is dropped by the next.

use super::{Folder, JobRecord, Jobs, JobsError};
use std::{
    collections::BTreeMap,
    io,
    sync::{MutexGuard, PoisonError},
};

/// By job: the note that could not be written.
pub(super) type PutOff = BTreeMap<String, JobRecord>;

impl Jobs {
    fn put_off(&self) -> MutexGuard<'_, PutOff> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the note of a job, now or as soon as there is room.
    pub(super) fn keep(&self, record: &JobRecord) {
        let mut put_off = self.put_off();
        match self.folder_of(&record.name).write(record) {
            Ok(()) => drop(put_off.remove(&record.name)),
            Err(error) => {
                tracing::error!(
                    job = record.name,
                    %error,
                    "what became of a job cannot be noted; it is tried again"
                );
                put_off.insert(record.name.clone(), record.clone());
            }
        }
    }

    /// Writes the notes that were put off, as far as there is room.
    pub fn note_again(&self) {
        self.put_off().retain(|name, record| self.folder_of(name).write(record).is_err());
    }

    /// The status of a job that is replaced: nothing of it is noted later.
    pub(super) fn known_before(
        &self,
        folder: &Folder,
        name: &str,
    ) -> io::Result<Option<JobRecord>> {
        match self.put_off().remove(name) {
            Some(record) => Ok(Some(record)),
            None => folder.read(),
        }
    }

    /// Nothing is noted later of a job that is deleted.
    pub(super) fn forget(&self, name: &str) {
        self.put_off().remove(name);
    }

    /// A job that was to take the place of another is refused, and nobody was told that it is there:
    /// the node ended in between. Gives back the other. None if it had begun, and only that was not
    /// noted.
    pub(super) fn put_back(&self, record: &mut JobRecord, error: &JobsError) -> Option<JobRecord> {
        let begins = record.begins?;
        if self.has_begun_anew(&record.name, begins).unwrap_or(false) {
            return None;
        }
        let before = *record.before.take()?;
        tracing::warn!(
            job = before.name,
            %error,
            "a submission that was cut short is refused; the job is as it was before"
        );
        Some(before)
    }
}
