//! One record, as slices of the bytes it was read from.
//!
//! Invariant: the headers of a [`Record`] were walked once when it was read, so iterating them
//! cannot fail.

use super::varint::{NoVarint, take_i32, take_i64};

/// The fewest bytes of a header: two lengths.
const HEADER_BYTES_MIN: usize = 2;

/// A record. Nothing of it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset, less the chunk's base offset.
    pub offset_delta: i32,
    /// Its timestamp in milliseconds since 1970: the producer's, or that of the append.
    pub timestamp_ms: i64,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value, or none: then it is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order; a key may occur more than once.
    pub headers: Headers<'a>,
}

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its key. Kafka says that it is UTF-8; nothing here sees to it.
    pub key: &'a [u8],
    /// Its value, if it has one.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, parsed one by one as they are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: u32,
}

/// The fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The bytes end before the record does.
    #[error("it is cut short")]
    Cut,
    /// Its length is below that of any record.
    #[error("its length is that of no record")]
    Length,
    /// A number has more bits than its type, or goes on beyond the record.
    #[error("a number in it has no end")]
    Number,
    /// Attributes that no version of the format has.
    #[error("its attributes are not zero")]
    Attributes,
    /// The timestamp is beyond 64 bits.
    #[error("its timestamp is beyond all time")]
    Timestamp,
    /// The key does not fit in the record, or its length is below -1.
    #[error("its key does not fit")]
    Key,
    /// The value does not fit in the record, or its length is below -1.
    #[error("its value does not fit")]
    Value,
    /// The headers do not fit in the record, or a length is below its minimum.
    #[error("its headers do not fit")]
    Headers,
    /// A header has no key, which the bytes can say and the format forbids.
    #[error("a header of it has no key")]
    HeaderKey,
    /// The record has bytes that belong to no field.
    #[error("it is longer than its fields")]
    Rest,
}

/// A field of bytes: none if its length is -1.
#[inline(always)]
fn take_field<'a>(
    bytes: &mut &'a [u8],
    fault: RecordFault,
) -> Result<Option<&'a [u8]>, RecordFault> {
    let Ok(length) = take_i32(bytes) else { return Err(RecordFault::Number) };
    match usize::try_from(length) {
        Ok(length) => match bytes.split_at_checked(length) {
            Some((field, rest)) => {
                *bytes = rest;
                Ok(Some(field))
            }
            None => Err(fault),
        },
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(fault),
    }
}

/// The length of the record that `bytes` begin with, and the bytes after the length.
#[inline(always)]
pub(super) fn take_length(bytes: &mut &[u8]) -> Result<usize, RecordFault> {
    match take_i32(bytes) {
        Ok(length) => usize::try_from(length).map_err(|_| RecordFault::Length),
        Err(NoVarint::Cut) => Err(RecordFault::Cut),
        Err(NoVarint::Long) => Err(RecordFault::Number),
    }
}

/// Takes a record off the front of `bytes`. On an error `bytes` stay as they are.
///
/// The error is [`RecordFault::Cut`] if, and only if, more bytes might make it a record.
#[inline(always)]
pub(super) fn take_record<'a>(
    bytes: &mut &'a [u8],
    base_timestamp_ms: i64,
) -> Result<Record<'a>, RecordFault> {
    let mut rest = *bytes;
    let length = take_length(&mut rest)?;
    let (mut body, rest) = rest.split_at_checked(length).ok_or(RecordFault::Cut)?;
    match body {
        [0, fields @ ..] => body = fields,
        [] => return Err(RecordFault::Length),
        _ => return Err(RecordFault::Attributes),
    }
    let Ok(timestamp_delta_ms) = take_i64(&mut body) else { return Err(RecordFault::Number) };
    let timestamp_ms = base_timestamp_ms.checked_add(timestamp_delta_ms);
    let timestamp_ms = timestamp_ms.ok_or(RecordFault::Timestamp)?;
    let Ok(offset_delta) = take_i32(&mut body) else { return Err(RecordFault::Number) };
    let key = take_field(&mut body, RecordFault::Key)?;
    let value = take_field(&mut body, RecordFault::Value)?;
    let headers = match body {
        [0] => Headers::NONE,
        _ => take_headers(body)?,
    };
    *bytes = rest;
    Ok(Record { offset_delta, timestamp_ms, key, value, headers })
}

/// The headers that these bytes are, and nothing else.
#[inline(never)]
fn take_headers(mut bytes: &[u8]) -> Result<Headers<'_>, RecordFault> {
    let Ok(count) = take_i32(&mut bytes) else { return Err(RecordFault::Number) };
    let count = u32::try_from(count).map_err(|_| RecordFault::Headers)?;
    if count as usize > bytes.len() / HEADER_BYTES_MIN {
        return Err(RecordFault::Headers);
    }
    let headers = Headers { bytes, left: count };
    for _ in 0..count {
        take_field(&mut bytes, RecordFault::Headers)?.ok_or(RecordFault::HeaderKey)?;
        take_field(&mut bytes, RecordFault::Headers)?;
    }
    if bytes.is_empty() { Ok(headers) } else { Err(RecordFault::Rest) }
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const NONE: Self = Self { bytes: &[], left: 0 };

    /// The number of headers left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left as usize
    }

    /// True if no header is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The last header with this key, which is the one that counts where one is wanted.
    #[must_use]
    pub fn last_of(self, key: &[u8]) -> Option<Header<'a>> {
        self.filter(|header| header.key == key).last()
    }
}

// Not derived: a length may be written with more bytes than it need have.
impl PartialEq for Headers<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Headers<'_> {}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // They were walked before: no branch here ends early.
        let key = take_field(&mut self.bytes, RecordFault::Headers).ok()??;
        let value = take_field(&mut self.bytes, RecordFault::Headers).ok()?;
        Some(Header { key, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for Headers<'_> {}
