//! One connection to a node: requests go out one behind the other, answers come back to their
//! callers.
//!
//! ```text
//! send ─▶ queue ─▶ writer thread ─▶ socket ─▶ node
//!   └▶ pending: id, deadline, `then` ◀─ reader thread ◀─ socket ◀┘
//! ```
//!
//! - [`Connection::open`] returns at once; the writer thread connects and asks for the versions.
//! - [`Connection::send`] does not wait for the other side: long requests are written by the writer
//!   thread. `then` is called once, with the answer or an error, from the reader thread or from the
//!   thread that ended the connection, with no lock held.
//! - No timer runs here: waiting callers call [`Connection::expire`]. A connection with an overdue
//!   request is ended, because the requests behind it would be late too.
//!
//! Encryption and authentication will stand in `handshake.rs`, between connecting and the first
//! request.

use crate::{
    buffers::Buffers,
    error::CallError,
    options::{ClientOptions, micros},
};
use bytes::Bytes;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tidemill_env::{
    World,
    lock::{Condvar, Mutex},
};
use tidemill_wire::kafka::{ApiKey, KafkaString, Message, MessageError, Request, request_frame};

mod connection_core;
mod handshake;
mod reader;
mod versions;
mod writer;

pub(crate) use connection_core::{AnswerCallback, ChangeCallback, Pieces, RequestOptions};
use connection_core::{ConnectionCore, ConnectionPhase};

#[cfg(test)]
mod tests;

/// A connection. Clones are the same one; it ends when it is closed, or with its last clone.
#[derive(Clone)]
pub(crate) struct Connection {
    handle: Arc<Handle>,
}

/// Ends the connection with its last handle; its threads hold only `ConnectionCore`.
struct Handle(Arc<ConnectionCore>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end(CallError::Closed);
    }
}

impl Connection {
    /// Begins to connect; `changed` is called when that has come to an end, and when the connection
    /// has.
    pub(crate) fn open(
        world: &World,
        address: &str,
        options: &ClientOptions,
        buffers: &Arc<Buffers>,
        changed: ChangeCallback,
    ) -> Self {
        let shared = Arc::new(ConnectionCore::new(world, address, options, buffers, changed));
        let thread = Arc::clone(&shared);
        let body = Box::new(move || handshake::run(&thread));
        drop(world.spawn.spawn("client-write", body));
        Self { handle: Arc::new(Handle(shared)) }
    }

    fn shared(&self) -> &ConnectionCore {
        &self.handle.0
    }

    /// The other end.
    pub(crate) fn address(&self) -> &str {
        &self.shared().address
    }

    /// True if requests can be sent.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.shared().lock().phase, ConnectionPhase::Ready(_))
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<CallError> {
        match &self.shared().lock().phase {
            ConnectionPhase::Ended(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// The version in which a request is written to this node.
    pub(crate) fn version(&self, api: ApiKey) -> Result<i16, CallError> {
        match &self.shared().lock().phase {
            ConnectionPhase::Ready(versions) => versions.pick(api, self.address()),
            ConnectionPhase::Connecting => {
                Err(CallError::BadRequest("not connected yet".to_owned()))
            }
            ConnectionPhase::Ended(error) => Err(error.clone()),
        }
    }

    /// Sends a request; `then` gets the answer's content, or the error that kept it from being
    /// sent.
    pub(crate) fn send<R: Request>(
        &self,
        request: &R,
        asking: &RequestOptions,
        then: AnswerCallback,
    ) {
        let write = |version, id, client: &KafkaString| {
            let frame = request_frame(request, version, id, client)?;
            Ok(vec![frame.freeze()])
        };
        self.shared().send(R::KEY, asking, write, then);
    }

    /// As [`Self::send`], for a request that `write` gives as a whole frame in pieces.
    pub(crate) fn send_pieces(
        &self,
        api: ApiKey,
        asking: &RequestOptions,
        write: impl FnOnce(i16, i32, &KafkaString) -> Result<Pieces, MessageError>,
        then: AnswerCallback,
    ) {
        self.shared().send(api, asking, write, then);
    }

    /// Sends a request and waits for the answer, as long as [`ClientOptions::request_timeout`] and
    /// `wait`, which is the time that the node was asked to take.
    pub(crate) fn call<R: Request>(
        &self,
        request: &R,
        wait: Duration,
    ) -> Result<R::Response, CallError> {
        self.call_in(request, self.version(R::KEY)?, wait)
    }

    /// As [`Self::call`], in this version.
    pub(crate) fn call_in<R: Request>(
        &self,
        request: &R,
        version: i16,
        wait: Duration,
    ) -> Result<R::Response, CallError> {
        let shared = self.shared();
        let now_us = shared.world.clock.monotonic_micros();
        let patience_us = micros(shared.options.request_timeout.saturating_add(wait));
        let deadline_us = now_us.saturating_add(patience_us);
        let slot = Arc::new((Mutex::new(None), Condvar::new()));
        let filled = Arc::clone(&slot);
        let then = Box::new(move |answer| {
            *filled.0.lock() = Some(answer);
            filled.1.notify_one();
        });
        self.send(request, &RequestOptions::answered(version, deadline_us), then);
        let mut answer = slot.0.lock();
        loop {
            if let Some(answer) = answer.take() {
                return self.read_answer::<R>(version, answer?);
            }
            let now_us = shared.world.clock.monotonic_micros();
            if now_us >= deadline_us {
                drop(answer);
                self.expire(now_us);
                answer = slot.0.lock();
                continue;
            }
            let wait = Duration::from_micros(deadline_us - now_us);
            answer = slot.1.wait_timeout(answer, wait).0;
        }
    }

    /// Reads an answer's content.
    pub(crate) fn read_answer<R: Request>(
        &self,
        version: i16,
        mut content: Bytes,
    ) -> Result<R::Response, CallError> {
        R::Response::read(&mut content, version).map_err(|error| CallError::BadAnswer {
            address: self.address().to_owned(),
            reason: format!("{:?}: {error}", R::KEY),
        })
    }

    /// Refuses an answer that does not mention every item of its request: a missing one may not be
    /// done.
    pub(crate) fn check_spoken_of<T: Ord>(
        &self,
        api: ApiKey,
        sent: impl IntoIterator<Item = T>,
        spoken_of: impl Iterator<Item = T>,
    ) -> Result<(), CallError> {
        let spoken_of: BTreeSet<T> = spoken_of.collect();
        match sent.into_iter().find(|it| !spoken_of.contains(it)) {
            None => Ok(()),
            Some(_) => Err(CallError::BadAnswer {
                address: self.address().to_owned(),
                reason: format!("{api:?}: it leaves out what was sent"),
            }),
        }
    }

    /// Ends the connection if an answer is overdue; else says when the next one will be.
    pub(crate) fn expire(&self, now_us: u64) -> Option<u64> {
        self.shared().expire(now_us)
    }

    /// Ends the connection; requests under way get the error.
    pub(crate) fn end(&self, error: CallError) {
        self.shared().end(error);
    }
}
