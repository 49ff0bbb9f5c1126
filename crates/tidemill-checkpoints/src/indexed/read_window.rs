//! A read buffer over data files, for many entries.

use std::io;
use tidemill_env::DiskRead;

/// A part of a file.
#[derive(Default)]
pub(super) struct ReadWindow {
    file: u64,
    start: u64,
    length: usize,
    /// The sum of all bytes read.
    pub(super) read_bytes: u64,
    /// The buffer. Its unused end keeps its memory, which costs nothing once touched.
    bytes: Vec<u8>,
}

impl ReadWindow {
    /// Returns bytes of a file, fewer at its end. A read that is needed fetches `ahead` bytes, or
    /// `count` if that is more.
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
