//! What a running job reads back and cannot go on without: while a server is away it waits for it.
//!
//! Nothing waits before the job runs, and nobody who only looks does.

use super::job::Job;
use super::readers::Readers;
use crate::patience::Patience;
use std::{
    fmt::Display,
    sync::{Arc, OnceLock, Weak},
};
use tidemill_checkpoints::RowReader;
use tidemill_state::{ReadError, ReadRows};
use tidemill_types::StageIx;

/// The job, once it runs, and who reads ahead for it.
#[derive(Default)]
pub(crate) struct Running {
    job: OnceLock<Weak<Job>>,
    pub(crate) readers: Arc<Readers>,
}

impl Running {
    /// It runs from now on.
    pub(crate) fn set(&self, job: &Arc<Job>) {
        self.job.get_or_init(|| Arc::downgrade(job));
    }

    /// Tries for a stage until no server is away, or the job ends, or was to stop for too long.
    pub(crate) fn until_read<T, E: Display>(
        &self,
        stage: StageIx,
        is_away: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut patience: Option<Patience> = None;
        loop {
            let error = match attempt() {
                Ok(read) => {
                    patience.iter_mut().for_each(Patience::over);
                    return Ok(read);
                }
                Err(error) => error,
            };
            let waits = is_away(&error);
            let Some(job) = self.job.get().and_then(Weak::upgrade).filter(|_| waits) else {
                return Err(error);
            };
            let part = &job.plan[stage].name;
            let patience = patience.get_or_insert_with(|| Patience::of(&job, part));
            drop(job);
            patience.tell(&error);
            if patience.gives_up() {
                return Err(error);
            }
            patience.rest();
        }
    }
}

/// The rows of a slice that leave memory.
pub(crate) struct NeededRows {
    pub(crate) stage: StageIx,
    pub(crate) rows: RowReader,
    pub(crate) running: Arc<Running>,
}

impl ReadRows for NeededRows {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.rows.read(key)
    }

    fn read_needed(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.running.until_read(self.stage, ReadError::is_transient, || self.rows.read(key))
    }
}
