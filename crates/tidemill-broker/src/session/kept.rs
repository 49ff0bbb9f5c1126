//! Sessions by their ids, between requests.
//!
//! Invariant: all sessions together have at most 1,000,000 partitions. Those of connections without
//! sessions have as many again.

use super::{SLOT_BYTES, Session};
use crate::frame::Budget;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_wire::kafka::ErrorCode;

/// A session may be thrown out for another after this long without a request.
const EVICT_AFTER_MS: u64 = 120_000;
/// Partitions of all sessions.
const PARTITIONS_MAX: usize = 1_000_000;

/// Sessions by their ids.
pub(crate) struct Sessions {
    all: Mutex<All>,
    /// For sessions that are not kept here.
    pub(crate) others: Arc<Budget>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { all: Mutex::default(), others: Budget::new(PARTITIONS_MAX * SLOT_BYTES) }
    }
}

#[derive(Default)]
struct All {
    sessions: BTreeMap<i32, Kept>,
    partitions: usize,
}

struct Kept {
    session: Arc<tokio::sync::Mutex<Session>>,
    /// The epoch that the next request must have.
    epoch: i32,
    used_ms: u64,
    partitions: usize,
    /// Its topics are named by their ids, in every request.
    by_id: bool,
}

impl All {
    fn remove(&mut self, id: i32) {
        if let Some(gone) = self.sessions.remove(&id) {
            self.partitions -= gone.partitions;
        }
    }
}

impl Sessions {
    fn all(&self) -> std::sync::MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session. None: there is no room.
    pub(crate) fn add(
        &self,
        id: i32,
        (session, by_id): (Session, bool),
        now_ms: u64,
        max: usize,
    ) -> Option<()> {
        let mut all = self.all();
        let partitions = session.weight();
        while all.sessions.len() >= max || all.partitions + partitions > PARTITIONS_MAX {
            let oldest = all.sessions.iter().min_by_key(|(_, it)| it.used_ms);
            let (oldest, used_ms) = oldest.map(|(id, it)| (*id, it.used_ms))?;
            if used_ms + EVICT_AFTER_MS >= now_ms {
                return None;
            }
            all.remove(oldest);
        }
        let session = Arc::new(tokio::sync::Mutex::new(session));
        all.partitions += partitions;
        let kept = Kept { session, epoch: 1, used_ms: now_ms, partitions, by_id };
        all.sessions.insert(id, kept);
        Some(())
    }

    pub(crate) fn has(&self, id: i32) -> bool {
        self.all().sessions.contains_key(&id)
    }

    pub(crate) fn remove(&self, id: i32) {
        self.all().remove(id);
    }

    /// The session of a request with this epoch; the next one must have the next.
    pub(crate) fn next(
        &self,
        id: i32,
        epoch: i32,
        by_id: bool,
        now_ms: u64,
    ) -> Result<Arc<tokio::sync::Mutex<Session>>, ErrorCode> {
        let mut all = self.all();
        let kept = all.sessions.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if kept.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if kept.by_id != by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        kept.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        kept.used_ms = now_ms;
        Ok(Arc::clone(&kept.session))
    }

    /// Notes the count of partitions of a session. False: it is too large, and the session is dropped.
    pub(crate) fn resized(&self, id: i32, partitions: usize) -> bool {
        let mut all = self.all();
        let Some(kept) = all.sessions.get_mut(&id) else { return true };
        let before = std::mem::replace(&mut kept.partitions, partitions);
        all.partitions = all.partitions - before + partitions;
        let fits = all.partitions <= PARTITIONS_MAX;
        if !fits {
            all.remove(id);
        }
        fits
    }
}
