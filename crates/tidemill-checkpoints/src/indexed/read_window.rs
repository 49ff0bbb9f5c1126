//! What is read of data files at once, for many entries.

use std::io;
use tidemill_env::DiskRead;

/// A part of a file that was read.
#[derive(Default)]
pub(super) struct ReadWindow {
    file: u64,
    start: u64,
    length: usize,
    /// All that was read.
    pub(super) read_bytes: u64,
    /// Longer than what is in it: memory that was used once costs nothing.
    bytes: Vec<u8>,
}

impl ReadWindow {
    /// Bytes of a file; fewer at its end. If they have to be read, `ahead` are, or as many as are
    /// wanted.
    pub(super) fn get(
        &mut self,
        file: &dyn DiskRead,
        (number, position): (u64, u64),
        count: usize,
        ahead: usize,
    ) -> io::Result<&[u8]> {
        let offset = position.checked_sub(self.start).filter(|_| number == self.file);
        let at = offset.and_then(|it| usize::try_from(it).ok());
        let at = at.filter(|it| it.checked_add(count).is_some_and(|end| end <= self.length));
        let Some(at) = at else {
            let most = file.length()?.saturating_sub(position);
            let wanted = usize::try_from(most).unwrap_or(usize::MAX).min(count.max(ahead));
            if self.bytes.len() < wanted {
                self.bytes.resize(wanted, 0);
            }
            (self.file, self.start, self.length) = (number, position, 0);
            self.length = file.read_direct(position, &mut self.bytes[..wanted])?;
            self.read_bytes += self.length as u64;
            return Ok(&self.bytes[..self.length.min(count)]);
        };
        Ok(&self.bytes[at..at + count])
    }
}
