//! The reader of standard output: is it still there?
//!
//! A writer learns of it at its next byte. A job without output polls, or it would wait for
//! ever for a reader that has gone.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;

/// Time between two polls, in microseconds.
pub(super) const ASK_US: u64 = 500_000;

/// True if standard output is a pipe or a socket without a reader, such as one to `head`.
pub(super) fn nobody_reads() -> bool {
    is_deserted(std::io::stdout())
}

fn is_deserted(out: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let asked = poll(&mut polled, Some(&Timespec::default()));
    asked.is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn a_pipe_is_deserted_when_its_last_reader_has_gone() {
        let (reader, writer) = pipe().expect("a pipe");
        let other = reader.try_clone().expect("a second reader");
        assert!(!is_deserted(&writer));
        drop(reader);
        assert!(!is_deserted(&writer));
        drop(other);
        assert!(is_deserted(&writer));
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_deserted(&file), "nobody need read a file");
    }
}
