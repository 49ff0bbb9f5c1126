//! Marks of a file sink: how much of a file is committed, kept in a journal beside it.
//!
//! ```text
//! out.ndjson            rows of cycle 1 │ rows of cycles 2, 3 │ rows of cycle 4 …
//! out.ndjson.tidemill   mark: cycle 1    mark: cycle 3         mark: cycle 4     (journal format)
//! ```
//!
//! A mark is postcard. Fields are only ever added at the end. The first mark of a journal is
//! followed by a text that describes the rows.
//!
//! - A `synced` mark was written after the file was synced: it holds after a power cut.
//! - Any other mark counts only if the bytes since the mark before it have its checksum: then it
//!   holds after a kill, and after a power cut it is either right or skipped.

use serde::{Deserialize, Serialize};
use tidemill_types::Cycle;

/// The committed part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkMark {
    /// The last cycle whose rows are in the file.
    pub cycle: Cycle,
    /// Length of the file with them, in bytes.
    pub length: u64,
    /// CRC-32C of the bytes since the mark before; 0 in a synced one.
    pub checksum: u32,
    /// The file was synced before the mark was written.
    pub synced: bool,
}

impl SinkMark {
    /// The mark as bytes, without framing.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// The first mark of a journal, with the description of the file's rows.
    ///
    /// # Panics
    /// Never: a text has an encoding.
    #[must_use]
    pub fn encode_first(&self, rows: &str) -> Vec<u8> {
        postcard::to_extend(rows, self.encode()).expect("a text has an encoding")
    }

    /// Reads the first mark of a journal, and the description of the rows: none, if an older build
    /// wrote it.
    ///
    /// # Errors
    /// The bytes are not a mark.
    pub fn decode_first(bytes: &[u8]) -> Result<(Self, Option<String>), postcard::Error> {
        let (mark, rest) = postcard::take_from_bytes(bytes)?;
        if rest.is_empty() {
            return Ok((mark, None));
        }
        match postcard::take_from_bytes(rest)? {
            (rows, []) => Ok((mark, Some(rows))),
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    }

    /// Reads a mark. Bytes after it are refused.
    ///
    /// # Errors
    /// The bytes are not a mark.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (mark, rest) = postcard::take_from_bytes(bytes)?;
        if rest.is_empty() { Ok(mark) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

/// A CRC-32C of bytes that come in pieces.
#[derive(Clone, Debug)]
pub struct Checksum(crc_fast::Digest);

impl Default for Checksum {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Checksum {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes the pieces that another one has taken, behind its own.
    pub fn combine(&mut self, next: &Self) {
        self.0.combine(&next.0);
    }

    /// The checksum of all pieces.
    #[must_use]
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }

    /// The checksum of one piece.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut checksum = Self::default();
        checksum.update(bytes);
        checksum
    }
}

#[cfg(test)]
mod tests {
    //! Marks come back; other bytes are refused.

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let mark = SinkMark { cycle: Cycle(300), length: 5, checksum: 1, synced: true };
        assert_eq!(mark.encode(), [0xac, 0x02, 5, 1, 1]);
        assert_eq!(mark.encode_first("csv"), [0xac, 0x02, 5, 1, 1, 3, b'c', b's', b'v']);
        assert_eq!(Checksum::of(b"123456789").finish(), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn marks_come_back(cycle: u64, length: u64, checksum: u32, synced: bool) {
            let mark = SinkMark { cycle: Cycle(cycle), length, checksum, synced };
            prop_assert_eq!(SinkMark::decode(&mark.encode()), Ok(mark));
            prop_assert_eq!(SinkMark::decode_first(&mark.encode()), Ok((mark, None)));
        }

        #[test]
        fn first_marks_come_back(cycle: u64, length: u64, rows: String) {
            let mark = SinkMark { cycle: Cycle(cycle), length, checksum: 0, synced: true };
            let bytes = mark.encode_first(&rows);
            prop_assert_eq!(SinkMark::decode_first(&bytes), Ok((mark, Some(rows))));
        }

        #[test]
        fn other_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = SinkMark::decode_first(&bytes);
            if let Ok(mark) = SinkMark::decode(&bytes) {
                prop_assert_eq!(SinkMark::decode(&mark.encode()), Ok(mark));
            }
        }

        #[test]
        fn a_checksum_does_not_see_pieces(bytes: Vec<u8>, cut: prop::sample::Index) {
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut pieces = Checksum::default();
            pieces.update(a);
            pieces.update(b);
            prop_assert_eq!(pieces.finish(), Checksum::of(&bytes).finish());
            let mut combined = Checksum::of(a);
            combined.combine(&Checksum::of(b));
            prop_assert_eq!(combined.finish(), Checksum::of(&bytes).finish());
            combined.update(a);
            pieces.update(a);
            prop_assert_eq!(combined.finish(), pieces.finish());
        }
    }
}
