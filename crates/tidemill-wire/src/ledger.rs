//! Entries of a job's ledger: where each cycle was cut.
//!
//! ```text
//! first file:   head │ (life) │ cycle 1 │ cycle 2 │ …     each a record of the journal format
//! later file:   head │ (life) │ cycle n + 1 │ …           the files before it may be gone
//! cycle:        number, recorded time, for each source slice: end position, flags (and watermark)
//! ```
//!
//! An entry is postcard. Variants and fields are only ever added at the end.

use serde::{Deserialize, Serialize};
use tidemill_types::{Cycle, Micros};

/// The version of the entries written by this code.
pub const LEDGER_VERSION: u8 = 1;

/// One record of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerEntry {
    /// The first record of a file that begins with the first cycle of the job.
    Head(LedgerHead),
    /// The cut of one cycle.
    Cycle {
        /// Its number. Numbers follow each other without a gap.
        cycle: Cycle,
        /// Its recorded time.
        time: Micros,
        /// One for each source slice that had not ended before.
        cuts: Vec<Cut>,
    },
    /// The first record of a file that begins with a later cycle.
    Later {
        /// The job of the ledger.
        head: LedgerHead,
        /// The cycle of the checkpoint that the job began with; 0 if it began at its start.
        began: Cycle,
        /// The cycle before the first of this file.
        after: Cycle,
        /// The recorded time of that cycle.
        time: Micros,
    },
    /// The cut of one cycle of a job that does not read it again: it goes on after the last one.
    Marked {
        /// Its number. Numbers follow each other without a gap.
        cycle: Cycle,
        /// Its recorded time.
        time: Micros,
        /// One for each source slice that had not ended before.
        cuts: Vec<Cut>,
        /// By cut: the watermark there.
        watermarks: Vec<Micros>,
    },
    /// The second record of each file, if this beginning of the job has a number.
    Life(u64),
}

/// The job of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerHead {
    /// [`LEDGER_VERSION`].
    pub version: u8,
    /// The job's name.
    pub job: String,
    /// The job's seed.
    pub seed: u64,
    /// Sources by name, with their slices.
    pub sources: Vec<(String, u32)>,
}

/// The operations of a job's stateful stages, beside its ledger: one record of the journal format.
/// A job with other operations must not continue its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagesNote {
    /// [`LEDGER_VERSION`].
    pub version: u8,
    /// In the order of the job.
    pub stages: Vec<StageNote>,
}

/// The operation of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageNote {
    /// Its name.
    pub name: String,
    /// Its slices.
    pub slices: u32,
    /// In words, as a checkpoint has them.
    pub does: String,
}

/// Where one source slice ended a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The source, by its place in the graph.
    pub source: u32,
    /// The slice of the source.
    pub slice: u32,
    /// The position after the cycle's last record.
    pub position: u64,
    /// The slice ended with this cycle.
    pub ended: bool,
    /// The slice has had no data for long enough that it no longer holds event time back.
    pub idle: bool,
}

impl LedgerEntry {
    /// The cycle that was cut, and its recorded time; none if it is of the head of a file.
    #[must_use]
    pub fn cycle(&self) -> Option<(Cycle, Micros)> {
        match self {
            Self::Cycle { cycle, time, .. } | Self::Marked { cycle, time, .. } => {
                Some((*cycle, *time))
            }
            Self::Head(_) | Self::Later { .. } | Self::Life(_) => None,
        }
    }

    /// The entry as bytes, without framing.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads an entry. Bytes after it are refused.
    ///
    /// # Errors
    /// The bytes are not an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (entry, rest) = postcard::take_from_bytes(bytes)?;
        if rest.is_empty() { Ok(entry) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

impl StagesNote {
    /// The note as bytes, without framing.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a note. Bytes after it are refused.
    ///
    /// # Errors
    /// The bytes are not a note.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (note, rest) = postcard::take_from_bytes(bytes)?;
        if rest.is_empty() { Ok(note) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

#[cfg(test)]
mod tests;
