//! The structures that a slice's state consists of. They track which of their rows change.
//!
//! ```text
//! State ── structures ──▶ Map, Queue, Window, List, Value, or an operator's own
//!                          │ note which rows change (DirtyRows, DirtyStamps)
//!                          └─ checkpoint: freeze ─▶ drain, drain … ─▶ Delta
//! ```
//!
//! A checkpoint has three phases ("ChronoStream: Elastic Stateful Stream Computation in the Cloud",
//! III-B). *Normal*: structures track changes. *Checkpointing*: a freeze, which costs nothing,
//! fixes the changed rows. They are written out piece by piece between the cycles, and a row that
//! changes meanwhile is copied first. *Merging*: the runs of several checkpoints become one, in the
//! background.
//!
//! Invariant: a structure writes out its content as of the freeze, whatever happens meanwhile. A
//! structure that restores all of that cannot be told from it.

mod before_images;
pub mod columns;
mod dirty_bits;
mod dirty_rows;
mod dirty_stamps;
pub mod expiry;
mod list;
mod map;
mod queue;
mod read_error;
mod saved_keys;
mod slab;
#[cfg(test)]
mod tests;
mod value;
mod window;

pub use before_images::{BeforeImages, piece_bytes};
pub use dirty_rows::{DirtyRows, WriteRow, row_of};
pub use dirty_stamps::{DirtyStamps, StampedRows};
pub use expiry::{
    Expiry, ExpiryCounts, ReadRows, SavedRows, begin_expiry, can_expire, expire, expires,
};
pub use list::List;
pub use map::Map;
pub use queue::Queue;
pub use read_error::{ReadError, UnreadableState};
pub use saved_keys::{HashOfEntry, ReadKeys, SavedKeys, TakeKey};
pub use value::Value;
pub use window::Window;

use crate::delta::{Delta, SavedError};
use columns::{ColumnKind, TakeRow};
use serde::{Serialize, de::DeserializeOwned};
use std::{any::Any, ops::Add, panic::resume_unwind};
use tidemill_types::limits::STRUCTURES_MAX;

/// A part of a slice's state.
pub trait Structure: Send {
    /// Starts tracking changes. Called once, before the first change or the first
    /// [`Self::restore`]. An untracked structure pays nothing for checkpoints.
    fn track(&mut self);
    /// Begins a checkpoint of all changes since the last one, with their current values.
    fn freeze(&mut self);
    /// The share of rows that changed since the last checkpoint. None, the default, if the
    /// structure cannot write out all of its rows ([`Self::freeze_all`]): some are not in memory,
    /// or their lengths differ much.
    fn changed(&self) -> Option<ChangeCount> {
        None
    }
    /// As [`Self::freeze`], but of all rows. Called only on a structure that has a change count.
    fn freeze_all(&mut self) {
        self.freeze();
    }
    /// Writes about `most` entries of the current checkpoint, and after the last of them the before
    /// images, one piece a call. Returns true once all are written. A call with `most` 0 writes no
    /// entry; every other call writes at least one if any is left. No freeze comes before all are
    /// written.
    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool;
    /// Announces that about this many entries will be restored, into this structure and others of
    /// its state.
    fn expect(&mut self, _entries: usize) {}
    /// Restores an entry into a structure that was empty. Entries come in ascending order of keys.
    ///
    /// # Errors
    /// It is no entry of such a structure.
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError>;
    /// Completes the restore, after all entries.
    ///
    /// # Errors
    /// They do not fit together.
    fn restored(&mut self) -> Result<(), SavedError> {
        Ok(())
    }
    /// Returns true if its rows can leave memory ([`expiry`]). Default: false.
    fn can_expire(&self) -> bool {
        false
    }
    /// Lets rows leave memory from now on.
    fn expires(&mut self, _saved: SavedRows) {}
    /// Selects the rows that leave, as [`Expiry::begin`] does.
    fn begin_expiry(&mut self) {}
    /// Evicts at most `most` of the selected rows, and subtracts their number from `most`. Returns
    /// true once all have left.
    fn expire(&mut self, _most: &mut usize) -> bool {
        true
    }
    /// An estimate of its memory in bytes, unused capacity included. Called many times a second, so
    /// anything that would have to be counted is sampled ([`sampled`]).
    fn memory(&self) -> usize;
    /// The columns of its content, as a table for people. Default: none, as it shows nothing.
    fn columns(&self) -> Vec<(&'static str, ColumnKind)> {
        Vec::new()
    }
    /// Hands over its content row by row, with the values of [`Self::columns`]. The order follows
    /// from the content alone.
    fn show(&self, _take: &mut TakeRow<'_>) {}
}

/// The number of rows that changed since the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCount {
    /// The rows that changed.
    pub changed: usize,
    /// All rows.
    pub rows: usize,
}

