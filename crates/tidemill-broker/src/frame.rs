//! Frames from a socket: the length, then that many bytes.
//!
//! Memory follows the bytes that have arrived, and never a claimed length: the buffer doubles as it
//! fills, and each doubling is charged to a budget that all connections share. A frame that is not
//! much longer than one that this connection has sent gets its memory at once, and no more than it
//! needs: a chunk in it can stay there. An idle connection has no buffer at all.
//!
//! A part of the budget is for frames that are short: clients that begin long ones and do not end
//! them hold up only those that have long ones too.
//!
//! A frame whose parsed form is large is read once the budget has room for that form. One frame at
//! a time may exceed the budget, so that some frame always gets on: all frames together have at
//! most the budget and the parsed form of one. That form is at most eight times the budget; a
//! larger one ends its connection before it is read.

use crate::Limits;
use bytes::{Buf, Bytes, BytesMut};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tidemill_wire::kafka::FRAME_HEAD_BYTES;
use tokio::{
    net::tcp::OwnedReadHalf,
    time::{Instant, timeout, timeout_at},
};

mod size;
#[cfg(test)]
mod tests;

use size::{FrameKind, Unread};

/// A request of at most this many bytes finds room even while longer ones wait.
const LITTLE_BYTES: usize = 64 << 10;
/// A transfer is given a second more for this many bytes.
const SLOWEST_BYTES: usize = 64 << 10;
/// The first buffer of a frame.
const FIRST_BYTES: usize = 4 << 10;
/// The memory of a frame that any connection gets at once.
const TRUSTED_BYTES_MIN: usize = 16 << 10;
/// And the most, however long the frames were that it has sent.
const TRUSTED_BYTES_MAX: usize = 2 << 20;
/// A frame without room looks at the budget again after this long.
const ROOM_WAIT: Duration = Duration::from_millis(5);

/// Bytes that all connections of a broker may have buffered together.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    used: AtomicUsize,
    max: usize,
    /// The part of `max` that is kept for short requests.
    reserve: usize,
    /// Somebody has more than there was room for.
    beyond: AtomicBool,
}

/// Bytes of the budget that somebody has; given back when dropped.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    budget: Arc<MemoryBudget>,
    bytes: usize,
    /// True for the one frame that has more than the budget.
    beyond: bool,
}

impl MemoryBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Self::with_reserve(max, max)
    }

    /// A budget that keeps an eighth for short requests, unless a request of `most` bytes would
    /// then never fit.
    pub(crate) fn with_reserve(max: usize, most: usize) -> Arc<Self> {
        let reserve = max.saturating_sub(most).min(max / 8);
        let (used, beyond) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { used, max, reserve, beyond })
    }

    /// Bytes that are charged now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryCharge {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0, beyond: false }
    }

    /// Changes the charge to `bytes`. False: there is no room, and nothing changed.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let before = self.budget.used.fetch_add(more, Ordering::Relaxed);
            let reserve = if bytes <= LITTLE_BYTES { 0 } else { self.budget.reserve };
            if before + more > self.budget.max - reserve {
                self.budget.used.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            let before = self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            if self.beyond && (bytes == 0 || before - (self.bytes - bytes) <= self.budget.max) {
                self.beyond = false;
                self.budget.beyond.store(false, Ordering::Release);
            }
        }
        self.bytes = bytes;
        true
    }

    /// Bytes that are charged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until the charge is changed to `bytes`. One charge at a time needs no room.
    pub(crate) async fn wait(&mut self, bytes: usize) {
        while !self.set_in_turn(bytes) {
            tokio::time::sleep(ROOM_WAIT).await;
        }
    }

    /// As [`Self::set`]; one at a time needs no room.
    pub(crate) fn set_in_turn(&mut self, bytes: usize) -> bool {
        if self.set(bytes) {
            return true;
        }
        if self.budget.beyond.swap(true, Ordering::Acquire) {
            return false;
        }
        self.force(bytes);
        self.beyond = true;
        true
    }

    /// Gives back all but this many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.set(bytes.min(self.bytes));
    }

    /// Charges as many bytes as there is room for, up to `want`, in place of those before. Nothing
    /// changes, and it is 0, if there is not even room for `least`.
    pub(crate) fn set_most(&mut self, want: usize, least: usize) -> usize {
        let (mut want, least) = (want.min(self.budget.max), least.min(self.budget.max));
        loop {
            if self.set(want) {
                return want;
            }
            if want <= least {
                return 0;
            }
            want = (want / 2).max(least);
        }
    }

    /// Changes the charge to `bytes` without a look at the room: the memory is in use already.
    pub(crate) fn force(&mut self, bytes: usize) {
        if !self.set(bytes) {
            self.budget.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Why there is no further frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The client closed the connection, at the end of a frame or not.
    #[error("the client went away")]
    Closed,
    /// A length that no request has.
    #[error("a frame of {said} bytes: from 8 to {max} are possible{hint}")]
    Length {
        /// The length that the frame claims.
        said: i32,
        /// The largest.
        max: usize,
        /// The likely protocol of the bytes, if they look like another one.
        hint: &'static str,
    },
    /// A length that no request of its kind has.
    #[error("a request {key} of {length} bytes: {max} are possible")]
    TooLong {
        /// Which request.
        key: i16,
        /// Its length.
        length: usize,
        /// The longest frame of its kind, in bytes.
        max: usize,
    },
    /// More topics and partitions in a produce request than there is memory for.
    #[error(
        "a produce request of {topics} topics, {partitions} partitions and {tags} tagged fields: \
         to read it would take more than {max} bytes"
    )]
    TooMany {
        /// Its topics.
        topics: usize,
        /// Its partitions.
        partitions: usize,
        /// Its tagged fields.
        tags: usize,
        /// The largest count of bytes.
        max: usize,
    },
    /// A long produce request that is none.
    #[error("a produce request of {0} bytes that cannot be read")]
    Unreadable(usize),
    /// Nothing came.
    #[error("no request for {0} ms")]
    Idle(u64),
    /// A frame began and did not end.
    #[error("a request was not whole {0} ms after its first byte")]
    Slow(u128),
    /// The socket failed.
    #[error("{0}")]
    Socket(#[from] io::Error),
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    charge: MemoryCharge,
    /// The memory that the frame in front takes once it is read. None: its head is not here yet.
    becomes: Option<usize>,
    /// When the first byte of the frame in front came.
    began: Option<Instant>,
    /// A frame that claims to be so long gets its memory at once.
    trusted_bytes: usize,
    max: usize,
    idle_ms: u64,
    transfer_ms: u64,
}

