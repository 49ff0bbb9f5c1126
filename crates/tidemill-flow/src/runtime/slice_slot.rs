//! The slot of a slice state: resident, partial, or only in a checkpoint.
//!
//! ```text
//! eager      all are read, by twice the threads of the job ─▶ the job goes on
//! prefetch   the job goes on, a thread reads them ─▶ ┐
//! lazy       the job goes on ─────────────────────── ┴─▶ a lane that needs one reads it, or takes it
//! ```
//!
//! A lane that needs some keys of a slice reads only those where it can ([`super::key_reads`]),
//! until the slice has been read as a whole, or so many of its keys that the rest costs little
//! more.
//!
//! A slice without new records has not changed, so checkpoints name its old runs without reading it
//! (ChronoStream III-D).

use super::key_reads::KeyReads;
use super::panic_guard::catch_panic;
use super::read_retry::ReadRetry;
use crate::operator::{OperatorFactory, SliceState};
use std::{panic::resume_unwind, sync::Arc};
use tidemill_checkpoints::{BackendError, CheckpointError, LoadedRuns, SliceRuns};
use tidemill_env::World;
use tidemill_env::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tidemill_state::{SavedError, SavedRows, UnreadableState, structure};
use tidemill_types::{SliceId, SliceKey, StageIx};

/// The state of a slice.
pub(crate) enum SliceSlot {
    Resident(SliceState),
    /// Some of its keys are here.
    Partial(SliceState, Arc<dyn SliceRemainder>),
    Saved(Arc<SavedSlice>),
}

/// A slice of which some keys are in memory, as a checkpoint has it.
pub(crate) trait SliceRemainder: Send + Sync {
    fn slice(&self) -> SliceId;
    /// Takes the whole state, if a reader has read it ahead.
    fn take_if_read(&self) -> Option<SliceState>;
    /// Takes the whole state; with `waits`, waits for a server that is away.
    fn take(&self, waits: bool) -> Result<SliceState, RestoreError>;
    /// Returns true if so much was read by keys that the whole should be.
    fn is_enough(&self) -> bool;
    /// Starts reading the whole state in the background.
    fn read_ahead(self: Arc<Self>);
}

impl SliceSlot {
    /// The whole state, which is read first unless it is resident.
    ///
    /// # Panics
    /// Unwinds with [`UnreadableState`] if it cannot be read.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut SliceState {
        if !matches!(self, Self::Resident(_)) {
            self.read_whole(true).unwrap_or_else(|error| not_read(&error));
        }
        self.here().expect("it was just put there")
    }

    /// The state for a caller that needs some of its keys; each is read on request.
    ///
    /// # Panics
    /// As [`Self::get`].
    #[inline]
    pub(crate) fn by_key(&mut self) -> &mut SliceState {
        if !matches!(self, Self::Resident(_)) {
            self.read_some();
        }
        self.here().expect("it was just put there")
    }

    #[cold]
    fn read_some(&mut self) {
        match self {
            Self::Saved(saved) => match saved.by_key() {
                Some(state) => {
                    *self = Self::Partial(state, Arc::clone(saved) as Arc<dyn SliceRemainder>)
                }
                None => drop(self.get()),
            },
            Self::Partial(_, rest) if rest.is_enough() => drop(self.get()),
            Self::Partial(..) => drop(self.in_memory()),
            Self::Resident(_) => {}
        }
    }

    /// The state for a snapshot: a server that is away is not waited for.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn for_snapshot(&mut self) -> Result<Option<&mut SliceState>, RestoreError> {
        if let Self::Partial(..) = self {
            self.read_whole(false)?;
        }
        Ok(self.here())
    }

    #[cold]
    fn read_whole(&mut self, waits: bool) -> Result<(), RestoreError> {
        let whole = match self {
            Self::Resident(_) => return Ok(()),
            Self::Saved(saved) => saved.take(waits)?,
            Self::Partial(_, rest) => rest.take(waits)?,
        };
        self.complete(whole)
    }

    /// All of it was read.
    fn complete(&mut self, whole: SliceState) -> Result<(), RestoreError> {
        let state = match self {
            Self::Partial(state, rest) => {
                let slice = rest.slice();
                let failed =
                    |error: SavedError| RestoreError { slice, why: error.0, of_backend: None };
                state.complete(whole).map_err(failed)?;
                std::mem::replace(state, Box::new(()))
            }
            Self::Resident(_) | Self::Saved(_) => whole,
        };
        *self = Self::Resident(state);
        Ok(())
    }

    /// Starts reading the whole state, or some of its keys, in the background.
    pub(crate) fn read_ahead(&self, by_key: bool) {
        match self {
            Self::Resident(_) => {}
            Self::Partial(_, rest) => {
                if !by_key || rest.is_enough() {
                    Arc::clone(rest).read_ahead();
                }
            }
            Self::Saved(saved) if by_key && saved.is_read_by_key() => saved.open_ahead(),
            Self::Saved(saved) => Arc::clone(saved).read_ahead(),
        }
    }

    /// The part of the state that is in memory, including a whole state read ahead.
    pub(crate) fn in_memory(&mut self) -> Option<&mut SliceState> {
        let read = match self {
            Self::Resident(_) => None,
            Self::Partial(_, rest) => rest.take_if_read(),
            Self::Saved(saved) => saved.take_if_read(),
        };
        if let Some(whole) = read {
            self.complete(whole).unwrap_or_else(|error| not_read(&error));
        }
        self.here()
    }

    /// The resident part of the state. The rest has not changed.
    #[inline]
    pub(crate) fn here(&mut self) -> Option<&mut SliceState> {
        match self {
            Self::Resident(state) | Self::Partial(state, _) => Some(state),
            Self::Saved(_) => None,
        }
    }
}

