//! Numbers and texts, read from the front of bytes that anyone may have sent.

use std::str;

/// Bytes that are no message of the cluster port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterDecodeError {
    /// The first bytes are those of another protocol.
    #[error("it does not speak the cluster protocol: it begins with {0:02x?}")]
    Magic([u8; 4]),
    /// The bytes end within a field.
    #[error("`{0}` is cut short")]
    Short(&'static str),
    /// A field has a value that has no meaning.
    #[error("`{0}` has no such value")]
    Field(&'static str),
    /// A length is over its limit.
    #[error("{bytes} bytes are over the limit of {bytes_max}")]
    TooLarge {
        /// The length that was stated.
        bytes: u32,
        /// The largest that is allowed.
        bytes_max: u32,
    },
}

/// The unread rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(super) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], ClusterDecodeError> {
        let (value, rest) = self.0.split_first_chunk().ok_or(ClusterDecodeError::Short(field))?;
        self.0 = rest;
        Ok(*value)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, ClusterDecodeError> {
        self.array::<1>(field).map(|[value]| value)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, ClusterDecodeError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, ClusterDecodeError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, ClusterDecodeError> {
        self.array(field).map(i32::from_le_bytes)
    }

    /// A text behind the byte that counts its bytes.
    pub(super) fn text(&mut self, field: &'static str) -> Result<&'a str, ClusterDecodeError> {
        let length = usize::from(self.u8(field)?);
        let (text, rest) =
            self.0.split_at_checked(length).ok_or(ClusterDecodeError::Short(field))?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| ClusterDecodeError::Field(field))
    }
}

/// Appends a text behind the byte that counts its bytes. A longer text is cut at a character.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(usize::from(u8::MAX));
    out.push(end as u8);
    out.extend_from_slice(&text.as_bytes()[..end]);
}
