//! The state of a slice: in memory, or still where a checkpoint has it.
//!
//! ```text
//! eager      all are read, by twice the threads of the job ─▶ the job goes on
//! prefetch   the job goes on, a thread reads them ─▶ ┐
//! lazy       the job goes on ─────────────────────── ┴─▶ a lane that needs one reads it, or takes it
//! ```
//!
//! A lane that needs some keys of a slice reads those alone where it can ([`super::by_key`]), until
//! somebody has read the slice, or it has read so much that the rest of it costs little more.
//!
//! A slice that nothing came for has not changed, so that checkpoints name the runs that it has; it
//! need not be read for them (ChronoStream III-D; DESIGN 6).

use super::by_key::ByKey;
use super::guarded::asked;
use super::needed::Running;
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
pub(crate) enum Held {
    Here(SliceState),
    /// Some of its keys are here.
    Partly(SliceState, Arc<dyn Rest>),
    Saved(Arc<SavedSlice>),
}

/// A slice of which some keys are in memory, as a checkpoint has it.
pub(crate) trait Rest: Send + Sync {
    fn slice(&self) -> SliceId;
    /// All of it, if somebody has read it.
    fn take_if_read(&self) -> Option<SliceState>;
    /// All of it; if it `waits`, for a server that is away too.
    fn take(&self, waits: bool) -> Result<SliceState, Unread>;
    /// Whether so much was read by keys that all of it should be.
    fn is_enough(&self) -> bool;
    /// Has all of it read, as somebody is about to need it.
    fn read_ahead(self: Arc<Self>);
}

impl Held {
    /// The state, all of which is read if it is not here yet.
    ///
    /// # Panics
    /// Unwinds with [`UnreadableState`] if it cannot be read.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut SliceState {
        if !matches!(self, Self::Here(_)) {
            self.read_whole(true).unwrap_or_else(|error| not_read(&error));
        }
        self.here().expect("it was just put there")
    }

    /// The state for somebody who needs some of its keys, which it reads when it is asked for them.
    ///
    /// # Panics
    /// As [`Self::get`].
    #[inline]
    pub(crate) fn by_key(&mut self) -> &mut SliceState {
        if !matches!(self, Self::Here(_)) {
            self.read_some();
        }
        self.here().expect("it was just put there")
    }

    #[cold]
    fn read_some(&mut self) {
        match self {
            Self::Saved(saved) => match saved.by_key() {
                Some(state) => *self = Self::Partly(state, Arc::clone(saved) as Arc<dyn Rest>),
                None => drop(self.get()),
            },
            Self::Partly(_, rest) if rest.is_enough() => drop(self.get()),
            Self::Partly(..) => drop(self.in_memory()),
            Self::Here(_) => {}
        }
    }

    /// The state for somebody who only looks at all of it: no server is waited for.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn looked_at(&mut self) -> Result<Option<&mut SliceState>, Unread> {
        if let Self::Partly(..) = self {
            self.read_whole(false)?;
        }
        Ok(self.here())
    }

    #[cold]
    fn read_whole(&mut self, waits: bool) -> Result<(), Unread> {
        let whole = match self {
            Self::Here(_) => return Ok(()),
            Self::Saved(saved) => saved.take(waits)?,
            Self::Partly(_, rest) => rest.take(waits)?,
        };
        self.complete(whole)
    }

    /// All of it was read.
    fn complete(&mut self, whole: SliceState) -> Result<(), Unread> {
        let state = match self {
            Self::Partly(state, rest) => {
                let slice = rest.slice();
                let failed = |error: SavedError| Unread { slice, why: error.0, of_backend: None };
                state.complete(whole).map_err(failed)?;
                std::mem::replace(state, Box::new(()))
            }
            Self::Here(_) | Self::Saved(_) => whole,
        };
        *self = Self::Here(state);
        Ok(())
    }

    /// Somebody is about to need all of the state, or some of its keys: it is read meanwhile.
    pub(crate) fn read_ahead(&self, by_key: bool) {
        match self {
            Self::Here(_) => {}
            Self::Partly(_, rest) => {
                if !by_key || rest.is_enough() {
                    Arc::clone(rest).read_ahead();
                }
            }
            Self::Saved(saved) if by_key && saved.is_read_by_key() => saved.open_ahead(),
            Self::Saved(saved) => Arc::clone(saved).read_ahead(),
        }
    }

    /// What of the state is in memory, though nobody has needed it.
    pub(crate) fn in_memory(&mut self) -> Option<&mut SliceState> {
        let read = match self {
            Self::Here(_) => None,
            Self::Partly(_, rest) => rest.take_if_read(),
            Self::Saved(saved) => saved.take_if_read(),
        };
        if let Some(whole) = read {
            self.complete(whole).unwrap_or_else(|error| not_read(&error));
        }
        self.here()
    }

    /// What of the state is here. What is not has not changed.
    #[inline]
    pub(crate) fn here(&mut self) -> Option<&mut SliceState> {
        match self {
            Self::Here(state) | Self::Partly(state, _) => Some(state),
            Self::Saved(_) => None,
        }
    }
}

#[cold]
fn not_read<T>(error: &Unread) -> T {
    // Outside bytes are no fault of the program: nothing is printed as if they were.
    resume_unwind(Box::new(UnreadableState(error.to_string())))
}

/// Why the state of a slice could not be read back.
#[derive(Debug, thiserror::Error)]
#[error("the state of slice {slice}: {why}")]
pub(crate) struct Unread {
    slice: SliceId,
    why: String,
    /// What the backend says, if it is the reason.
    pub(crate) of_backend: Option<BackendError>,
}

