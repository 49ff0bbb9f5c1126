//! The four codecs of Kafka: each inflates into an [`Output`](super::inflate::Output), which holds
//! the limit, and deflates into a vector.
//!
//! | codec | what a reader takes | what we write |
//! | --- | --- | --- |
//! | gzip | members one after the other | one member |
//! | snappy | Xerial's frames, or one plain block | Xerial's frames of 32 KiB |
//! | LZ4 | frames, blocks linked or not, checksums checked | one frame, blocks of 64 KiB not linked |
//! | Zstandard | frames | one frame with its content size |

pub(super) mod gzip;
pub(super) mod lz4;
pub(super) mod snappy;
pub(super) mod zstd;

/// Why a stream does not inflate.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It is damaged.
    Damaged(String),
    /// What it holds is over a limit, or not what it should be.
    Refused(super::RecordsError),
}

impl From<super::RecordsError> for Unfit {
    fn from(error: super::RecordsError) -> Self {
        Self::Refused(error)
    }
}

/// A stream that is damaged.
pub(super) fn damaged(why: impl ToString) -> Unfit {
    Unfit::Damaged(why.to_string())
}
