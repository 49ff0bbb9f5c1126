//! What the state of a slice is made of: structures that note what changes in them.
//!
//! ```text
//! State ── structures ──▶ Map, Queue, Window, List, Value, or an operator's own
//!                          │ note which rows change (Noted, Stamped)
//!                          └─ checkpoint: freeze ─▶ drain, drain … ─▶ Delta
//! ```
//!
//! A checkpoint has three phases (ChronoStream III-B, DESIGN 6). *Normal*: changes are noted.
//! *Checkpointing*: what was noted is frozen, at no cost, and written out piece by piece between
//! the cycles; a row that changes meanwhile is written out just before. *Merging*: the runs of
//! several checkpoints become one ([`crate::Checkpoints`]), which nobody waits for.
//!
//! Invariant: what a structure writes out is what it held when it was frozen, whatever happens to
//! it meanwhile; a structure that takes all of that back cannot be told from it.

mod aside;
mod by_key;
pub mod expiry;
mod list;
mod map;
mod marks;
mod noted;
mod queue;
pub mod shown;
mod slab;
mod stamped;
#[cfg(test)]
mod tests;
mod value;
mod window;

pub use aside::{Aside, piece_bytes};
pub use by_key::{ReadKeys, SavedKeys, TakeKey};
pub use expiry::{
    Expiry, ExpiryCounts, NotRead, ReadRows, SavedRows, begin_expiry, can_expire, expire, expires,
};
pub use list::List;
pub use map::Map;
pub use noted::{Noted, WriteRow, row_of};
pub use queue::Queue;
pub use stamped::{Stamped, StampedRows};
pub use value::Value;
pub use window::Window;

use crate::delta::{Delta, SavedError};
use serde::{Serialize, de::DeserializeOwned};
use shown::{Kind, TakeRow};
use std::{any::Any, ops::Add, panic::resume_unwind};
use tidemill_types::limits::STRUCTURES_MAX;

/// A part of a slice's state.
pub trait Structure: Send {
    /// From now on notes what changes. Called once, before the first change or the first
    /// [`Self::restore`]; without it a structure pays for no checkpoint.
    fn track(&mut self);
    /// A checkpoint begins: what changed since the last one, as it is now, belongs to it.
    fn freeze(&mut self);
    /// What changed since the last checkpoint, if all that it holds is in memory, its rows are about as
    /// long as each other, and all of it can be written out ([`Self::freeze_all`]). Default: it cannot.
    fn changed(&self) -> Option<Changed> {
        None
    }
    /// As [`Self::freeze`], and all of it belongs to the checkpoint. Nobody asks that of one that does
    /// not say what changed.
    fn freeze_all(&mut self) {
        self.freeze();
    }
    /// Writes about `most` entries of the checkpoint under way, and behind the last of them those that
    /// changes have put aside, of which a piece goes at once; whether that were all. A call for which no
    /// entry is wanted writes none, and each other one does if there are any. Nothing is frozen again
    /// before.
    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool;
    /// About so many entries are taken back, of this structure and others of its state.
    fn expect(&mut self, _entries: usize) {}
    /// Takes an entry back, into an empty structure. Entries come in ascending order of keys.
    ///
    /// # Errors
    /// It is no entry of such a structure.
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError>;
    /// All entries were taken back.
    ///
    /// # Errors
    /// They do not fit together.
    fn restored(&mut self) -> Result<(), SavedError> {
        Ok(())
    }
    /// Whether rows of it can leave memory ([`expiry`]). Default: none can.
    fn can_expire(&self) -> bool {
        false
    }
    /// Rows may leave from now on.
    fn expires(&mut self, _saved: SavedRows) {}
    /// Finds out which rows are to leave, as [`Expiry::begin`] does.
    fn begin_expiry(&mut self) {}
    /// Lets `most` of them go at most, and takes from it as many as it lets go; whether those were
    /// all.
    fn expire(&mut self, _most: &mut usize) -> bool {
        true
    }
    /// About how many bytes of memory it has, unused room counted. It is asked many times a second:
    /// what would have to be counted one by one is estimated ([`sampled`]).
    fn memory(&self) -> usize;
    /// The columns of what is in it, for people who look at it. Default: none, as there is nothing
    /// to see.
    fn columns(&self) -> Vec<(&'static str, Kind)> {
        Vec::new()
    }
    /// Shows what is in it, row by row, as [`Self::columns`] says, in an order that follows from
    /// what is in it alone.
    fn show(&self, _take: &mut TakeRow<'_>) {}
}

/// How much of a structure changed since the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Rows that did.
    pub changed: usize,
    /// All rows.
    pub rows: usize,
}