/// The state of a slice as a checkpoint has it.
pub(crate) struct SavedSlice {
    key: SliceKey,
    factory: Arc<dyn OperatorFactory>,
    runs: SliceRuns,
    read_as: ReadAs,
    place: Mutex<Place>,
    is_read: AtomicBool,
    /// How many are not in memory yet.
    left: Arc<AtomicUsize>,
    running: Arc<Running>,
}

/// What else is known of where a slice is saved.
pub(crate) struct ReadAs {
    /// Where its keys are that leave memory, if they do.
    pub(crate) rows: Option<SavedRows>,
    /// How single keys of it are read, if they are.
    pub(crate) by_key: Option<ByKey>,
}

/// Where a saved state is.
enum Place {
    InBackend,
    Read(SliceState),
    Taken,
}

impl SavedSlice {
    pub(crate) fn new(
        key: SliceKey,
        factory: &Arc<dyn OperatorFactory>,
        (runs, read_as): (SliceRuns, ReadAs),
        left: &Arc<AtomicUsize>,
        running: &Arc<Running>,
    ) -> Self {
        left.fetch_add(1, Ordering::Relaxed);
        let (factory, left) = (Arc::clone(factory), Arc::clone(left));
        let running = Arc::clone(running);
        Self {
            key,
            factory,
            runs,
            read_as,
            place: Mutex::new(Place::InBackend),
            is_read: AtomicBool::new(false),
            left,
            running,
        }
    }

    /// Where a checkpoint has it.
    pub(crate) fn runs(&self) -> SliceRuns {
        self.runs.clone()
    }

    /// Where the newest checkpoint has it.
    fn read_runs(&self, read: &mut LoadedRuns) -> Result<(), CheckpointError> {
        match &self.read_as.by_key {
            // What was read by its keys may have changed since, and have been saved.
            Some(by_key) => by_key.read_whole(self.key.slice, read),
            None => self.runs.read_into(read),
        }
    }

    fn read(&self, read: &mut LoadedRuns) -> Result<SliceState, Unread> {
        let slice = self.key.slice;
        self.read_runs(read).map_err(|error| {
            let why = error.to_string();
            let of_backend = match error {
                CheckpointError::Backend(error) => Some(error),
                _ => None,
            };
            Unread { slice, why, of_backend }
        })?;
        let mut state = self.factory.state(slice);
        structure::track(&mut *state);
        self.read_as.rows.iter().for_each(|rows| structure::expires(&mut *state, rows));
        structure::restore(&mut *state, &read.get()).map_err(|error| Unread {
            slice,
            why: error.0,
            of_backend: None,
        })?;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.running.readers.close();
        }
        Ok(state)
    }

    /// An empty state that reads single keys when it is asked for them; none if all of it is to be
    /// read.
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

    /// Whether keys of it can be read one by one, and nobody has read all of them.
    fn is_read_by_key(&self) -> bool {
        let by_key = self.read_as.by_key.as_ref();
        by_key.is_some_and(|it| it.is_worth(&self.runs)) && !self.is_read.load(Ordering::Acquire)
    }

    /// Has it found out where its keys are.
    fn open_ahead(self: &Arc<Self>) {
        let slice = Arc::clone(self);
        self.running.readers.ask(Box::new(move |_| {
            slice.read_as.by_key.iter().for_each(|by_key| by_key.open(slice.key.slice));
        }));
    }

    /// Reads it, if nobody has.
    fn load(&self, read: &mut LoadedRuns) -> Result<(), Unread> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::InBackend) {
            // Who reads it ahead is no thread of its lane.
            let read = asked(|| self.read(read))
                .unwrap_or_else(|why| Err(Unread { slice: self.key.slice, why, of_backend: None }));
            *place = Place::Read(read?);
            self.is_read.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl Rest for SavedSlice {
    fn slice(&self) -> SliceId {
        self.key.slice
    }

    /// Gives it to its lane, if somebody has read it.
    fn take_if_read(&self) -> Option<SliceState> {
        if !self.is_read.load(Ordering::Acquire) {
            // Somebody may hold the lock while reading it.
            return None;
        }
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::Taken) {
            Place::Read(state) => Some(state),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Gives it to its lane; waits for whoever is reading it.
    fn take(&self, waits: bool) -> Result<SliceState, Unread> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::InBackend) {
            let is_away = |error: &Unread| {
                waits && matches!(error.of_backend, Some(BackendError::Unreachable { .. }))
            };
            let read = || self.read(&mut LoadedRuns::default());
            *place = Place::Read(self.running.until_read(self.key.stage, is_away, read)?);
        }
        match std::mem::replace(&mut *place, Place::Taken) {
            Place::Read(state) => Ok(state),
            Place::InBackend | Place::Taken => unreachable!("a slice is taken once"),
        }
    }

    fn read_ahead(self: Arc<Self>) {
        if !self.is_read.load(Ordering::Acquire) {
            let readers = Arc::clone(&self.running.readers);
            readers.ask(Box::new(move |read| {
                // Its lane finds out what is wrong, and may wait.
                let _not_read = self.load(read);
            }));
        }
    }

    fn is_enough(&self) -> bool {
        self.read_as.by_key.as_ref().is_some_and(ByKey::is_enough)
    }
}

/// Reads all of them on several threads; gives back the stage of one that cannot be read, and why.
pub(crate) fn load_all(
    world: &World,
    saved: &Arc<Vec<Arc<SavedSlice>>>,
    threads: usize,
) -> Result<(), (StageIx, Unread)> {
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

/// Reads one after the other, until the job is over. What cannot be read is left to its lane, which
/// fails if it needs it.
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
