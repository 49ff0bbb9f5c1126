//! Where a record ends, by format: a pure function of the bytes from the record's start.
//!
//! - A line ends with `\n`; a `\r` before it belongs to the end.
//! - In CSV a quoted field may hold line breaks. A record over several lines that does not come
//!   out with as many fields as there are columns is given up one line at a time, so that a stray quote
//!   costs the line it stands in and not the rest of the file.

use crate::influx::point_end;
use memchr::memchr;
use tidemill_types::limits::RECORD_BYTES_MAX;

/// Why a record over several lines was given up.
pub(crate) const OPEN_QUOTE: &str = "its quotes do not match: a quoted field ends with a quote before the next field or the record's end";

/// Why bytes are no single record.
const SEVERAL_LINES: &str = "it has more than one line, and is read as one record";

/// The framing of records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Every line is a record, also an empty one.
    Text,
    /// Lines; blank ones are left out.
    Json,
    /// Lines; blank ones and comments (`#`) are left out.
    Influx,
    /// CSV with so many fields and this byte between them; 0 while the first record is read, which
    /// tells.
    Csv { fields: usize, delimiter: u8 },
}

/// One record, or a stretch without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes, with the end of the line.
    pub(crate) len: usize,
    /// Bytes without it.
    pub(crate) body: usize,
    /// Line breaks within.
    pub(crate) lines: u32,
    pub(crate) is: Framed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    Record,
    /// Nothing to read: blank, or a comment.
    Skip,
    Bad(&'static str),
}

/// Length of a line's text without its end.
fn trim_end(line: &[u8]) -> usize {
    match line {
        [text @ .., b'\r', b'\n'] => text.len(),
        [text @ .., b'\n' | b'\r'] => text.len(),
        text => text.len(),
    }
}

impl Framing {
    /// The record at the start of `view`; none if it does not end there. `view` is never longer
    /// than the longest record and one byte; `last` says that the file ends with it.
    pub(crate) fn frame(self, view: &[u8], last: bool) -> Option<Frame> {
        let line = match memchr(b'\n', view) {
            Some(end) => &view[..=end],
            None if last => view,
            None => return None,
        };
        if let Self::Csv { fields, delimiter } = self
            && memchr(b'"', line).is_some()
        {
            return quoted(view, line, (fields, delimiter), last);
        }
        Some(self.line(line))
    }

    /// The record that bytes are which hold one and no other: without the end of its line.
    ///
    /// # Errors
    /// They are more than one, or none.
    pub(crate) fn only(self, bytes: &[u8]) -> Result<&[u8], &'static str> {
        if self == Self::Influx {
            // Unlike in a file, a text may hold line breaks.
            let (point, behind) = bytes.split_at(point_end(bytes));
            let is_one = matches!(behind, [] | [b'\n']);
            return is_one.then_some(&point[..trim_end(point)]).ok_or(SEVERAL_LINES);
        }
        let frame = self.frame(bytes, true).ok_or(OPEN_QUOTE)?;
        match frame.is {
            Framed::Bad(reason) => Err(reason),
            Framed::Record | Framed::Skip if frame.len < bytes.len() => Err(SEVERAL_LINES),
            Framed::Record | Framed::Skip => Ok(&bytes[..frame.body]),
        }
    }

    fn line(self, line: &[u8]) -> Frame {
        let body = trim_end(line);
        let text = &line[..body];
        let skip = match self {
            Self::Text => false,
            Self::Csv { .. } => text.is_empty(),
            Self::Json => text.iter().all(u8::is_ascii_whitespace),
            Self::Influx => {
                let text = text.trim_ascii_start();
                text.is_empty() || text[0] == b'#'
            }
        };
        let lines = u32::from(line.last() == Some(&b'\n'));
        Frame { len: line.len(), body, lines, is: if skip { Framed::Skip } else { Framed::Record } }
    }
}

/// A CSV record with quotes.
fn quoted(view: &[u8], line: &[u8], (fields, delimiter): (usize, u8), last: bool) -> Option<Frame> {
    let give_up = Framing::Text.line(line);
    let bad = Frame { is: Framed::Bad(OPEN_QUOTE), ..give_up };
    let (mut at, mut found, mut lines) = (0, 0, 0);
    loop {
        found += 1;
        match field_end(view, at, delimiter) {
            FieldEnd::Field(end) if fields == 0 || found < fields || end < line.len() => {
                at = end + 1
            }
            // Too many fields: on one line the reader says so, over several it is a stray quote.
            FieldEnd::Field(_) | FieldEnd::Broken => return Some(bad),
            FieldEnd::Record(end) => {
                lines += memchr::memchr_iter(b'\n', &view[..end]).count();
                let len = end + 1;
                if len > line.len() && fields != 0 && found != fields {
                    return Some(bad);
                }
                let body = trim_end(&view[..len]);
                let lines = u32::try_from(lines).ok()? + 1;
                return Some(Frame { len, body, lines, is: Framed::Record });
            }
            FieldEnd::File { open: false } if last => {
                let body = trim_end(view);
                let lines = memchr::memchr_iter(b'\n', view).count();
                if lines > 0 && fields != 0 && found != fields {
                    return Some(bad);
                }
                let lines = u32::try_from(lines).ok()?;
                return Some(Frame { len: view.len(), body, lines, is: Framed::Record });
            }
            FieldEnd::File { .. } if last || view.len() > RECORD_BYTES_MAX => return Some(bad),
            FieldEnd::File { .. } => return None,
        }
    }
}

enum FieldEnd {
    /// The byte between fields stands there.
    Field(usize),
    /// A line break stands there.
    Record(usize),
    /// The bytes end, inside or outside of quotes.
    File { open: bool },
    /// Something follows the closing quote.
    Broken,
}

/// Where the CSV field that starts at `at` ends.
fn field_end(view: &[u8], at: usize, delimiter: u8) -> FieldEnd {
    if view.get(at) != Some(&b'"') {
        return match memchr::memchr2(delimiter, b'\n', &view[at..]) {
            Some(end) if view[at + end] == delimiter => FieldEnd::Field(at + end),
            Some(end) => FieldEnd::Record(at + end),
            None => FieldEnd::File { open: false },
        };
    }
    let mut at = at + 1;
    loop {
        match memchr(b'"', &view[at..]) {
            None => return FieldEnd::File { open: true },
            Some(quote) => at += quote + 1,
        }
        match &view[at..] {
            // Two quotes in a row are one quote of the text.
            [b'"', ..] => at += 1,
            [next, ..] if *next == delimiter => return FieldEnd::Field(at),
            [b'\n', ..] => return FieldEnd::Record(at),
            [b'\r', b'\n', ..] => return FieldEnd::Record(at + 1),
            [] | [b'\r'] => return FieldEnd::File { open: false },
            _ => return FieldEnd::Broken,
        }
    }
}

#[cfg(test)]
mod tests;
