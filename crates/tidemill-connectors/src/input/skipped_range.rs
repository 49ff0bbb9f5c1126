//! A part of a file that was passed over unread. Only dead letters name lines, so its lines are
//! counted when the first one does.

use super::READ_AHEAD_BYTES;
use std::{io, ops::Range, sync::Arc};
use tidemill_env::DiskRead;

/// See the module.
pub(crate) struct SkippedRange {
    file: Arc<dyn DiskRead>,
    bytes: Range<u64>,
    /// The number of lines that end in it; none before the first call.
    lines: Option<u64>,
}

impl SkippedRange {
    pub(super) fn new(file: &Arc<dyn DiskRead>, bytes: Range<u64>) -> Self {
        Self { file: Arc::clone(file), bytes, lines: None }
    }

    /// The number of lines that end in it.
    pub(crate) fn lines(&mut self) -> io::Result<u64> {
        let lines = match self.lines {
            Some(lines) => lines,
            None => self.count()?,
        };
        self.lines = Some(lines);
        Ok(lines)
    }

    fn count(&self) -> io::Result<u64> {
        let Range { start: mut at, end } = self.bytes;
        let mut buffer = vec![0; READ_AHEAD_BYTES];
        let mut lines = 0;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let count = self.file.read_at(at, &mut buffer[..wanted])?;
            if count == 0 {
                return Err(super::became_shorter());
            }
            lines += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
            at += count as u64;
        }
        Ok(lines)
    }
}
