//! Answers on their way to a client: many parts by one call. Parts that stand in files are read and
//! checked when the socket has room for them, into memory that all connections of a thread use in
//! turn: a slow client holds none.
//!
//! The system could send out of files by itself (`sendfile`), unchecked. On some machines that is
//! cheaper than to read and check; where two cores share the counts of the same pages it costs
//! more (docs/measurements.md).

use crate::{answer::ResponseFrame, frame::MemoryCharge};
use bytes::Bytes;
use rustix::{
    io::retry_on_intr,
    net::{SendAncillaryBuffer, SendFlags, sendmsg},
};
use std::{
    cell::RefCell,
    io::{self, IoSlice},
    ops::Range,
    os::fd::AsFd,
};
use tidemill_log::{FileChunk, OutgoingChunk, ReadError};
use tokio::{
    io::Interest,
    net::{TcpStream, tcp::OwnedWriteHalf},
};

#[cfg(test)]
mod tests;

/// Slices that one write to a socket takes.
const SLICES_MAX: usize = 64;
/// Answers are not held back for others once they are so long together.
const TOGETHER_BYTES_MAX: usize = 32 << 10;
/// So much is read out of files for one write: less after a socket had no room for all of it.
const READ_BYTES: Range<usize> = 64 << 10..512 << 10;

thread_local! {
    /// The buffer of the write under way. It is kept, unless a chunk was longer.
    static BLOCK: RefCell<Vec<u8>> = RefCell::default();
}

/// Answers that leave together, in their order.
#[derive(Debug)]
pub(crate) struct Outbox {
    socket: OwnedWriteHalf,
    parts: Vec<OutgoingChunk>,
    /// Held until they are sent.
    charges: Vec<MemoryCharge>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, parts: Vec::new(), charges: Vec::new(), bytes: 0 }
    }

    pub(crate) fn put(&mut self, answer: ResponseFrame) {
        self.bytes += answer.len();
        self.parts.extend(answer.parts);
        self.charges.extend(answer.charge);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// True if the outbox should be flushed before anything is added.
    pub(crate) fn is_full(&self) -> bool {
        self.parts.len() >= SLICES_MAX || self.bytes >= TOGETHER_BYTES_MAX
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes all parts. A damaged chunk ends the connection; the next read there returns the
    /// error.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let socket: &TcpStream = self.socket.as_ref();
        let mut left = Left { parts: &self.parts, done: 0 };
        let mut read_bytes = READ_BYTES.end;
        while !left.parts.is_empty() {
            let mut sent = 0;
            let outcome = socket.try_io(Interest::WRITABLE, || {
                let offered;
                (sent, offered) = left.send(socket, read_bytes)?;
                // To try again at once would be to read and check for nothing.
                if sent < offered { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            left.advance(sent);
            match outcome {
                Ok(()) => read_bytes = READ_BYTES.end,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    read_bytes = READ_BYTES.start;
                    socket.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        self.parts.clear();
        self.charges.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Where the bytes of a part are.
enum PartSource<'a> {
    Memory(&'a [u8]),
    /// The log had it in memory.
    Kept(Bytes),
    /// In the block.
    Read(Range<usize>),
}

/// Parts that are not sent yet, and how many bytes of the first of them are.
struct Left<'a> {
    parts: &'a [OutgoingChunk],
    done: usize,
}

impl Left<'_> {
    /// Sends as much as the socket takes at once. Returns the bytes sent and the bytes offered.
    fn send(&self, socket: &TcpStream, read_bytes: usize) -> io::Result<(usize, usize)> {
        BLOCK.with_borrow_mut(|block| {
            let sources = gather(self.parts, read_bytes, block).map_err(ended)?;
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            for (slice, source) in slices.iter_mut().zip(&sources) {
                *slice = IoSlice::new(match source {
                    PartSource::Memory(bytes) => bytes,
                    PartSource::Kept(bytes) => bytes,
                    PartSource::Read(range) => &block[range.clone()],
                });
            }
            let mut slices = &mut slices[..sources.len()];
            IoSlice::advance_slices(&mut slices, self.done);
            let offered = slices.iter().map(|it| it.len()).sum();
            let is_last = sources.len() == self.parts.len();
            let more = if is_last { SendFlags::empty() } else { SendFlags::MORE };
            let flags = more | SendFlags::NOSIGNAL;
            let sent = retry_on_intr(|| {
                sendmsg(socket.as_fd(), slices, &mut SendAncillaryBuffer::default(), flags)
            });
            if block.len() > READ_BYTES.end {
                *block = Vec::new();
            }
            Ok((sent?, offered))
        })
    }

    fn advance(&mut self, sent: usize) {
        self.done += sent;
        while let Some(first) = self.parts.first().filter(|it| it.len() <= self.done) {
            self.done -= first.len();
            self.parts = &self.parts[1..];
        }
    }
}

/// Where the bytes of the first parts are, as many as one write takes. Those that stand in files
/// only are read into `block`: one, and more up to `read_bytes` together.
fn gather<'a>(
    parts: &'a [OutgoingChunk],
    read_bytes: usize,
    block: &mut Vec<u8>,
) -> Result<Vec<PartSource<'a>>, ReadError> {
    let (mut sources, mut read) = (Vec::with_capacity(parts.len().min(SLICES_MAX)), 0);
    for part in parts.iter().take(SLICES_MAX) {
        let chunk = match part {
            OutgoingChunk::Memory(bytes) => {
                sources.push(PartSource::Memory(bytes));
                continue;
            }
            OutgoingChunk::File(chunk) => chunk,
        };
        if let Some(bytes) = chunk.in_memory() {
            sources.push(PartSource::Kept(bytes));
            continue;
        }
        let end = read + chunk.bytes();
        if end > read_bytes && read > 0 {
            break;
        }
        match read_into(chunk, read, block) {
            Ok(()) => sources.push(PartSource::Read(read..end)),
            // What stands before it is good, and leaves first.
            Err(_) if !sources.is_empty() => break,
            Err(error) => return Err(error),
        }
        read = end;
    }
    Ok(sources)
}

fn read_into(chunk: &FileChunk, at: usize, block: &mut Vec<u8>) -> Result<(), ReadError> {
    let end = at + chunk.bytes();
    if block.len() < end {
        let bytes = end.max(READ_BYTES.end);
        block.reserve_exact(bytes - block.len());
        block.resize(bytes, 0);
    }
    chunk.read_into(&mut block[at..end])
}

fn ended(error: ReadError) -> io::Error {
    match &error {
        // It was given up while the client took its time.
        ReadError::Missing { .. } => tracing::info!(%error, "an answer is cut short"),
        _ => tracing::error!(%error, "an answer is cut short"),
    }
    io::Error::other(error)
}
