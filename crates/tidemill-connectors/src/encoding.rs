//! The encoding of a text file, as its first bytes show it: only UTF-8 is read.
//!
//! ```text
//! ff fe 00 00   UTF-32, little endian     ff fe   UTF-16, little endian     7b 00 22 00   the same,
//! 00 00 fe ff   UTF-32, big endian        fe ff   UTF-16, big endian        without a mark
//! ```

use std::fmt;

/// Bytes that show the encoding.
pub(crate) const ENCODING_BYTES: usize = 1_024;

/// An encoding that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignEncoding {
    /// Two bytes a character, the low one first.
    Utf16Le,
    /// Two bytes a character, the high one first.
    Utf16Be,
    /// Four bytes a character, the lowest first.
    Utf32Le,
    /// Four bytes a character, the highest first.
    Utf32Be,
}

impl ForeignEncoding {
    /// The encoding that the first bytes of a file show; `None` if it may be UTF-8.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        Self::of_mark(head).or_else(|| Self::of_zeros(&head[..head.len().min(ENCODING_BYTES)]))
    }

    /// The encoding of a byte order mark: none of these begins a text in UTF-8.
    #[must_use]
    pub fn of_mark(head: &[u8]) -> Option<Self> {
        match head {
            [0xff, 0xfe, 0, 0, ..] => Some(Self::Utf32Le),
            [0, 0, 0xfe, 0xff, ..] => Some(Self::Utf32Be),
            [0xff, 0xfe, ..] => Some(Self::Utf16Le),
            [0xfe, 0xff, ..] => Some(Self::Utf16Be),
            _ => None,
        }
    }

    /// The encoding of a text without a mark, by the zeros in it: quotes, commas, digits and line
    /// breaks have one or three bytes of zero. Zeros that a crash left in a file are not of a kind.
    fn of_zeros(head: &[u8]) -> Option<Self> {
        let is_char = |code: u32| code != 0 && char::from_u32(code).is_some();
        let fours = || head.chunks_exact(4).map(|it| [it[0], it[1], it[2], it[3]]);
        if head.len() >= 8 && fours().all(|it| is_char(u32::from_le_bytes(it))) {
            return Some(Self::Utf32Le);
        }
        if head.len() >= 8 && fours().all(|it| is_char(u32::from_be_bytes(it))) {
            return Some(Self::Utf32Be);
        }
        let pairs = head.len() / 2;
        let zeros = |at: usize| head.chunks_exact(2).filter(|it| it[at] == 0).count();
        // A few characters have a zero on the other side, such as U+4E00.
        let is_side = |it: usize, other: usize| pairs >= 2 && it * 4 >= pairs && other * 8 <= it;
        match (zeros(0), zeros(1)) {
            (first, second) if is_side(second, first) => Some(Self::Utf16Le),
            (first, second) if is_side(first, second) => Some(Self::Utf16Be),
            _ => None,
        }
    }

    /// The name that `iconv` knows it by.
    fn iconv(self) -> &'static str {
        match self {
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
        }
    }

    /// Returns the message that a file is in this encoding, with the remedy. `subject` is the file's name in
    /// messages.
    #[must_use]
    pub fn refusal(self, subject: &str) -> String {
        format!(
            "{subject} is {self}, and only UTF-8 is read: convert it, as with `iconv -f {} -t UTF-8 \
             FILE > NEW`; PowerShell writes UTF-8 with `Out-File -Encoding utf8` in place of `>`",
            self.iconv()
        )
    }
}

impl fmt::Display for ForeignEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf16Le => "UTF-16 (little endian)",
            Self::Utf16Be => "UTF-16 (big endian)",
            Self::Utf32Le => "UTF-32 (little endian)",
            Self::Utf32Be => "UTF-32 (big endian)",
        })
    }
}

#[cfg(test)]
mod tests {
    //! Texts in each encoding, and bytes that are in none of them.

    use super::*;
    use ForeignEncoding as E;

    fn encoded(text: &str, encoding: E) -> Vec<u8> {
        let units = text.encode_utf16();
        match encoding {
            E::Utf16Le => units.flat_map(u16::to_le_bytes).collect(),
            E::Utf16Be => units.flat_map(u16::to_be_bytes).collect(),
            E::Utf32Le => text.chars().flat_map(|it| (it as u32).to_le_bytes()).collect(),
            E::Utf32Be => text.chars().flat_map(|it| (it as u32).to_be_bytes()).collect(),
        }
    }

    #[test]
    fn a_text_is_known_with_and_without_a_mark() {
        let texts = [
            "{\"id\":1}\n",
            "id,name\r\n1,Bj\u{f6}rn\r\n",
            "ab",
            "m v=1 17\n",
            "{\"n\":\"\u{65e5}\u{672c}\u{8a9e}\u{1f600}\"}\n",
        ];
        for encoding in [E::Utf16Le, E::Utf16Be, E::Utf32Le, E::Utf32Be] {
            for text in texts {
                let bytes = encoded(text, encoding);
                assert_eq!(E::of(&bytes), Some(encoding), "{text} in {encoding}");
                let marked = encoded(&format!("\u{feff}{text}"), encoding);
                assert_eq!(E::of(&marked), Some(encoding), "{text} in {encoding} with a mark");
            }
            let long = encoded(&"{\"id\":1,\"name\":\"x\"}\n".repeat(1_000), encoding);
            assert_eq!(E::of(&long), Some(encoding));
        }
    }

    #[test]
    fn other_bytes_may_be_utf_8() {
        let zeros = [&b"{\"id\":1}\n"[..], &[0; 4_096], b"\n{\"id\":2}\n"].concat();
        for bytes in [
            &b""[..],
            b"a",
            b"\0",
            b"ab\n",
            b"{\"id\":1}\n",
            "\u{feff}id\n".as_bytes(),
            &zeros,
            &[0; 64],
            b"caf\xe9\n",
            b"a\0b",
            "\u{65e5}\u{672c}\u{8a9e}\n".as_bytes(),
        ] {
            assert_eq!(E::of(bytes), None, "{bytes:?}");
        }
    }
}
