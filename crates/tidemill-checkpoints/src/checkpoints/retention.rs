//! Keeping and deleting checkpoints by hand.

use super::manifest::{kept_key, manifest_key};
use super::{CheckpointError, CheckpointInfo, Checkpoints, NAME_BYTES_MAX, reader};
use crate::WriteBatch;
use tidemill_types::CheckpointNumber;

impl Checkpoints {
    /// Keeps the newest checkpoint until it is deleted.
    ///
    /// # Errors
    /// There is no checkpoint, it is kept already, or as for [`Self::keep`].
    pub fn keep_newest(&mut self, name: &str) -> Result<CheckpointInfo, CheckpointError> {
        let number = self.newest().ok_or(CheckpointError::None)?.number;
        if let Some(name) = self.kept.get(&number) {
            return Err(CheckpointError::Kept(number, name.clone()));
        }
        self.keep(number, name)?;
        let newest = self.list().into_iter().map(|(info, _)| info).find(|it| it.newest);
        newest.ok_or(CheckpointError::Unknown(number))
    }

    /// Keeps a checkpoint until it is deleted.
    ///
    /// # Errors
    /// There is no such checkpoint, the name is not allowed, or an error of the backend.
    pub fn keep(&mut self, number: CheckpointNumber, name: &str) -> Result<(), CheckpointError> {
        self.get(number)?;
        if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(CheckpointError::Name);
        }
        let mut batch = WriteBatch::default();
        batch.put(&kept_key(number), name.as_bytes());
        self.backend.commit(&mut batch)?;
        self.kept.insert(number, name.to_owned());
        Ok(())
    }

    /// Deletes a kept or damaged checkpoint. The newest stays, without its name, until the next is
    /// complete.
    ///
    /// # Errors
    /// There is no such checkpoint, it is the newest and not kept, or an error of the backend.
    pub fn delete(&mut self, number: CheckpointNumber) -> Result<(), CheckpointError> {
        if self.damaged.contains_key(&number) {
            // What it alone named is left alone: nobody knows it.
            let mut batch = WriteBatch::default();
            batch.delete(&kept_key(number));
            batch.delete(&manifest_key(number));
            self.backend.commit(&mut batch)?;
            self.kept.remove(&number);
            self.damaged.remove(&number);
            return Ok(());
        }
        self.get(number)?;
        if !self.kept.contains_key(&number) {
            return Err(CheckpointError::Newest(number));
        }
        let mut batch = WriteBatch::default();
        batch.delete(&kept_key(number));
        self.backend.commit(&mut batch)?;
        self.kept.remove(&number);
        if self.newest().is_some_and(|it| it.number == number) {
            // Completing the next one deletes it. What one that is begun names is new, or the newest's.
            return Ok(());
        }
        let mut shared = reader::lock(&self.shared);
        if shared.is_pinned(number) {
            return Ok(());
        }
        let manifest = self.complete.remove(&number);
        shared.set(&self.complete, self.over);
        drop(shared);
        self.older.insert(number, manifest);
        self.delete_older()
    }
}
