//! Answers on their way to a client: what is in memory is sent by one call for many parts, what is in
//! a file out of the file.

use crate::{answer::Answer, frame::Charge};
use rustix::{
    fs::sendfile,
    io::retry_on_intr,
    net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt::set_tcp_cork},
};
use std::{
    io::{self, IoSlice},
    os::fd::AsFd,
};
use tidemill_log::{FileChunk, Served};
use tokio::{
    io::Interest,
    net::{TcpStream, tcp::OwnedWriteHalf},
};

/// Slices that one write to a socket takes.
const SLICES_MAX: usize = 64;
/// Answers are not held back for others once they are so long together.
const TOGETHER_BYTES_MAX: usize = 32 << 10;

/// Answers that leave together, in their order.
#[derive(Debug)]
pub(crate) struct Outbox {
    socket: OwnedWriteHalf,
    parts: Vec<Served>,
    /// Held until they are sent.
    charges: Vec<Charge>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, parts: Vec::new(), charges: Vec::new(), bytes: 0 }
    }

    pub(crate) fn put(&mut self, answer: Answer) {
        self.bytes += answer.parts.iter().map(Served::len).sum::<usize>();
        self.parts.extend(answer.parts);
        self.charges.extend(answer.charge);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether no more should be put beside what is here.
    pub(crate) fn is_full(&self) -> bool {
        self.parts.len() >= SLICES_MAX || self.bytes >= TOGETHER_BYTES_MAX
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes it all.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        // What a file gives is sent on at once, a small packet behind each large one, but for this.
        let is_held = self.parts.len() > 1 && self.parts.iter().any(is_in_file);
        if is_held {
            hold_back(&self.socket, true)?;
        }
        let mut parts = self.parts.as_slice();
        while let Some(first) = parts.first() {
            let sent = match first {
                Served::Memory(_) => {
                    let in_memory = parts.iter().take_while(|it| !is_in_file(it));
                    let count = in_memory.take(SLICES_MAX).count();
                    let more = parts.len() > count;
                    send_bytes(&self.socket, &parts[..count], more).await?;
                    count
                }
                Served::File(chunk) => {
                    send_file(&self.socket, chunk, parts.len() > 1).await?;
                    1
                }
            };
            parts = &parts[sent..];
        }
        if is_held {
            hold_back(&self.socket, false)?;
        }
        self.parts.clear();
        self.charges.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn is_in_file(part: &Served) -> bool {
    matches!(part, Served::File(_))
}

/// Whether packets that are not full wait for what is sent next.
fn hold_back(socket: &OwnedWriteHalf, holds: bool) -> io::Result<()> {
    let socket: &TcpStream = socket.as_ref();
    Ok(set_tcp_cork(socket, holds)?)
}

/// Sends parts that are in memory. `more`: others follow at once.
async fn send_bytes(socket: &OwnedWriteHalf, parts: &[Served], more: bool) -> io::Result<()> {
    let bytes = parts.iter().map(|part| match part {
        Served::Memory(bytes) => &bytes[..],
        Served::File(_) => &[],
    });
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    for (slice, bytes) in slices.iter_mut().zip(bytes) {
        *slice = IoSlice::new(bytes);
    }
    let mut left = &mut slices[..parts.len()];
    IoSlice::advance_slices(&mut left, 0);
    let flags = if more { SendFlags::MORE | SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL };
    let socket: &TcpStream = socket.as_ref();
    while !left.is_empty() {
        let slices = &*left;
        let send = || {
            let mut nothing = SendAncillaryBuffer::default();
            Ok(retry_on_intr(|| sendmsg(socket.as_fd(), slices, &mut nothing, flags))?)
        };
        match socket.async_io(Interest::WRITABLE, send).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            sent => IoSlice::advance_slices(&mut left, sent),
        }
    }
    Ok(())
}

/// Sends a chunk out of its file, which the system does without a copy.
async fn send_file(socket: &OwnedWriteHalf, chunk: &FileChunk, more: bool) -> io::Result<()> {
    let mut done = 0;
    let stream: &TcpStream = socket.as_ref();
    while done < chunk.bytes() {
        // A client may take its time, and meanwhile the system may have let go of what was found
        // good; then it is not sent unread.
        let Some((file, position)) = chunk.place().filter(|_| chunk.is_as_found()) else {
            let bytes = chunk.read_checked().inspect_err(|error| {
                tracing::error!(%error, "what was being sent cannot be served");
            })?;
            return send_bytes(socket, &[Served::Memory(bytes.slice(done..))], more).await;
        };
        let send = || {
            let mut at = position + done as u64;
            let left = chunk.bytes() - done;
            Ok(retry_on_intr(|| sendfile(stream.as_fd(), file, Some(&mut at), left))?)
        };
        match stream.try_io(Interest::WRITABLE, send) {
            // The file is shorter than it was.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(sent) => done += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