#[cold]
fn not_read<T>(error: &RestoreError) -> T {
    // Outside bytes are no fault of the program: nothing is printed as if they were.
    resume_unwind(Box::new(UnreadableState(error.to_string())))
}

/// The error of a slice whose state could not be read back.
#[derive(Debug, thiserror::Error)]
#[error("the state of slice {slice}: {why}")]
pub(crate) struct RestoreError {
    slice: SliceId,
    why: String,
    /// The error of the backend, if it is the cause.
    pub(crate) of_backend: Option<BackendError>,
}

/// The state of a slice as a checkpoint has it.
pub(crate) struct SavedSlice {
    key: SliceKey,
    factory: Arc<dyn OperatorFactory>,
    runs: SliceRuns,
    read_as: SavedAccess,
    place: Mutex<SavedState>,
    is_read: AtomicBool,
    /// The number of slices that are not in memory yet.
    left: Arc<AtomicUsize>,
    running: Arc<ReadRetry>,
}

/// The ways to read a saved slice other than as a whole.
pub(crate) struct SavedAccess {
    /// The saved rows of evicted keys, if keys leave memory.
    pub(crate) rows: Option<SavedRows>,
    /// The reads of single keys, if they are possible.
    pub(crate) by_key: Option<KeyReads>,
}

/// Where a saved state is.
enum SavedState {
    InBackend,
    Read(SliceState),
    Taken,
}

impl SavedSlice {
    pub(crate) fn new(
        key: SliceKey,
        factory: &Arc<dyn OperatorFactory>,
        (runs, read_as): (SliceRuns, SavedAccess),
        left: &Arc<AtomicUsize>,
        running: &Arc<ReadRetry>,
    ) -> Self {
        left.fetch_add(1, Ordering::Relaxed);
        let (factory, left) = (Arc::clone(factory), Arc::clone(left));
        let running = Arc::clone(running);
        Self {
            key,
            factory,
            runs,
            read_as,
            place: Mutex::new(SavedState::InBackend),
            is_read: AtomicBool::new(false),
            left,
            running,
        }
    }

    /// The runs of the checkpoint that has it.
    pub(crate) fn runs(&self) -> SliceRuns {
        self.runs.clone()
    }

    /// Reads the runs of the newest checkpoint.
    fn read_runs(&self, read: &mut LoadedRuns) -> Result<(), CheckpointError> {
        match &self.read_as.by_key {
            // What was read by its keys may have changed since, and have been saved.
            Some(by_key) => by_key.read_whole(self.key.slice, read),
            None => self.runs.read_into(read),
        }
    }