impl Frames {
    pub(crate) fn new(socket: OwnedReadHalf, budget: &Arc<MemoryBudget>, limits: &Limits) -> Self {
        Self {
            socket,
            buffer: BytesMut::new(),
            charge: MemoryCharge::new(budget),
            becomes: None,
            began: None,
            trusted_bytes: TRUSTED_BYTES_MIN,
            max: usize::try_from(limits.request_bytes.0).unwrap_or(usize::MAX),
            idle_ms: limits.idle_ms,
            transfer_ms: limits.transfer_ms,
        }
    }

    /// The next frame's content and its charge. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<(Bytes, MemoryCharge), FrameError> {
        loop {
            let whole = self.whole()?;
            if let Some(length) = whole
                && self.has_room(length)?
            {
                return Ok(self.take(length));
            }
            if self.buffer.is_empty() {
                let wait = Duration::from_millis(self.idle_ms);
                let filled = timeout(wait, self.fill()).await;
                filled.map_err(|_| FrameError::Idle(self.idle_ms))??;
                self.began = Some(Instant::now());
                continue;
            }
            let length = self.length()?.unwrap_or(0);
            let patience = patience(self.transfer_ms, length);
            let end = self.began.unwrap_or_else(Instant::now) + patience;
            let more = async {
                if whole.is_none() {
                    return self.fill().await;
                }
                tokio::time::sleep(ROOM_WAIT).await;
                Ok(())
            };
            timeout_at(end, more).await.map_err(|_| FrameError::Slow(patience.as_millis()))??;
        }
    }

    /// Waits until the client has gone, if nothing more of it is to be read.
    pub(crate) async fn gone(&mut self) {
        let mut one = [0];
        if self.buffer.is_empty() && matches!(self.socket.peek(&mut one).await, Ok(0) | Err(_)) {
            return;
        }
        // It has sent more: that is read first.
        std::future::pending().await
    }

    /// The length of the frame in front, if it is there.
    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
        let said = i32::from_be_bytes(*head);
        match usize::try_from(said) {
            Ok(length) if (8..=self.max).contains(&length) => {
                self.check_kind(length)?;
                Ok(Some(length))
            }
            _ => Err(FrameError::Length { said, max: self.max, hint: looks_like(*head) }),
        }
    }

    /// The kind of the frame in front, if that is there.
    fn kind(&self) -> Option<FrameKind> {
        let key = self.buffer.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + 2)?;
        Some(FrameKind(i16::from_be_bytes([key[0], key[1]])))
    }

    /// Only produce requests may be long: others become many small things when they are read.
    fn check_kind(&self, length: usize) -> Result<(), FrameError> {
        let budget = self.charge.budget.max;
        let bounded = self.kind().and_then(|it| Some((it.0, it.bytes_max(budget)?)));
        match bounded {
            Some((key, max)) if length > max => Err(FrameError::TooLong { key, length, max }),
            _ => Ok(()),
        }
    }

    /// The length of the frame in front, if all of it is there.
    fn whole(&self) -> Result<Option<usize>, FrameError> {
        let length = self.length()?;
        Ok(length.filter(|it| self.buffer.len() >= FRAME_HEAD_BYTES + it))
    }

    /// Charges the frame in front. False: the budget has no room for it yet.
    fn has_room(&mut self, length: usize) -> Result<bool, FrameError> {
        let bytes = match self.becomes {
            Some(bytes) => bytes,
            None => *self.becomes.insert(self.reading_bytes(length)?),
        };
        Ok(bytes <= self.charge.bytes || self.charge.set_in_turn(bytes))
    }

    /// The memory that the frame in front takes once it is read.
    fn reading_bytes(&self, length: usize) -> Result<usize, FrameError> {
        let Some(kind) = self.kind() else { return Ok(length) };
        let max = self.charge.budget.max;
        let content = &self.buffer[FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + length];
        kind.reading_bytes(content, max).map_err(|error| match error {
            Unread::Nothing => FrameError::Unreadable(length),
            Unread::TooMuch(it) => {
                let (topics, partitions, tags) = (it.topics, it.partitions, it.tags);
                FrameError::TooMany { topics, partitions, tags, max }
            }
        })
    }

    fn take(&mut self, length: usize) -> (Bytes, MemoryCharge) {
        let whole = FRAME_HEAD_BYTES + length;
        // Whoever has the whole buffer has its memory alone.
        let frame = if self.buffer.len() == whole {
            std::mem::take(&mut self.buffer)
        } else {
            self.buffer.split_to(whole)
        };
        let mut frame = frame.freeze();
        frame.advance(FRAME_HEAD_BYTES);
        let mut charge = MemoryCharge::new(&self.charge.budget);
        std::mem::swap(&mut charge, &mut self.charge);
        self.becomes = None;
        self.began = Some(Instant::now());
        self.trusted_bytes = (whole * 2).clamp(self.trusted_bytes, TRUSTED_BYTES_MAX);
        (frame, charge)
    }

    /// True if the next frame can be read without waiting.
    pub(crate) fn is_here(&mut self) -> Result<bool, FrameError> {
        loop {
            if let Some(length) = self.whole()? {
                return self.has_room(length);
            }
            let want = self.want()?;
            if !self.charge.set(self.buffer.len() + want) || !self.read(want)? {
                return Ok(false);
            }
        }
    }

    async fn fill(&mut self) -> Result<(), FrameError> {
        self.socket.readable().await?;
        let want = self.want()?;
        while !self.charge.set(self.buffer.len() + want) {
            // Others must be done first; whoever waits too long is closed by its deadline.
            tokio::time::sleep(ROOM_WAIT).await;
        }
        self.read(want)?;
        Ok(())
    }

    /// The count of bytes to read next.
    fn want(&self) -> Result<usize, FrameError> {
        let have = self.buffer.len();
        Ok(match self.length()? {
            Some(length) => {
                let most = have.max(self.trusted_bytes.saturating_sub(have)).max(FIRST_BYTES);
                (FRAME_HEAD_BYTES + length).saturating_sub(have).min(most)
            }
            None => FIRST_BYTES,
        })
    }

    /// Reads up to the given count of bytes. False: there are none now.
    fn read(&mut self, want: usize) -> Result<bool, FrameError> {
        let have = self.buffer.len();
        if have == 0 {
            self.began = Some(Instant::now());
        }
        if self.buffer.capacity() - have < want {
            let mut longer = BytesMut::with_capacity(have + want);
            longer.extend_from_slice(&self.buffer);
            self.buffer = longer;
        }
        match self.socket.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(FrameError::Closed),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if have == 0 {
                    self.buffer = BytesMut::new();
                    self.charge.set(0);
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The time limit of a transfer: `transfer_ms`, and more for each 64 KiB at the speed of a slow
/// line.
pub(crate) fn patience(transfer_ms: u64, bytes: usize) -> Duration {
    Duration::from_millis(transfer_ms + (bytes as u64).saturating_mul(1_000) / SLOWEST_BYTES as u64)
}

/// The protocol that these first bytes belong to, for the message to its user.
fn looks_like(head: [u8; 4]) -> &'static str {
    match &head {
        [0x16, 3, ..] => ": this is a TLS handshake, and the port is a plain one",
        b"GET " | b"POST" | b"PUT " | b"HEAD" => {
            ": this is HTTP, and the port speaks the Kafka protocol"
        }
        _ => "",
    }
}
