//! The errors of reading saved rows back.

/// Why a saved row cannot be read back.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The server that stores the row cannot be reached. The same read may succeed later.
    #[error("{0}")]
    Unreachable(String),
    /// The row is damaged or missing, or its store refused the read.
    #[error("{0}")]
    Failed(String),
}

impl ReadError {
    /// True if the same read may succeed later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// The panic of code that cannot go on without a saved row. The engine turns it into the error of the
/// job.
#[derive(Debug)]
pub struct UnreadableState(pub String);
