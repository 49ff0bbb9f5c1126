//! Standard input in lines, read by a thread of its own, so that waiting for a line can be stopped.
//!
//! Invariant: memory is bounded by the longest line and a few blocks.

use memchr::{memchr, memrchr};
use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};
use tidemill_env::World;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that may wait.
const BLOCKS_MAX: usize = 4;

/// Whole lines, one behind the other, or why there are no more.
type LineBlock = Result<Vec<u8>, InputEnd>;

/// The end of the input.
#[derive(Debug)]
pub(super) enum InputEnd {
    /// It has ended.
    End,
    /// A line is longer than this.
    TooLong(usize),
    /// It cannot be read.
    Failed(io::Error),
}

/// See the module.
pub(super) struct Lines {
    blocks: Receiver<LineBlock>,
}

impl Lines {
    /// Begins to read. The thread lives until input ends or the process does.
    pub(super) fn read(
        world: &World,
        input: impl Read + Send + 'static,
        line_bytes_max: usize,
    ) -> Self {
        let (send, blocks) = sync_channel(BLOCKS_MAX);
        let body = Box::new(move || read_blocks(input, line_bytes_max, &send));
        drop(world.spawn.spawn("stdin", body));
        Self { blocks }
    }

    /// The next lines; none if there are none for so long.
    pub(super) fn next(&self, patience: Duration) -> Option<LineBlock> {
        match self.blocks.recv_timeout(patience) {
            Ok(block) => Some(block),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(InputEnd::End)),
        }
    }
}

fn read_blocks(mut input: impl Read, line_bytes_max: usize, send: &SyncSender<LineBlock>) {
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let filled = rest.len();
        rest.resize(filled + BLOCK_BYTES, 0);
        let count = match input.read(&mut rest[filled..]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                rest.truncate(filled);
                continue;
            }
            Err(error) => return drop(send.send(Err(InputEnd::Failed(error)))),
        };
        rest.truncate(filled + count);
        if count == 0 {
            // The last line may lack its end.
            if !rest.is_empty() && send.send(Ok(rest)).is_err() {
                return;
            }
            return drop(send.send(Err(InputEnd::End)));
        }
        let Some(end) = memrchr(b'\n', &rest[filled..]) else {
            if rest.len() > line_bytes_max {
                return drop(send.send(Err(InputEnd::TooLong(line_bytes_max))));
            }
            continue;
        };
        let after = rest.split_off(filled + end + 1);
        let block = std::mem::replace(&mut rest, after);
        if send.send(Ok(block)).is_err() {
            return;
        }
    }
}

/// The lines of a block, without their ends: a line feed, or a carriage return before it.
pub(super) fn split(mut block: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if block.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', block) {
            Some(end) => (&block[..end], &block[end + 1..]),
            None => (block, &[][..]),
        };
        block = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

#[cfg(test)]
mod tests;
