//! The reader thread of a connection: it hands each answer to the request that waits for it.
//!
//! Invariants: memory follows the bytes that have arrived, not a claimed length; an answer that is
//! too long, or that no request waits for, ends the connection.

use super::connection_core::ConnectionCore;
use crate::error::CallError;
use bytes::Bytes;
use std::{
    io::{self, BufReader, Read},
    sync::Arc,
};
use tidemill_wire::kafka::read_response_head;

/// Bytes that small answers are read through.
const BUFFER_BYTES: usize = 64 << 10;
/// The memory that is taken for an answer before the first of it has come.
const FIRST_BYTES: usize = 256 << 10;
/// The body of the reader thread.
pub(super) fn run(shared: &Arc<ConnectionCore>, reader: Box<dyn Read + Send>) {
    // Also when what is done with an answer panics, nobody waits for ever.
    let _ending = EndOnDrop(shared);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    loop {
        if let Err(error) = read_one(shared, &mut reader) {
            return shared.end(error);
        }
    }
}

struct EndOnDrop<'a>(&'a ConnectionCore);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end(self.0.lost("an answer could not be processed"));
    }
}

fn read_one(shared: &ConnectionCore, reader: &mut impl Read) -> Result<(), CallError> {
    let ended = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => shared.closed(),
        _ => shared.lost(error),
    };
    let mut head = [0; 8];
    reader.read_exact(&mut head).map_err(ended)?;
    let [l0, l1, l2, l3, correlation_id @ ..] = head;
    let length = i32::from_be_bytes([l0, l1, l2, l3]);
    let id = i32::from_be_bytes(correlation_id);
    let rest = usize::try_from(length).ok().and_then(|it| it.checked_sub(4));
    let rest = rest.ok_or_else(|| shared.bad_answer(format!("a frame of {length} bytes")))?;
    let max = shared.answer_bytes_max(id).ok_or_else(|| {
        shared.bad_answer(format!("a frame of {length} bytes that nobody asked for"))
    })?;
    if rest > max {
        return Err(shared.bad_answer(format!("a frame of {length} bytes, {max} are read")));
    }
    let mut content = memory_for(shared, rest);
    content.extend_from_slice(&correlation_id);
    let read = reader.take(rest as u64).read_to_end(&mut content).map_err(ended)?;
    if read < rest {
        return Err(shared.lost("the other side closed it within an answer"));
    }
    let Some(pending) = shared.take_pending(id) else {
        return Ok(()); // It was given up while the answer came; the connection has ended.
    };
    let mut content = Bytes::from(content);
    let head = read_response_head(&mut content, pending.api, pending.version);
    let outcome = match head {
        Ok(_) => Ok(content),
        Err(error) => Err(shared.bad_answer(format!("{:?}: {error}", pending.api))),
    };
    let bad = outcome.as_ref().err().cloned();
    (pending.then)(outcome);
    bad.map_or(Ok(()), Err)
}

/// Memory for an answer, without trust in its length: a buffer that large ones have filled before,
/// or a little that grows as bytes come.
fn memory_for(shared: &ConnectionCore, rest: usize) -> Vec<u8> {
    if rest <= FIRST_BYTES {
        return Vec::with_capacity(rest + 4);
    }
    shared.buffers.take().unwrap_or_else(|| Vec::with_capacity(FIRST_BYTES))
}
