//! A long record, walked as its bytes come: none of them is kept.
//!
//! ```text
//! head ─▶ key ─▶ value ─▶ count ─▶ (header's key ─▶ its value) … ─▶ end
//!           each of them: a length, then bytes that are passed over
//! ```
//!
//! Invariant: it accepts the same records as [`super::take_record`], and refuses others for the
//! same reason.

use crate::records::{
    record::{RecordFault, take_length},
    varint::{NoVarint, take_i32, take_i64},
};

/// The part of the record that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordPart {
    Head,
    Key,
    Value,
    Count,
    HeaderKey,
    HeaderValue,
    End,
}

/// Why a part is not there.
enum PartError {
    /// The bytes end within it.
    Cut,
    Wrong(RecordFault),
}

use PartError::{Cut, Wrong};

/// The record, as far as it was walked.
#[derive(Debug)]
pub(super) struct LongRecord {
    /// All of it, with its length.
    pub(super) bytes: usize,
    pub(super) offset_delta: i32,
    pub(super) timestamp_ms: i64,
    pub(super) is_keyless: bool,
    base_timestamp_ms: i64,
    /// Bytes that are still to come.
    left: usize,
    /// Those of them that are passed over next.
    skip: usize,
    part: RecordPart,
    headers_left: u32,
}

fn number(bytes: &mut &[u8]) -> Result<i32, PartError> {
    take_i32(bytes).map_err(|why| match why {
        NoVarint::Cut => Cut,
        NoVarint::Long => Wrong(RecordFault::Number),
    })
}

impl LongRecord {
    /// Begins with the length, which must be there.
    pub(super) fn begin(bytes: &mut &[u8], base_timestamp_ms: i64) -> Result<Self, RecordFault> {
        let before = bytes.len();
        let left = take_length(bytes)?;
        Ok(Self {
            bytes: before - bytes.len() + left,
            offset_delta: 0,
            timestamp_ms: 0,
            is_keyless: false,
            base_timestamp_ms,
            left,
            skip: 0,
            part: RecordPart::Head,
            headers_left: 0,
        })
    }

    /// Walks on. True if the record has ended. The caller repeats the rest of `bytes`, with more.
    pub(super) fn walk(&mut self, bytes: &mut &[u8]) -> Result<bool, RecordFault> {
        loop {
            let passed = self.skip.min(bytes.len());
            *bytes = &bytes[passed..];
            self.skip -= passed;
            self.left -= passed;
            if self.skip > 0 {
                return Ok(false);
            }
            if self.part == RecordPart::End {
                return if self.left == 0 { Ok(true) } else { Err(RecordFault::Rest) };
            }
            let shown = self.left.min(bytes.len());
            let mut window = &bytes[..shown];
            match self.step(&mut window) {
                Ok(()) => {
                    let taken = shown - window.len();
                    *bytes = &bytes[taken..];
                    self.left -= taken;
                }
                Err(Cut) if shown < self.left => return Ok(false),
                Err(Cut) => return Err(RecordFault::Number),
                Err(Wrong(fault)) => return Err(fault),
            }
        }
    }

    /// Takes the next part's numbers.
    fn step(&mut self, bytes: &mut &[u8]) -> Result<(), PartError> {
        match self.part {
            RecordPart::Head => {
                match **bytes {
                    [0, ref rest @ ..] => *bytes = rest,
                    [] if self.left == 0 => return Err(Wrong(RecordFault::Length)),
                    [] => return Err(Cut),
                    _ => return Err(Wrong(RecordFault::Attributes)),
                }
                let delta_ms = take_i64(bytes).map_err(|why| match why {
                    NoVarint::Cut => Cut,
                    NoVarint::Long => Wrong(RecordFault::Number),
                })?;
                let timestamp_ms = self.base_timestamp_ms.checked_add(delta_ms);
                self.timestamp_ms = timestamp_ms.ok_or(Wrong(RecordFault::Timestamp))?;
                self.offset_delta = number(bytes)?;
                self.part = RecordPart::Key;
            }
            RecordPart::Key => {
                self.is_keyless = self.field(bytes, RecordFault::Key)?.is_none();
                self.part = RecordPart::Value;
            }
            RecordPart::Value => {
                self.field(bytes, RecordFault::Value)?;
                self.part = RecordPart::Count;
            }
            RecordPart::Count => {
                let shown = bytes.len();
                let count = u32::try_from(number(bytes)?);
                self.headers_left = count.map_err(|_| Wrong(RecordFault::Headers))?;
                let left = self.left - (shown - bytes.len());
                if self.headers_left as usize > left / 2 {
                    return Err(Wrong(RecordFault::Headers));
                }
                self.part =
                    if self.headers_left == 0 { RecordPart::End } else { RecordPart::HeaderKey };
            }
            RecordPart::HeaderKey => {
                self.field(bytes, RecordFault::Headers)?.ok_or(Wrong(RecordFault::HeaderKey))?;
                self.part = RecordPart::HeaderValue;
            }
            RecordPart::HeaderValue => {
                self.field(bytes, RecordFault::Headers)?;
                self.headers_left -= 1;
                self.part =
                    if self.headers_left == 0 { RecordPart::End } else { RecordPart::HeaderKey };
            }
            RecordPart::End => {}
        }
        Ok(())
    }

    /// The length of a field, whose bytes are passed over; none if there is no field.
    fn field(&mut self, bytes: &mut &[u8], fault: RecordFault) -> Result<Option<usize>, PartError> {
        let shown = bytes.len();
        let length = number(bytes)?;
        let left = self.left - (shown - bytes.len());
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                self.skip = length;
                Ok(Some(length))
            }
            Err(_) if length == -1 => Ok(None),
            _ => Err(Wrong(fault)),
        }
    }
}
