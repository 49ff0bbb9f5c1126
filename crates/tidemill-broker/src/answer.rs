//! An answer on its way to a client: bytes of ours, and chunks that are sent as the log has them.

use crate::frame::Charge;
use bytes::{Bytes, BytesMut};
use std::{future::Future, io, io::IoSlice, pin::Pin};
use tidemill_wire::kafka::{Message, MessageError, RequestHead, end_frame};
use tokio::{io::AsyncWriteExt, net::tcp::OwnedWriteHalf};

/// Slices that one write to a socket takes.
const SLICES_MAX: usize = 64;
/// Answers are not held back for others once they are so long together.
const TOGETHER_BYTES_MAX: usize = 32 << 10;

/// A frame, in pieces.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Bytes>,
    /// What its memory is charged with, until it is sent.
    pub(crate) charge: Option<Charge>,
}

/// What a request came to.
pub(crate) enum Begun {
    /// Here is the answer.
    Now(Answer),
    /// It comes later; the connection may begin the next request. None: there is no answer.
    Later(Pin<Box<dyn Future<Output = Result<Option<Answer>, MessageError>> + Send>>),
    /// No answer is wanted.
    Silent,
    /// No answer is wanted, but the client must notice that something went wrong.
    HangUp,
}

impl Answer {
    /// A response without chunks.
    pub(crate) fn of<M: Message>(head: &RequestHead, response: &M) -> Result<Self, MessageError> {
        let mut frame = head.begin_response(256);
        response.write(&mut frame, head.version)?;
        Ok(Self::whole(frame))
    }

    /// A frame but for its length.
    pub(crate) fn whole(mut frame: BytesMut) -> Self {
        end_frame(&mut frame, 0).expect("responses without chunks are short");
        Self::of_parts(vec![frame.freeze()])
    }

    /// A whole frame.
    pub(crate) fn of_parts(parts: Vec<Bytes>) -> Self {
        Self { parts, charge: None }
    }
}

/// Answers that leave together, in their order.
#[derive(Debug)]
pub(crate) struct Outbox {
    socket: OwnedWriteHalf,
    parts: Vec<Bytes>,
    /// Held until they are sent.
    charges: Vec<Charge>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, parts: Vec::new(), charges: Vec::new(), bytes: 0 }
    }

    pub(crate) fn put(&mut self, answer: Answer) {
        self.bytes += answer.parts.iter().map(Bytes::len).sum::<usize>();
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
        let mut parts = self.parts.as_slice();
        let mut done = 0;
        while !parts.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = parts.len().min(SLICES_MAX);
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
            }
            slices[0] = IoSlice::new(&parts[0][done..]);
            let written = self.socket.write_vectored(&slices[..count]).await?;
            if written == 0 && slices[..count].iter().any(|it| !it.is_empty()) {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += written;
            while parts.first().is_some_and(|it| done >= it.len()) {
                done -= parts[0].len();
                parts = &parts[1..];
            }
        }
        self.parts.clear();
        self.charges.clear();
        self.bytes = 0;
        Ok(())
    }
}
