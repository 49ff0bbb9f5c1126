//! Sessions by their ids, between requests.
//!
//! Invariant: all sessions together have at most 1,000,000 partitions. Those of connections without
//! sessions have as many again.

use super::{FetchSession, SLOT_BYTES};
use crate::frame::MemoryBudget;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_wire::kafka::ErrorCode;

/// A session may be thrown out for another after this long without a request.
const EVICT_AFTER_MS: u64 = 120_000;
/// Partitions of all sessions.
const PARTITIONS_MAX: usize = 1_000_000;

/// A session and the number of a request within it, as a fetch names them. (KIP-227.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionEpoch {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
}

/// Sessions by their ids.
pub(crate) struct FetchSessions {
    all: Mutex<SessionTable>,
    /// For sessions that are not kept here.
    pub(crate) others: Arc<MemoryBudget>,
}

impl Default for FetchSessions {
    fn default() -> Self {
        Self { all: Mutex::default(), others: MemoryBudget::new(PARTITIONS_MAX * SLOT_BYTES) }
    }
}

#[derive(Default)]
struct SessionTable {
    sessions: BTreeMap<i32, CachedSession>,
    partitions: usize,
}

struct CachedSession {
    session: Arc<tokio::sync::Mutex<FetchSession>>,
    /// The epoch that the next request must have.
    epoch: i32,
    used_ms: u64,
    partitions: usize,
    /// Its topics are named by their ids, in every request.
    by_id: bool,
}

impl SessionTable {
    fn remove(&mut self, id: i32) {
        if let Some(gone) = self.sessions.remove(&id) {
            self.partitions -= gone.partitions;
        }
    }
}

impl FetchSessions {
    fn all(&self) -> std::sync::MutexGuard<'_, SessionTable> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session. None: there is no room.
    pub(crate) fn add(
        &self,
        id: i32,
        (session, by_id): (FetchSession, bool),
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
        let kept = CachedSession { session, epoch: 1, used_ms: now_ms, partitions, by_id };
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
        SessionEpoch { id, epoch }: SessionEpoch,
        by_id: bool,
        now_ms: u64,
    ) -> Result<Arc<tokio::sync::Mutex<FetchSession>>, ErrorCode> {
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
