//! Where a point ends.
//!
//! ```text
//! measurement,tags name=1,name="text, and a line break in it",name=2 time
//!                  \___ a quote opens here alone ___/
//! ```
//!
//! A line break ends a point, but not within a text in quotes: clients send those as they are. A
//! quote that nothing closes, or with something else behind its end than a point has there, is no
//! text: the line is a bad one, and takes no other with it.

/// Where the first point of these bytes ends: at its line break, or with them.
#[must_use]
pub fn point_end(bytes: &[u8]) -> usize {
    let first_break = line_end(bytes, 0);
    let spaces = bytes[..first_break].iter().take_while(|it| it.is_ascii_whitespace()).count();
    if spaces == first_break || bytes[spaces] == b'#' {
        return first_break;
    }
    let mut at = name_end(bytes, spaces, b" ");
    at += bytes[at..].iter().take_while(|it| **it == b' ').count();
    // Field by field, as long as they are what a point has.
    loop {
        at = name_end(bytes, at, b"=, ");
        if bytes.get(at) != Some(&b'=') {
            return line_end(bytes, at);
        }
        at += 1;
        at = match bytes.get(at) {
            Some(b'"') => match text_end(bytes, at + 1) {
                Some(end) => end,
                None => return line_end(bytes, at),
            },
            _ => name_end(bytes, at, b", "),
        };
        if bytes.get(at) != Some(&b',') {
            return line_end(bytes, at);
        }
        at += 1;
    }
}

/// Where the line ends that `from` is in.
fn line_end(bytes: &[u8], from: usize) -> usize {
    let length = bytes[from..].iter().position(|it| *it == b'\n');
    length.map_or(bytes.len(), |it| from + it)
}

/// Where a name, or a value without quotes, ends: at one of `ends` or with its line.
fn name_end(bytes: &[u8], from: usize, ends: &[u8]) -> usize {
    let mut at = from;
    while let Some(byte) = bytes.get(at).filter(|it| **it != b'\n' && !ends.contains(it)) {
        let escaped = *byte == b'\\' && matches!(bytes.get(at + 1), Some(b',' | b'=' | b' '));
        at += 1 + usize::from(escaped);
    }
    at
}

/// Where a text in quotes ends, behind its quote; none if it is no such text.
fn text_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'\\', Some(b'"' | b'\\')) => at += 2,
            (b'"', None | Some(b',' | b' ' | b'\n' | b'\r')) => return Some(at + 1),
            (b'"', Some(_)) => return None,
            _ => at += 1,
        }
    }
}
