//! Lines come whole, however input comes in pieces.

use super::*;

/// Gives out so many bytes at a time.
struct Pieces(Vec<u8>, usize);

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(into.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

fn all(text: &str, piece: usize, line_bytes_max: usize) -> (Vec<String>, InputEnd) {
    let lines = Lines::read(&World::real(), Pieces(text.into(), piece), line_bytes_max);
    let mut found = Vec::new();
    loop {
        match lines.next(Duration::from_secs(20)).expect("it goes on") {
            Ok(block) => {
                let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
                found.extend(split(&block).map(text));
            }
            Err(ended) => return (found, ended),
        }
    }
}

#[test]
fn lines_are_the_same_however_they_come() {
    for piece in [1, 2, 3, 100] {
        let (lines, ended) = all("a\n\nbc\r\nlast", piece, 100);
        assert_eq!(lines, ["a", "", "bc", "last"], "{piece}");
        assert!(matches!(ended, InputEnd::End));
        assert_eq!(all("a\n", piece, 100).0, ["a"]);
        assert!(all("", piece, 100).0.is_empty());
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let (lines, ended) = all(&format!("a\n{}", "x".repeat(1000)), 100, 500);
    assert_eq!(lines, ["a"]);
    assert!(matches!(ended, InputEnd::TooLong(500)), "{ended:?}");
}
