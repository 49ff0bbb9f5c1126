//! Requests without a socket, for tests and fuzz targets: a frame's content in, an answer's out.
//!
//! The work of a connection on a request, but for the socket: the same reading of the head, the
//! same dispatch, the same waiting.

use crate::{
    Broker,
    answer::{Begun, ResponseFrame},
    api,
    connection::Caller,
    frame::MemoryCharge,
    handler::fetch::ConnectionFetches,
};
use bytes::{Bytes, BytesMut};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tidemill_log::OutgoingChunk;
use tidemill_wire::kafka::RequestHead;

/// A client that has no socket.
pub struct DirectClient {
    broker: Arc<Broker>,
    caller: Caller,
    fetching: ConnectionFetches,
}

impl DirectClient {
    /// A client of this broker. It needs no server.
    #[must_use]
    pub fn new(broker: &Arc<Broker>) -> Self {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let caller = Caller { peer, id: 0 };
        Self { broker: Arc::clone(broker), caller, fetching: ConnectionFetches::default() }
    }

    /// The whole answer to a frame's content, with its length in front. None: no answer is wanted,
    /// or the connection would be closed by a request that wants none.
    ///
    /// # Errors
    /// The bytes are no request that is answered, for this reason: a connection would be closed.
    pub async fn ask(&mut self, mut frame: Bytes) -> Result<Option<Bytes>, String> {
        let head = RequestHead::read(&mut frame).map_err(|error| error.to_string())?;
        let (broker, fetching) = (&self.broker, &mut self.fetching);
        let charge = Mutex::new(MemoryCharge::new(&broker.budget));
        let begun = api::begin(broker, &self.caller, fetching, &head, &charge, frame).await;
        let answer = match begun.map_err(|why| why.to_string())? {
            Begun::Now(answer) => Some(answer),
            Begun::Later(answer) => answer.await.map_err(|error| error.to_string())?,
            Begun::Silent | Begun::HangUp => None,
        };
        Ok(answer.map(|it| whole(&it)))
    }
}

fn whole(answer: &ResponseFrame) -> Bytes {
    let mut all = BytesMut::new();
    for part in &answer.parts {
        match part {
            OutgoingChunk::Memory(bytes) => all.extend_from_slice(bytes),
            // A file that is gone leaves an answer that nobody can read.
            OutgoingChunk::File(chunk) => all.extend_from_slice(&chunk.read().unwrap_or_default()),
        }
    }
    all.freeze()
}
