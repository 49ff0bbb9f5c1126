//! The requests of one connection that are being handled, with a limit.

use tidemill_env::lock::{Condvar, Mutex};

/// Room for the requests of one connection. A request waits at the door, and the ones behind it stay
/// in the socket: the sender's own queue fills.
#[derive(Debug)]
pub(crate) struct InFlight {
    state: Mutex<InFlightState>,
    left: Condvar,
    requests_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct InFlightState {
    requests: usize,
    bytes: usize,
    is_closed: bool,
}

impl InFlight {
    pub(crate) fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self { state: Mutex::default(), left: Condvar::new(), requests_max, bytes_max }
    }

    /// Lets a request in once there is room; one is always let in. False once it is closed.
    pub(crate) fn enter(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return false;
            }
            let has_room =
                state.requests < self.requests_max && state.bytes + bytes <= self.bytes_max;
            if has_room || state.requests == 0 {
                state.requests += 1;
                state.bytes += bytes;
                return true;
            }
            state = self.left.wait(state);
        }
    }

    /// A request has been answered.
    pub(crate) fn leave(&self, bytes: usize) {
        let mut state = self.state.lock();
        debug_assert!(state.requests > 0 && state.bytes >= bytes, "each request leaves once");
        state.requests -= 1;
        state.bytes -= bytes;
        self.left.notify_all();
    }

    /// Lets nothing in any more.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.left.notify_all();
    }
}
