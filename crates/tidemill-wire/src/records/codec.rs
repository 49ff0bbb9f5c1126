//! The four codecs of Kafka: each inflates into an
//! [`InflateOutput`](super::inflater::InflateOutput), which holds the limit, and deflates into a
//! vector.
//!
//! | codec | a reader takes | a builder writes |
//! | --- | --- | --- |
//! | gzip | members one after the other | one member |
//! | snappy | Xerial's frames, or one plain block | Xerial's frames of 32 KiB |
//! | LZ4 | frames, blocks linked or not, checksums checked | one frame, blocks of 64 KiB not linked |
//! | Zstandard | frames | one frame with its content size |

pub(super) mod gzip;
pub(super) mod lz4;
pub(super) mod snappy;
pub(super) mod zstd;

use crate::chunk::Codec;

/// Why a stream does not inflate.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It is damaged.
    Damaged(String),
    /// Its content is over a limit, or faulty.
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

/// A compressor of one codec, with its tables.
pub(super) enum Deflater {
    Gzip(Box<gzip::GzipDeflater>),
    Snappy(Box<snappy::SnappyDeflater>),
    Lz4(Box<lz4::Lz4Deflater>),
    Zstd(zstd::ZstdDeflater),
}

impl Deflater {
    /// A compressor of this codec, if it is one. A level that it does not have becomes the nearest
    /// one; Snappy and LZ4 have no levels.
    pub(super) fn new(codec: Codec, level: Option<i32>) -> Option<Self> {
        match codec {
            Codec::None => None,
            Codec::Gzip => Some(Self::Gzip(Box::new(gzip::GzipDeflater::new(level)))),
            Codec::Snappy => Some(Self::Snappy(Box::default())),
            Codec::Lz4 => Some(Self::Lz4(Box::default())),
            Codec::Zstd => Some(Self::Zstd(zstd::ZstdDeflater::new(level))),
        }
    }

    /// Appends the compressed form of these bytes, or says that it cannot.
    pub(super) fn deflate(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Gzip(deflater) => deflater.deflate(plain, into),
            Self::Snappy(deflater) => deflater.deflate(plain, into),
            Self::Lz4(deflater) => deflater.deflate(plain, into),
            Self::Zstd(deflater) => deflater.deflate(plain, into),
        }
    }
}
