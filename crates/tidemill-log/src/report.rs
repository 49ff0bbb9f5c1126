//! Findings of a log's opening, for the operator: nothing here was deleted.

use std::{fmt, path::PathBuf};

/// Something found when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A file or folder is not used, because its content contradicts itself or its place. It stays
    /// where it is.
    SetAside {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Bytes in the durable part of a segment differ from those that were written. They stay as
    /// they are, and reads that need them get an error. Reported when the segment is opened the
    /// first time.
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// Where the damage begins.
        position: u64,
    },
    /// The end of a segment had not become durable when the power failed, and was never
    /// acknowledged: it was cut off.
    Torn {
        /// The segment's file.
        path: PathBuf,
        /// Where it ends now.
        position: u64,
    },
    /// Chunks behind a gap that a power failure left: never acknowledged. They were copied aside
    /// and cut off.
    BehindGap {
        /// The segment's file.
        path: PathBuf,
        /// Where it ends now.
        position: u64,
        /// Where the bytes are kept.
        copy: PathBuf,
    },
    /// Chunks of a copy that its leader did not have: a truncation that a crash cut short was
    /// carried out. They were copied aside and cut off.
    Truncated {
        /// The segment's file.
        path: PathBuf,
        /// Where it ends now.
        position: u64,
        /// Where the bytes are kept.
        copy: PathBuf,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAside { path, why } => write!(f, "{}: set aside: {why}", path.display()),
            Self::Damaged { path, position } => {
                write!(f, "{}: damaged at byte {position}; kept, not served", path.display())
            }
            Self::Torn { path, position } => {
                write!(f, "{}: torn tail cut at byte {position}", path.display())
            }
            Self::BehindGap { path, position, copy } => {
                let (path, copy) = (path.display(), copy.display());
                write!(f, "{path}: cut at byte {position}, behind a gap; kept in {copy}")
            }
            Self::Truncated { path, position, copy } => {
                let (path, copy) = (path.display(), copy.display());
                write!(f, "{path}: cut at byte {position}, as its leader's log; kept in {copy}")
            }
        }
    }
}
