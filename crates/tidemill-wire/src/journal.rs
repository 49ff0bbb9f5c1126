//! Records in an append-only file: length, CRC-32C, bytes.
//!
//! ```text
//! ┌ length u32 LE ┬ crc u32 LE ┬ bytes … ┐   the CRC covers the length and the bytes
//! ```
//!
//! A record that ends past the end of the file, or a bad last record, is a torn tail; a bad record
//! before a good one is corruption.

/// Bytes before each record.
const HEAD: usize = 8;

/// Why reading stopped before the end of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The last record is not whole: a crash cut the append short.
    #[error("torn record at byte {0}")]
    TornTail(usize),
    /// A record is damaged although others follow it.
    #[error("corrupt record at byte {0}")]
    Corrupt(usize),
}

impl JournalError {
    /// True if cutting the file at the error loses no whole record.
    #[must_use]
    pub fn is_torn_tail(&self) -> bool {
        matches!(self, Self::TornTail(_))
    }
}

fn crc(length: u32, bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&length.to_le_bytes());
    digest.update(bytes);
    digest.finalize() as u32
}

/// Appends one record.
///
/// # Panics
/// Panics if the record is 4 GiB or longer.
pub fn append(out: &mut Vec<u8>, record: &[u8]) {
    let length = u32::try_from(record.len()).expect("records are small");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc(length, record).to_le_bytes());
    out.extend_from_slice(record);
}

fn record_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at + HEAD)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?);
    let stored = u32::from_le_bytes(head[4..].try_into().ok()?);
    let start = at + HEAD;
    let record = bytes.get(start..start.checked_add(length as usize)?)?;
    (crc(length, record) == stored).then_some(record)
}

/// The first record, if it is whole.
#[must_use]
pub fn first(bytes: &[u8]) -> Option<&[u8]> {
    record_at(bytes, 0)
}

/// Reads records up to the first that is not whole. Gives back the records, the length of the
/// bytes they take, and why reading stopped early.
#[must_use]
pub fn read(bytes: &[u8]) -> (Vec<&[u8]>, usize, Option<JournalError>) {
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match record_at(bytes, at) {
            Some(record) => {
                records.push(record);
                at += HEAD + record.len();
            }
            None => {
                // Something whole after the bad place means that it was not the tail.
                let follows = (at + 1..bytes.len())
                    .any(|next| record_at(bytes, next).is_some_and(|record| !record.is_empty()));
                let error =
                    if follows { JournalError::Corrupt(at) } else { JournalError::TornTail(at) };
                return (records, at, Some(error));
            }
        }
    }
    (records, at, None)
}

#[cfg(test)]
mod tests;
