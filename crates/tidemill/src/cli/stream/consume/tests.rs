//! What a group has behind it was written.

use super::*;

/// Takes so many bytes, and then nobody reads any more.
struct Reader(usize);

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn offsets_of_lines_that_nobody_took_are_not_committed() {
    let mut gathered = Gathered::default();
    gathered.out.extend_from_slice(b"one\n");
    gathered.taken.insert(0, 1);
    gathered.flush(&mut Reader(100)).unwrap();
    gathered.out.extend_from_slice(b"two\nthree\n");
    gathered.taken.extend([(0, 3), (1, 9)]);
    let error = gathered.flush(&mut Reader(5)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    // At the end all that is left is written once more.
    gathered.flush(&mut Reader(100)).unwrap();
    assert_eq!(gathered.written, BTreeMap::from([(0, 1)]));
}
