//! The frames that wait to be written to one connection, with a limit.

use std::{collections::VecDeque, time::Duration};
use tidemill_env::lock::{Condvar, Mutex};
use tidemill_wire::cluster::ClusterFrameHead;

/// Most frames that a writer takes at once.
const BATCH_MAX: usize = 64;

/// A frame before it is sealed.
pub(crate) type OpenFrame = (ClusterFrameHead, Vec<u8>);

/// The content of an outbox, as its writer takes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutboxContent {
    /// The next frames.
    Frames(Vec<OpenFrame>),
    /// Nothing came for the given time.
    Silence,
    /// Nothing comes any more.
    Closed,
}

/// Frames in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    filled: Condvar,
    emptied: Condvar,
    frames_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct OutboxState {
    frames: VecDeque<OpenFrame>,
    bytes: usize,
    is_closed: bool,
}

impl Outbox {
    pub(crate) fn new(frames_max: usize, bytes_max: usize) -> Self {
        let state = Mutex::default();
        Self { state, filled: Condvar::new(), emptied: Condvar::new(), frames_max, bytes_max }
    }

    /// Adds a frame. Waits for room; once it is closed the frame is dropped.
    pub(crate) fn push(&self, head: ClusterFrameHead, body: Vec<u8>) {
        let mut state = self.state.lock();
        let is_full = |it: &OutboxState| {
            let is_over = it.bytes + body.len() > self.bytes_max && !it.frames.is_empty();
            it.frames.len() >= self.frames_max || is_over
        };
        while is_full(&state) && !state.is_closed {
            state = self.emptied.wait(state);
        }
        if !state.is_closed {
            state.bytes += body.len();
            state.frames.push_back((head, body));
            self.filled.notify_one();
        }
    }

    /// Takes the next frames, or waits for them for a time. After the end the rest still comes.
    pub(crate) fn take(&self, wait: Duration) -> OutboxContent {
        let mut state = self.state.lock();
        let mut is_late = false;
        loop {
            if !state.frames.is_empty() {
                let count = state.frames.len().min(BATCH_MAX);
                let frames: Vec<_> = state.frames.drain(..count).collect();
                state.bytes -= frames.iter().map(|(_, body)| body.len()).sum::<usize>();
                self.emptied.notify_all();
                return OutboxContent::Frames(frames);
            }
            if state.is_closed {
                return OutboxContent::Closed;
            }
            if is_late {
                return OutboxContent::Silence;
            }
            (state, is_late) = self.filled.wait_timeout(state, wait);
        }
    }

    /// Takes no more frames, and lets all go on that wait.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}
