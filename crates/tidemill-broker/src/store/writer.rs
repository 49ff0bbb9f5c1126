//! The thread that commits: all batches that wait, in one transaction.
//!
//! When the disk refuses anything but a sync, the file is opened again, and its number tells if the
//! transaction is there. After a failed sync that would tell nothing: the system may show bytes of
//! the file that the disk does not have.

use super::{OnCommitted, StoreBatch, StoreError, StoreState, database::Database};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, mpsc},
};

/// Batches in one transaction.
const BATCHES_MAX: usize = 4096;
/// Bytes in one transaction, but for its last batch.
const BYTES_MAX: usize = 16 << 20;

/// A batch and its notification.
pub(super) struct CommitRequest {
    pub(super) batch: StoreBatch,
    pub(super) notice: OnCommitted,
}

pub(super) struct StoreWriter {
    shared: Arc<StoreState>,
    requests: mpsc::Receiver<CommitRequest>,
}

impl StoreWriter {
    pub(super) fn new(shared: Arc<StoreState>, requests: mpsc::Receiver<CommitRequest>) -> Self {
        Self { shared, requests }
    }

    /// Runs until nobody can hand in batches any more.
    pub(super) fn run(self) {
        let _once = self.shared.writer.set(std::thread::current().id());
        while let Ok(first) = self.requests.recv() {
            let mut bytes = first.batch.bytes;
            let mut group = vec![first];
            while group.len() < BATCHES_MAX && bytes < BYTES_MAX {
                let Ok(next) = self.requests.try_recv() else { break };
                bytes += next.batch.bytes;
                group.push(next);
            }
            let outcome = self.commit(&group);
            for request in group {
                let outcome = outcome.clone();
                // A notice is no business of the others that wait.
                if catch_unwind(AssertUnwindSafe(|| (request.notice)(outcome))).is_err() {
                    tracing::error!("a notice of the store panicked");
                }
            }
        }
    }

    fn commit(&self, group: &[CommitRequest]) -> Result<(), StoreError> {
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        let shared = &*self.shared;
        let tried = {
            let slot = shared.database.read().unwrap_or_else(PoisonError::into_inner);
            slot.as_ref().map(|database| attempt(database, group))
        };
        let again = match tried {
            Some(Ok(())) => return Ok(()),
            Some(Err(again)) => again,
            // It could not be opened again after an earlier error.
            None => OpenQuestion { count: 0, may_be_there: false, can_reopen: true, error: None },
        };
        self.reopen(group, again)
    }

    /// After an error: finds out by opening the file again whether the transaction is there, and
    /// tries once if it was not tried yet.
    fn reopen(&self, group: &[CommitRequest], again: OpenQuestion) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let file = &shared.file;
        let mut slot = shared.database.write().unwrap_or_else(PoisonError::into_inner);
        if !again.can_reopen {
            let why = again.error.map_or_else(String::new, |it| it.to_string());
            return Err(self.fail(StoreError::Failed { file: file.clone(), why }));
        }
        if let Some(error) = &again.error {
            tracing::warn!(%error, "the store opens its file again");
        }
        // What redb says on its way out is of no interest: it cannot write any more.
        let old = slot.take();
        let _panic = catch_unwind(AssertUnwindSafe(|| drop(old)));
        let opened = Database::open(&shared.world, file).and_then(|database| {
            let count = database.count()?;
            Ok((database, count))
        });
        match opened {
            Ok((database, count)) => {
                let database = slot.insert(database);
                match again.error {
                    Some(_) if count == again.count => Ok(()),
                    Some(error) => Err(error),
                    None => attempt(database, group).map_err(|it| self.settle(it)),
                }
            }
            Err(error @ StoreError::Disk { .. }) if !again.may_be_there => {
                Err(again.error.unwrap_or(error))
            }
            Err(StoreError::Failed { why, .. }) => {
                Err(self.fail(StoreError::Failed { file: file.clone(), why }))
            }
            Err(error) => {
                let why = error.to_string();
                Err(self.fail(StoreError::Failed { file: file.clone(), why }))
            }
        }
    }

    /// The error of a second try: there is no third.
    fn settle(&self, again: OpenQuestion) -> StoreError {
        let why = match again.error {
            Some(error) if !again.may_be_there && again.can_reopen => return error,
            Some(error) => error.to_string(),
            None => String::new(),
        };
        self.fail(StoreError::Failed { file: self.shared.file.clone(), why })
    }

    /// From now on nothing is committed.
    fn fail(&self, error: StoreError) -> StoreError {
        tracing::error!(%error, "the broker's metadata cannot be changed any more");
        let mut failed = self.shared.failed.write().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error).clone()
    }
}

/// The open question after a transaction that failed.
struct OpenQuestion {
    /// The number of the transaction.
    count: u64,
    may_be_there: bool,
    can_reopen: bool,
    /// None: it was not tried.
    error: Option<StoreError>,
}

fn attempt(database: &Database, group: &[CommitRequest]) -> Result<(), OpenQuestion> {
    let again = |count, may_be_there, error| OpenQuestion {
        count,
        may_be_there,
        can_reopen: database.can_reopen(),
        error: Some(error),
    };
    let count = database.count().map_err(|error| again(u64::MAX, false, error))? + 1;
    let _before = database.take_decided();
    database
        .apply(count, group.iter().map(|it| &it.batch))
        .map_err(|error| again(count, database.take_decided(), error))
}