impl Add for Changed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { changed: self.changed + other.changed, rows: self.rows + other.rows }
    }
}

impl Changed {
    /// Whether all rows are better written than those alone: they are half as many again at most, and
    /// what was written before is not needed any more. Otherwise it is read, merged and written anew
    /// when the changes are twice as much as all, which comes to the same bytes and more work.
    fn is_most(self) -> bool {
        self.changed > 0 && self.changed >= self.rows - self.rows / 3
    }
}

/// The state of one slice.
pub trait State: Any + Send {
    /// Its structures, always in the same order. What is in none of them is lost with the process. A
    /// job with more than [`STRUCTURES_MAX`] of them can make no checkpoints, and is refused if it is to.
    fn structures(&mut self) -> Vec<&mut dyn Structure>;
    /// The names of its structures, for people who look at them: as many as there are structures.
    /// Default: none has a name of its own.
    fn names(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// From now on what it does not have in memory is read by its keys. Called before anything else,
    /// after [`track`], on a state that says the hashes of its entries' keys; then it is asked for
    /// single keys, and does [`State::complete`] before anything that needs all of them.
    fn read_by_key(&mut self, _saved: SavedKeys) {}
    /// Takes in what it did not read by its keys: `saved` is restored from a checkpoint that has all
    /// of that as it is, and keeps no notes of changes.
    ///
    /// # Errors
    /// They do not fit together. Default: they never do, so that nothing is lost in silence.
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

/// What is kept in a structure: any plain value. It is saved in a form that does not describe itself,
/// so its types have no `serde(untagged)`, `serde(tag)`, `serde(flatten)` or
/// `serde(skip_serializing_if)`.
pub trait Plain: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Plain for T {}

/// Appends a plain value, as [`read_plain`] reads it.
///
/// # Panics
/// Panics if the value cannot be written: its `Serialize` says so.
pub fn write_plain<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    let held = std::mem::take(out);
    *out = postcard::to_extend(value, held).expect("a plain value can be written");
}

/// Of so many rows one is read again when it is written, the first among them.
const ROWS_PER_READ: usize = 64;

/// As [`write_plain`], of a program's own type, whose values may be none that can be read again. That
/// shows before anything relies on it, as those of some rows are.
///
/// # Panics
/// Unwinds with [`NotRead`] if the value cannot be written, or not be read again.
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
    resume_unwind(Box::new(NotRead(format!(
        "a value of the type `{}` cannot be saved and read again: {error}; what is saved does not \
         describe itself, so its types have no `serde(untagged)`, `serde(tag)`, `serde(flatten)` or \
         `serde(skip_serializing_if)`",
        std::any::type_name::<T>()
    ))))
}

/// Reads what [`write_plain`] wrote.
///
/// # Errors
/// It is something else.
pub fn read_plain<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SavedError> {
    let failed = |error| SavedError::new(format!("a saved value cannot be read: {error}"));
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(failed)?;
    match rest {
        [] => Ok(value),
        _ => Err(SavedError::new("a saved value is longer than it should be")),
    }
}

/// The number of what comes after all that was saved.
///
/// # Errors
/// There is none.
fn after(last: Option<u64>) -> Result<u64, SavedError> {
    let none = || SavedError::new("a saved value has the last number that there is");
    last.map_or(Some(0), |last| last.checked_add(1)).ok_or_else(none)
}

