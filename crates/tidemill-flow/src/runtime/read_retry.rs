//! Reads that a running job cannot go on without: they wait for a server that is away.
//!
//! Nothing waits before the job runs, and no snapshot does.

use super::job::Job;
use super::readers::Readers;
use crate::retry::RetryPolicy;
use std::{
    fmt::Display,
    sync::{Arc, OnceLock, Weak},
};
use tidemill_checkpoints::RowReader;
use tidemill_state::{ReadError, ReadRows};
use tidemill_types::StageIx;

/// The job, once it runs, and the readers that read ahead for it.
#[derive(Default)]
pub(crate) struct ReadRetry {
    job: OnceLock<Weak<Job>>,
    pub(crate) readers: Arc<Readers>,
}

impl ReadRetry {
    /// It runs from now on.
    pub(crate) fn set(&self, job: &Arc<Job>) {
        self.job.get_or_init(|| Arc::downgrade(job));
    }

    /// Repeats a read for a stage until no server is away, or the job ends, or was to stop for too
    /// long.
    pub(crate) fn until_read<T, E: Display>(
        &self,
        stage: StageIx,
        is_away: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut retry: Option<RetryPolicy> = None;
        loop {
            let error = match attempt() {
                Ok(read) => {
                    retry.iter_mut().for_each(RetryPolicy::succeeded);
                    return Ok(read);
                }
                Err(error) => error,
            };
            let waits = is_away(&error);
            let Some(job) = self.job.get().and_then(Weak::upgrade).filter(|_| waits) else {
                return Err(error);
            };
            let part = &job.plan[stage].name;
            let retry = retry.get_or_insert_with(|| RetryPolicy::of(&job, part));
            drop(job);
            retry.report(&error);
            if retry.gives_up() {
                return Err(error);
            }
            retry.pause();
        }
    }
}

/// The rows of a slice that leave memory.
pub(crate) struct RetriedRows {
    pub(crate) stage: StageIx,
    pub(crate) rows: RowReader,
    pub(crate) running: Arc<ReadRetry>,
}

impl ReadRows for RetriedRows {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.rows.read(key)
    }

    fn read_needed(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.running.until_read(self.stage, ReadError::is_transient, || self.rows.read(key))
    }
}
