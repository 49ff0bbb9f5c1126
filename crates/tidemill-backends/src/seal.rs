//! The form of values on servers: with a checksum that is valid only under their own key.
//!
//! ```text
//! value │ CRC-32C (4, little endian) of the value, and of the key
//! ```

use bytes::Bytes;
use tidemill_wire::chunk::crc32c;

/// The bytes of the checksum behind a value.
pub(crate) const SEAL_BYTES: usize = 4;

/// Appends the checksum to a value.
pub(crate) fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(value.len() + SEAL_BYTES);
    sealed.extend_from_slice(value);
    sealed.extend_from_slice(&checksum(key, value).to_le_bytes());
    sealed
}

/// Removes the checksum; none if it does not fit the value and its key.
pub(crate) fn unseal(key: &[u8], sealed: &Bytes) -> Option<Bytes> {
    let (value, said) = sealed.split_last_chunk::<SEAL_BYTES>()?;
    (u32::from_le_bytes(*said) == checksum(key, value)).then(|| sealed.slice(..value.len()))
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c(value).rotate_left(1) ^ crc32c(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_20_a_value_that_was_changed_or_moved_is_not_taken() {
        let sealed = seal(b"key", b"value");
        assert_eq!(unseal(b"key", &sealed.clone().into()).unwrap(), "value");
        assert_eq!(unseal(b"kez", &sealed.clone().into()), None);
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(b"key", &changed.into()), None, "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(unseal(b"key", &sealed[..length].to_vec().into()), None);
        }
    }
}