/// Why a state cannot be part of a checkpoint, if it cannot.
pub fn cannot_save(state: &mut dyn State) -> Option<String> {
    let count = state.structures().len();
    (count > STRUCTURES_MAX).then(|| {
        format!(
            "its state has {count} structures, and a checkpoint tells no more than {STRUCTURES_MAX} \
             apart; keep what is alike in one `Map`"
        )
    })
}

/// Notes what changes in a state from now on.
pub fn track(state: &mut dyn State) {
    state.structures().into_iter().for_each(Structure::track);
}

/// About how many bytes of memory a state has.
#[must_use]
pub fn memory(state: &mut dyn State) -> usize {
    state.structures().into_iter().map(|it| it.memory()).sum()
}

/// How many of many things are looked at.
const SAMPLES_MAX: usize = 8;

/// A sum over `count` things, estimated from some of them that lie evenly apart.
pub fn sampled(count: usize, of: impl Fn(usize) -> usize) -> usize {
    let step = count.div_ceil(SAMPLES_MAX).max(1);
    let (sum, looked_at) = (0..count)
        .step_by(step)
        .fold((0, 0), |(sum, looked_at), nth| (sum + of(nth), looked_at + 1));
    if looked_at == 0 { 0 } else { (sum as u128 * count as u128 / looked_at as u128) as usize }
}

/// About how many bytes a value has beside its own size, by how long it is when it is saved.
fn beside<T: Serialize>(value: &T) -> usize {
    let saved = postcard::serialize_with_flavor(value, postcard::ser_flavors::Size::default());
    saved.unwrap_or(0).saturating_sub(size_of::<T>())
}

/// Begins a checkpoint of a state; whether it is of all of it, because most of it changed. Then nothing
/// counts that was written before, and who writes it out says so first ([`Delta::clear`]).
pub fn freeze(state: &mut dyn State) -> bool {
    let mut structures = state.structures();
    let all = structures.iter().try_fold(Changed::default(), |sum, it| Some(sum + it.changed()?));
    let is_all = all.is_some_and(Changed::is_most);
    for structure in &mut structures {
        if is_all { structure.freeze_all() } else { structure.freeze() }
    }
    is_all
}

/// Writes about `most` entries of the checkpoint under way, or a piece ([`piece_bytes`]); whether that
/// were all.
pub fn drain(state: &mut dyn State, delta: &mut Delta, most: usize) -> bool {
    let (end, bytes) = (delta.len().saturating_add(most), delta.bytes());
    for (nth, structure) in state.structures().into_iter().enumerate() {
        // What is as long as a piece is handed over before the next structure adds one of its own.
        let is_piece = delta.bytes() > bytes && delta.bytes() >= aside::PIECE_BYTES;
        let most = if is_piece { 0 } else { end.saturating_sub(delta.len()) };
        let nth = u8::try_from(nth).expect("one with more is not saved");
        if !delta.within(&[nth], |delta| structure.drain(delta, most)) {
            return false;
        }
    }
    true
}

/// Takes back what the runs of a slice say, the oldest first, into its empty state.
///
/// # Errors
/// The bytes are not runs of such a state.
pub fn restore<R: AsRef<[u8]>>(state: &mut dyn State, runs: &[R]) -> Result<(), SavedError> {
    let mut structures = state.structures();
    let entries = crate::delta::most_entries(runs)?;
    structures.iter_mut().for_each(|structure| structure.expect(entries));
    crate::delta::merged(runs, &mut |key, value| {
        let (nth, key) = key.split_first().ok_or_else(|| SavedError::new("an empty key"))?;
        let structure = structures.get_mut(usize::from(*nth));
        let none = || SavedError::new(format!("the state has no structure {nth}"));
        structure.ok_or_else(none)?.restore(key, value)
    })?;
    structures.into_iter().try_for_each(Structure::restored)
}
