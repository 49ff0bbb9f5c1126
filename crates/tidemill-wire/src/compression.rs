//! LZ4 of link buffers: off, always, or only where it pays (Neptune, section 3.2.5).
//!
//! Selective compression judges a buffer by a sample: compressing all of it in vain would cost more
//! than it saves.

use tidemill_types::{job::CompressionSpec, limits::FRAME_BYTES_MAX};

#[cfg(test)]
mod tests;

/// Bytes of each of the three pieces of a sample: start, middle, end.
const SAMPLE_PIECE_BYTES: usize = 4_096;

/// Compresses buffers by one policy. Its memory is kept from buffer to buffer.
#[derive(Debug)]
pub struct Compressor {
    policy: CompressionSpec,
    scratch: Vec<u8>,
}

/// Compressed bytes are damaged or would exceed the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The stated size is over the limit.
    #[error("a buffer of {0} bytes is over the limit")]
    TooLarge(usize),
    /// The bytes are not LZ4, or not of the stated size.
    #[error("a compressed buffer is damaged: {0}")]
    Damaged(String),
}

impl Compressor {
    /// A compressor of this policy.
    #[must_use]
    pub fn new(policy: CompressionSpec) -> Self {
        Self { policy, scratch: Vec::new() }
    }

    /// True if this policy never compresses.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.policy == CompressionSpec::Off
    }

    /// The compressed form of `bytes`, or none if they are to be sent as they are.
    pub fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        let limit = match self.policy {
            CompressionSpec::Off => return None,
            CompressionSpec::Always => 1.0,
            CompressionSpec::Selective { coefficient } => coefficient,
        };
        if self.policy != CompressionSpec::Always && self.sample_ratio(bytes) > limit {
            return None;
        }
        let length = self.fill(bytes);
        let ratio = length as f64 / bytes.len().max(1) as f64;
        (ratio <= limit).then_some(&self.scratch[..length])
    }

    /// Compresses into `scratch`, which never shrinks, so that it is zeroed but once.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let most = lz4_flex::block::get_maximum_output_size(bytes.len());
        if self.scratch.len() < most {
            self.scratch.resize(most, 0);
        }
        let length = lz4_flex::block::compress_into(bytes, &mut self.scratch);
        length.expect("the largest output fits")
    }

    fn sample_ratio(&mut self, bytes: &[u8]) -> f64 {
        if bytes.len() <= 4 * SAMPLE_PIECE_BYTES {
            return self.fill(bytes) as f64 / bytes.len().max(1) as f64;
        }
        let last = bytes.len() - SAMPLE_PIECE_BYTES;
        let mut packed = 0;
        for start in [0, last / 2, last] {
            packed += self.fill(&bytes[start..start + SAMPLE_PIECE_BYTES]);
        }
        packed as f64 / (3 * SAMPLE_PIECE_BYTES) as f64
    }
}

/// Decompresses into `out`, which becomes `plain` bytes long.
///
/// # Errors
/// The bytes are damaged, or `plain` is over the limit of a frame.
pub fn decompress(packed: &[u8], plain: usize, out: &mut Vec<u8>) -> Result<(), DecompressError> {
    if plain > FRAME_BYTES_MAX {
        return Err(DecompressError::TooLarge(plain));
    }
    out.resize(plain, 0);
    let length = lz4_flex::block::decompress_into(packed, out)
        .map_err(|error| DecompressError::Damaged(error.to_string()))?;
    if length == plain {
        Ok(())
    } else {
        Err(DecompressError::Damaged(format!("{length} bytes instead of {plain}")))
    }
}