impl Add for ChangeCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { changed: self.changed + other.changed, rows: self.rows + other.rows }
    }
}

impl ChangeCount {
    /// Returns true if writing all rows is better than writing the changed ones. All rows are at
    /// most half as many again, and they replace all earlier runs. Otherwise those would be read,
    /// merged and rewritten later, which costs as many bytes and more work.
    fn is_most(self) -> bool {
        self.changed > 0 && self.changed >= self.rows - self.rows / 3
    }
}

/// The state of one slice.
pub trait State: Any + Send {
    /// The structures, always in the same order. Anything else in the state is lost with the
    /// process. A job with more than [`STRUCTURES_MAX`] structures in a state is refused if it has
    /// checkpoints.
    fn structures(&mut self) -> Vec<&mut dyn Structure>;
    /// The names of the structures, shown to people: as many as there are structures. Default: no
    /// names.
    fn names(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// From now on the state reads rows that it lacks by their keys. Called right after [`track`],
    /// on a state whose operator gives the hashes of keys. Such a state is asked for single keys,
    /// and gets [`State::complete`] before anything that needs all of them.
    fn read_by_key(&mut self, _saved: SavedKeys) {}
    /// Takes over the rows it has not read yet from `saved`, which was restored from a checkpoint
    /// that has all of them unchanged. `saved` tracks no changes.
    ///
    /// # Errors
    /// The two do not fit. Default: always, so that no row is lost in silence.
    fn complete(&mut self, _saved: Box<dyn State>) -> Result<(), SavedError> {
        Err(SavedError::new("a state that is read by its keys has to say how the rest is taken in"))
    }
}

impl State for () {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        Vec::new()
    }
}

macro_rules! is_a_state {
    ($($name:ident<$($of:ident: $bound:path),+>),+) => {$(
        impl<$($of: $bound + Send + 'static),+> State for $name<$($of),+>
        where
            Self: Structure,
        {
            fn structures(&mut self) -> Vec<&mut dyn Structure> {
                vec![self]
            }
        }
    )+};
}

is_a_state!(Map<K: Any, V: Any>, Queue<T: Any>, Window<T: Any>, List<T: Any>, Value<T: Any>);

/// A value that a structure can hold. Its saved form does not describe itself, so its type has no
/// `serde(untagged)`, `serde(tag)`, `serde(flatten)` or `serde(skip_serializing_if)`.
pub trait Plain: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Plain for T {}

/// Appends a plain value in the form that [`read_plain`] reads.
///
/// # Panics
/// Panics if the `Serialize` of the value fails.
pub fn write_plain<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let held = std::mem::take(out);
    *out = postcard::to_extend(value, held).expect("a plain value can be written");
}

/// The rows per row that is read back as a check when it is written.
const ROWS_PER_READ: usize = 64;

/// As [`write_plain`], for the type of a program. Its `Serialize` and `Deserialize` may not fit
/// each other, so some values are read back at once, before a checkpoint relies on them.
///
/// # Panics
/// Unwinds with [`UnreadableState`] if the value cannot be written or read back.
fn write_own<T: Plain>(value: &T, row: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let held = std::mem::take(out);
    *out = postcard::to_extend(value, held).unwrap_or_else(|error| cannot_write::<T>(&error));
    if row.is_multiple_of(ROWS_PER_READ)
        && let Err(error) = read_plain::<T>(&out[start..])
    {
        cannot_write::<T>(&error);
    }
}

#[cold]
fn cannot_write<T>(error: &dyn std::fmt::Display) -> ! {
    resume_unwind(Box::new(UnreadableState(format!(
        "a value of the type `{}` cannot be saved and read again: {error}; what is saved does not \
         describe itself, so its types have no `serde(untagged)`, `serde(tag)`, `serde(flatten)` or \
         `serde(skip_serializing_if)`",
        std::any::type_name::<T>()
    ))))
}

