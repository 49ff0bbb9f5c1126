//! An answer: bytes of ours, and chunks that are sent as the log has them.

use crate::frame::MemoryCharge;
use bytes::BytesMut;
use std::{future::Future, pin::Pin};
use tidemill_log::OutgoingChunk;
use tidemill_wire::kafka::{Message, MessageError, RequestHead, end_frame};

/// A frame, in pieces.
#[derive(Debug, Default)]
pub(crate) struct ResponseFrame {
    pub(crate) parts: Vec<OutgoingChunk>,
    /// The charge for its memory, until it is sent.
    pub(crate) charge: Option<MemoryCharge>,
}

/// The outcome of beginning a request.
pub(crate) enum Begun {
    /// Here is the answer.
    Now(ResponseFrame),
    /// It comes later; the connection may begin the next request. None: there is no answer.
    Later(Pin<Box<dyn Future<Output = Result<Option<ResponseFrame>, MessageError>> + Send>>),
    /// No answer is wanted.
    Silent,
    /// No answer is wanted, but the client must notice that something went wrong.
    HangUp,
}

impl ResponseFrame {
    /// A response without chunks.
    pub(crate) fn of<M: Message>(head: &RequestHead, response: &M) -> Result<Self, MessageError> {
        let mut frame = head.begin_response(256);
        response.write(&mut frame, head.version)?;
        Ok(Self::whole(frame))
    }

    /// A frame but for its length.
    pub(crate) fn whole(mut frame: BytesMut) -> Self {
        end_frame(&mut frame, 0).expect("responses without chunks are short");
        Self::of_parts(vec![OutgoingChunk::Memory(frame.freeze())])
    }

    /// A whole frame.
    pub(crate) fn of_parts(parts: Vec<OutgoingChunk>) -> Self {
        Self { parts, charge: None }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(OutgoingChunk::len).sum()
    }
}
