//! The journal as the consensus library's log.

use crate::{journal::RaftJournal, voter::TableRaft};
use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use std::{fmt::Debug, io, ops::RangeBounds, sync::Arc};
use tidemill_env::lock::Mutex;

/// Most entries of one message to a voter that is behind.
const ENTRIES_MAX: usize = 256;

/// A handle of the journal.
#[derive(Clone)]
pub(crate) struct LogStorage(pub(crate) Arc<Mutex<RaftJournal>>);

fn log_error(error: &io::Error) -> StorageError<u64> {
    StorageIOError::write_logs(error).into()
}

impl RaftLogReader<TableRaft> for LogStorage {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<TableRaft>>, StorageError<u64>> {
        Ok(self.0.lock().entries(range).cloned().collect())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry<TableRaft>>, StorageError<u64>> {
        Ok(self.0.lock().entries(start..end).take(ENTRIES_MAX).cloned().collect())
    }
}

impl RaftLogStorage<TableRaft> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TableRaft>, StorageError<u64>> {
        let journal = self.0.lock();
        Ok(LogState { last_purged_log_id: journal.purged(), last_log_id: journal.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        let saved = self.0.lock().save_vote(*vote);
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        Ok(self.0.lock().vote())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TableRaft>,
    ) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<TableRaft>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let appended = self.0.lock().append(entries.into_iter().collect());
        match appended {
            Ok(()) => callback.log_io_completed(Ok(())),
            Err(error) => {
                let failure = log_error(&error);
                callback.log_io_completed(Err(error));
                return Err(failure);
            }
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.0.lock().truncate(log_id.index).map_err(|error| log_error(&error))
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.0.lock().purge(log_id).map_err(|error| log_error(&error))
    }
}
