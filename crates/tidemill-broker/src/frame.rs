//! Frames from a socket: the length, then so many bytes.
//!
//! Memory follows what has arrived, not what a length claims: the buffer doubles as it fills, and
//! each doubling is charged to a budget that all connections share. An idle connection has no
//! buffer at all.

use crate::Limits;
use bytes::{Buf, Bytes, BytesMut};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tidemill_wire::kafka::FRAME_HEAD_BYTES;
use tokio::{
    net::tcp::OwnedReadHalf,
    time::{Instant, timeout, timeout_at},
};

/// The first buffer of a frame, and the least that is read at once.
const FIRST_BYTES: usize = 16 << 10;

/// Bytes that all connections of a broker may have buffered together.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    max: usize,
}

/// Bytes of the budget that somebody has; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    /// Bytes that are charged now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Charge {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Charges so many bytes in place of those before. False: there is no room, nothing changed.
    fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let before = self.budget.used.fetch_add(more, Ordering::Relaxed);
            if before + more > self.budget.max {
                self.budget.used.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Charge {
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
        /// What it said.
        said: i32,
        /// The largest.
        max: usize,
        /// What the bytes look like, if they look like something.
        hint: &'static str,
    },
    /// Nothing came.
    #[error("no request for {0} ms")]
    Idle(u64),
    /// A frame began and did not end.
    #[error("a request was not whole {0} ms after its first byte")]
    Slow(u64),
    /// The socket failed.
    #[error("{0}")]
    Socket(#[from] io::Error),
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    charge: Charge,
    /// When the first byte of the frame in front came.
    began: Option<Instant>,
    max: usize,
    idle_ms: u64,
    transfer_ms: u64,
}

impl Frames {
    pub(crate) fn new(socket: OwnedReadHalf, budget: &Arc<Budget>, limits: &Limits) -> Self {
        Self {
            socket,
            buffer: BytesMut::new(),
            charge: Charge::new(budget),
            began: None,
            max: usize::try_from(limits.request_bytes.0).unwrap_or(usize::MAX),
            idle_ms: limits.idle_ms,
            transfer_ms: limits.transfer_ms,
        }
    }

    /// The next frame's content, and what it is charged with. Can be dropped and called again:
    /// nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<(Bytes, Charge), FrameError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            if self.buffer.is_empty() {
                let wait = Duration::from_millis(self.idle_ms);
                let filled = timeout(wait, self.fill()).await;
                filled.map_err(|_| FrameError::Idle(self.idle_ms))??;
                self.began = Some(Instant::now());
            } else {
                let end = self.began.unwrap_or_else(Instant::now)
                    + Duration::from_millis(self.transfer_ms);
                let filled = timeout_at(end, self.fill()).await;
                filled.map_err(|_| FrameError::Slow(self.transfer_ms))??;
            }
        }
    }

    /// The length of the frame in front, if it is there.
    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
        let said = i32::from_be_bytes(*head);
        match usize::try_from(said) {
            Ok(length) if (8..=self.max).contains(&length) => Ok(Some(length)),
            _ => Err(FrameError::Length { said, max: self.max, hint: looks_like(*head) }),
        }
    }

    fn take(&mut self) -> Result<Option<(Bytes, Charge)>, FrameError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let whole = FRAME_HEAD_BYTES + length;
        if self.buffer.len() < whole {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(whole).freeze();
        frame.advance(FRAME_HEAD_BYTES);
        let mut charge = Charge::new(&self.charge.budget);
        std::mem::swap(&mut charge, &mut self.charge);
        self.began = Some(Instant::now());
        if self.buffer.is_empty() {
            // The frame keeps this memory; an idle connection keeps none.
            self.buffer = BytesMut::new();
        }
        Ok(Some((frame, charge)))
    }

    async fn fill(&mut self) -> Result<(), FrameError> {
        self.socket.readable().await?;
        let have = self.buffer.len();
        let want = match self.length()? {
            Some(length) => (FRAME_HEAD_BYTES + length - have).min(have.max(FIRST_BYTES)),
            None => FIRST_BYTES,
        };
        while !self.charge.set(have + want) {
            // Others must be done first; whoever waits too long is closed by its deadline.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.buffer.reserve(want);
        match self.socket.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(FrameError::Closed),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if have == 0 {
                    self.buffer = BytesMut::new();
                    self.charge.set(0);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What the first bytes of another protocol look like.
fn looks_like(head: [u8; 4]) -> &'static str {
    match &head {
        [0x16, 3, ..] => ": this is a TLS handshake, and the port is a plain one",
        b"GET " | b"POST" | b"PUT " | b"HEAD" => {
            ": this is HTTP, and the port speaks the Kafka protocol"
        }
        _ => "",
    }
}