/// Reads a value that [`write_plain`] wrote.
///
/// # Errors
/// The bytes are no such value.
pub fn read_plain<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SavedError> {
    let failed = |error| SavedError::new(format!("a saved value cannot be read: {error}"));
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(failed)?;
    match rest {
        [] => Ok(value),
        _ => Err(SavedError::new("a saved value is longer than it should be")),
    }
}

/// The number after the last saved one.
///
/// # Errors
/// There is no further number.
fn after(last: Option<u64>) -> Result<u64, SavedError> {
    let none = || SavedError::new("a saved value has the last number that there is");
    last.map_or(Some(0), |last| last.checked_add(1)).ok_or_else(none)
}

/// The reason that a state cannot be part of a checkpoint, if there is one.
pub fn cannot_save(state: &mut dyn State) -> Option<String> {
    let count = state.structures().len();
    (count > STRUCTURES_MAX).then(|| {
        format!(
            "its state has {count} structures, and a checkpoint tells no more than {STRUCTURES_MAX} \
             apart; keep what is alike in one `Map`"
        )
    })
}

/// Starts tracking changes in a state.
pub fn track(state: &mut dyn State) {
    state.structures().into_iter().for_each(Structure::track);
}

/// An estimate of the memory of a state in bytes.
#[must_use]
pub fn memory(state: &mut dyn State) -> usize {
    state.structures().into_iter().map(|it| it.memory()).sum()
}

/// The most elements that an estimate looks at.
const SAMPLES_MAX: usize = 8;

/// Estimates a sum over `count` elements from a few that are spread evenly.
pub fn sampled(count: usize, of: impl Fn(usize) -> usize) -> usize {
    let step = count.div_ceil(SAMPLES_MAX).max(1);
    let (sum, looked_at) = (0..count)
        .step_by(step)
        .fold((0, 0), |(sum, looked_at), nth| (sum + of(nth), looked_at + 1));
    if looked_at == 0 { 0 } else { (sum as u128 * count as u128 / looked_at as u128) as usize }
}

/// An estimate of the heap memory of a value: the part of its saved length beyond its own size.
fn beside<T: Serialize>(value: &T) -> usize {
    let saved = postcard::serialize_with_flavor(value, postcard::ser_flavors::Size::default());
    saved.unwrap_or(0).saturating_sub(size_of::<T>())
}

/// Begins a checkpoint of a state. Returns true if it is of all rows, because most of them changed.
/// Such a checkpoint replaces all earlier runs, and its delta must begin with [`Delta::clear`].
pub fn freeze(state: &mut dyn State) -> bool {
    let mut structures = state.structures();
    let all =
        structures.iter().try_fold(ChangeCount::default(), |sum, it| Some(sum + it.changed()?));
    let is_all = all.is_some_and(ChangeCount::is_most);
    for structure in &mut structures {
        if is_all { structure.freeze_all() } else { structure.freeze() }
    }
    is_all
}

/// Writes about `most` entries of the current checkpoint, or one piece ([`piece_bytes`]). Returns
/// true once all are written.
pub fn drain(state: &mut dyn State, delta: &mut Delta, most: usize) -> bool {
    let (end, bytes) = (delta.len().saturating_add(most), delta.bytes());
    for (nth, structure) in state.structures().into_iter().enumerate() {
        // What is as long as a piece is handed over before the next structure adds one of its own.
        let is_piece = delta.bytes() > bytes && delta.bytes() >= before_images::PIECE_BYTES;
        let most = if is_piece { 0 } else { end.saturating_sub(delta.len()) };
        let nth = u8::try_from(nth).expect("one with more is not saved");
        if !delta.within(&[nth], |delta| structure.drain(delta, most)) {
            return false;
        }
    }
    true
}

/// Restores the runs of a slice, the oldest first, into its empty state.
///
/// # Errors
/// The bytes are not runs of such a state.
pub fn restore<R: AsRef<[u8]>>(state: &mut dyn State, runs: &[R]) -> Result<(), SavedError> {
    let mut structures = state.structures();
    let entries = crate::delta::most_entries(runs)?;
    structures.iter_mut().for_each(|structure| structure.expect(entries));
    crate::delta::visit_entries(runs, &mut |key, value| {
        let (nth, key) = key.split_first().ok_or_else(|| SavedError::new("an empty key"))?;
        let structure = structures.get_mut(usize::from(*nth));
        let none = || SavedError::new(format!("the state has no structure {nth}"));
        structure.ok_or_else(none)?.restore(key, value)
    })?;
    structures.into_iter().try_for_each(Structure::restored)
}