    fn read(&self, read: &mut LoadedRuns) -> Result<SliceState, RestoreError> {
        let slice = self.key.slice;
        self.read_runs(read).map_err(|error| {
            let why = error.to_string();
            let of_backend = match error {
                CheckpointError::Backend(error) => Some(error),
                _ => None,
            };
            RestoreError { slice, why, of_backend }
        })?;
        let mut state = self.factory.state(slice);
        structure::track(&mut *state);
        self.read_as.rows.iter().for_each(|rows| structure::expires(&mut *state, rows));
        structure::restore(&mut *state, &read.get()).map_err(|error| RestoreError {
            slice,
            why: error.0,
            of_backend: None,
        })?;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.running.readers.close();
        }
        Ok(state)
    }

    /// An empty state that reads single keys on request; none if all of it is to be read.
    fn by_key(&self) -> Option<SliceState> {
        if !self.is_read_by_key() {
            return None;
        }
        let by_key = self.read_as.by_key.as_ref()?;
        let keys = by_key.take(self.key, &self.running)?;
        let mut state = self.factory.state(self.key.slice);
        structure::track(&mut *state);
        state.read_by_key(keys);
        Some(state)
    }

    /// Returns true if keys can be read one by one, and the whole has not been read.
    fn is_read_by_key(&self) -> bool {
        let by_key = self.read_as.by_key.as_ref();
        by_key.is_some_and(|it| it.is_worth(&self.runs)) && !self.is_read.load(Ordering::Acquire)
    }

    /// Starts opening the index of its keys in the background.
    fn open_ahead(self: &Arc<Self>) {
        let slice = Arc::clone(self);
        self.running.readers.enqueue(Box::new(move |_| {
            slice.read_as.by_key.iter().for_each(|by_key| by_key.open(slice.key.slice));
        }));
    }

    /// Reads the whole state, unless that is done.
    fn load(&self, read: &mut LoadedRuns) -> Result<(), RestoreError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, SavedState::InBackend) {
            // Who reads it ahead is no thread of its lane.
            let read = catch_panic(|| self.read(read)).unwrap_or_else(|why| {
                Err(RestoreError { slice: self.key.slice, why, of_backend: None })
            });
            *place = SavedState::Read(read?);
            self.is_read.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl SliceRemainder for SavedSlice {
    fn slice(&self) -> SliceId {
        self.key.slice
    }

    /// Takes the state if it has been read ahead.
    fn take_if_read(&self) -> Option<SliceState> {
        if !self.is_read.load(Ordering::Acquire) {
            // Somebody may hold the lock while reading it.
            return None;
        }
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, SavedState::Taken) {
            SavedState::Read(state) => Some(state),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Takes the state, after any read of it that is under way.
    fn take(&self, waits: bool) -> Result<SliceState, RestoreError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, SavedState::InBackend) {
            let is_away = |error: &RestoreError| {
                waits && matches!(error.of_backend, Some(BackendError::Unreachable { .. }))
            };
            let read = || self.read(&mut LoadedRuns::default());
            *place = SavedState::Read(self.running.until_read(self.key.stage, is_away, read)?);
        }
        match std::mem::replace(&mut *place, SavedState::Taken) {
            SavedState::Read(state) => Ok(state),
            SavedState::InBackend | SavedState::Taken => unreachable!("a slice is taken once"),
        }
    }

    fn read_ahead(self: Arc<Self>) {
        if !self.is_read.load(Ordering::Acquire) {
            let readers = Arc::clone(&self.running.readers);
            readers.enqueue(Box::new(move |read| {
                // Its lane finds out what is wrong, and may wait.
                let _not_read = self.load(read);
            }));
        }
    }

    fn is_enough(&self) -> bool {
        self.read_as.by_key.as_ref().is_some_and(KeyReads::is_enough)
    }
}

/// Reads all slices on several threads; on error returns the stage of a slice that cannot be read.
pub(crate) fn load_all(
    world: &World,
    saved: &Arc<Vec<Arc<SavedSlice>>>,
    threads: usize,
) -> Result<(), (StageIx, RestoreError)> {
    let next = Arc::new(AtomicUsize::new(0));
    let failed = Arc::new(Mutex::new(None));
    let reader = || {
        let (saved, next, failed) = (Arc::clone(saved), Arc::clone(&next), Arc::clone(&failed));
        move || {
            let mut read = LoadedRuns::default();
            while let Some(one) = saved.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = one.load(&mut read) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert((one.key.stage, error));
                    return;
                }
            }
        }
    };
    // While one waits for the disk, another one makes tables of what it has read.
    let threads = (2 * threads).min(saved.len());
    let readers = (0..threads).map(|_| world.spawn.spawn("restore", Box::new(reader())));
    readers.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join());
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(Ok(()), Err)
}

/// Reads slices one after the other, until the job is over. A slice that cannot be read is left to
/// its lane, which fails if it needs it.
pub(crate) fn prefetch(saved: &[Arc<SavedSlice>], is_over: &AtomicBool) {
    let mut read = LoadedRuns::default();
    for one in saved {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = one.load(&mut read) {
            tracing::warn!(%error, "a state cannot be read back ahead");
        }
    }
}
