//! The state of a slice: in memory, or still where a checkpoint has it.
//!
//! ```text
//! eager      all are read, by twice the threads of the job ─▶ the job goes on
//! prefetch   the job goes on, a thread reads them ─▶ ┐
//! lazy       the job goes on ─────────────────────── ┴─▶ a lane that needs one reads it, or takes it
//! ```
//!
//! A slice that nothing came for has not changed, so that checkpoints name the runs that it has; it
//! need not be read for them (ChronoStream III-D; DESIGN 6).

use super::guarded::asked;
use super::needed::Running;
use crate::operator::{OperatorFactory, SliceState};
use std::{panic::resume_unwind, sync::Arc};
use tidemill_env::World;
use tidemill_env::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tidemill_state::{
    CheckpointError, NotRead, ReadRuns, RunsOf, SavedRows, StateError, structure,
};
use tidemill_types::SliceId;

/// The state of a slice.
pub(crate) enum Held {
    Here(SliceState),
    Saved(Arc<SavedSlice>),
}

impl Held {
    /// The state, which is read if it is not here yet.
    ///
    /// # Panics
    /// Unwinds with [`NotRead`] if it cannot be read.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut SliceState {
        if let Self::Saved(saved) = self {
            *self = Self::Here(take(saved));
        }
        self.here().expect("it was just put there")
    }

    /// The state, if it is in memory, though nobody has needed it.
    pub(crate) fn in_memory(&mut self) -> Option<&mut SliceState> {
        if let Self::Saved(saved) = self
            && let Some(state) = saved.take_if_read()
        {
            *self = Self::Here(state);
        }
        self.here()
    }

    /// The state, if it is here. One that is not has not changed.
    #[inline]
    pub(crate) fn here(&mut self) -> Option<&mut SliceState> {
        match self {
            Self::Here(state) => Some(state),
            Self::Saved(_) => None,
        }
    }
}

#[cold]
fn take(saved: &SavedSlice) -> SliceState {
    // Outside bytes are no fault of the program: nothing is printed as if they were.
    saved.take().unwrap_or_else(|error| resume_unwind(Box::new(NotRead(error.to_string()))))
}

/// Why the state of a slice could not be read back.
#[derive(Debug, thiserror::Error)]
#[error("the state of slice {slice}: {why}")]
pub(crate) struct Unread {
    slice: SliceId,
    why: String,
    /// What the backend says, if it is the reason.
    pub(crate) of_backend: Option<StateError>,
}

/// The state of a slice as a checkpoint has it.
pub(crate) struct SavedSlice {
    node: usize,
    slice: SliceId,
    factory: Arc<dyn OperatorFactory>,
    runs: RunsOf,
    /// Where its keys are that leave memory, if they do.
    rows: Option<SavedRows>,
    place: Mutex<Place>,
    is_read: AtomicBool,
    /// How many are not in memory yet.
    left: Arc<AtomicUsize>,
    running: Arc<Running>,
}

/// Where a saved state is.
enum Place {
    InBackend,
    Read(SliceState),
    Taken,
}

impl SavedSlice {
    pub(crate) fn new(
        (node, slice): (usize, SliceId),
        factory: &Arc<dyn OperatorFactory>,
        (runs, rows): (RunsOf, Option<SavedRows>),
        left: &Arc<AtomicUsize>,
        running: &Arc<Running>,
    ) -> Self {
        left.fetch_add(1, Ordering::Relaxed);
        let (factory, left) = (Arc::clone(factory), Arc::clone(left));
        let running = Arc::clone(running);
        Self {
            node,
            slice,
            factory,
            runs,
            rows,
            place: Mutex::new(Place::InBackend),
            is_read: AtomicBool::new(false),
            left,
            running,
        }
    }

    /// Where a checkpoint has it.
    pub(crate) fn runs(&self) -> RunsOf {
        self.runs.clone()
    }

    fn read(&self, read: &mut ReadRuns) -> Result<SliceState, Unread> {
        let slice = self.slice;
        self.runs.read_into(read).map_err(|error| {
            let why = error.to_string();
            let of_backend = match error {
                CheckpointError::Backend(error) => Some(error),
                _ => None,
            };
            Unread { slice, why, of_backend }
        })?;
        let mut state = self.factory.state(slice);
        structure::track(&mut *state);
        self.rows.iter().for_each(|rows| structure::expires(&mut *state, rows));
        structure::restore(&mut *state, &read.get()).map_err(|error| Unread {
            slice,
            why: error.0,
            of_backend: None,
        })?;
        self.left.fetch_sub(1, Ordering::Relaxed);
        Ok(state)
    }

    /// Reads it, if nobody has.
    fn load(&self, read: &mut ReadRuns) -> Result<(), Unread> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::InBackend) {
            // Who reads it ahead is no thread of its lane.
            let read = asked(|| self.read(read))
                .unwrap_or_else(|why| Err(Unread { slice: self.slice, why, of_backend: None }));
            *place = Place::Read(read?);
            self.is_read.store(true, Ordering::Release);
        }
        Ok(())
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

    /// Gives it to its lane; waits for whoever is reading it, and for a server that is away.
    fn take(&self) -> Result<SliceState, Unread> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Place::InBackend) {
            let is_away =
                |error: &Unread| matches!(error.of_backend, Some(StateError::Unreachable { .. }));
            let read = || self.read(&mut ReadRuns::default());
            *place = Place::Read(self.running.until_read(self.node, is_away, read)?);
        }
        match std::mem::replace(&mut *place, Place::Taken) {
            Place::Read(state) => Ok(state),
            Place::InBackend | Place::Taken => unreachable!("a slice is taken once"),
        }
    }
}

/// Reads all of them on several threads; gives back the node of one that cannot be read, and why.
pub(crate) fn load_all(
    world: &World,
    saved: &Arc<Vec<Arc<SavedSlice>>>,
    threads: usize,
) -> Result<(), (usize, Unread)> {
    let next = Arc::new(AtomicUsize::new(0));
    let failed = Arc::new(Mutex::new(None));
    let reader = || {
        let (saved, next, failed) = (Arc::clone(saved), Arc::clone(&next), Arc::clone(&failed));
        move || {
            let mut read = ReadRuns::default();
            while let Some(one) = saved.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = one.load(&mut read) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert((one.node, error));
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
    let mut read = ReadRuns::default();
    for one in saved {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = one.load(&mut read) {
            tracing::warn!(%error, "a state cannot be read back ahead");
        }
    }
}
