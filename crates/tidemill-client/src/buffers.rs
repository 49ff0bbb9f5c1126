//! Reusable buffers for large messages: their memory is paged in and has grown to size.
//!
//! Invariant: at most [`BUFFERS_MAX`] free buffers, and none of them is part of a message in use.

use bytes::Bytes;
use tidemill_env::lock::Mutex;

/// Buffers that are kept.
const BUFFERS_MAX: usize = 16;
/// Smaller ones are not worth it.
const BYTES_MIN: usize = 32 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty buffer that had much in it before, if there is one.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }

    /// Gives memory back, if no message uses a part of it.
    pub(crate) fn give_back(&self, mut content: Bytes) {
        // What is left of the content would be copied to the front.
        content.truncate(1);
        if !content.is_unique() {
            return;
        }
        let mut memory: Vec<u8> = content.into();
        memory.clear();
        let mut kept = self.0.lock();
        if memory.capacity() >= BYTES_MIN && kept.len() < BUFFERS_MAX {
            kept.push(memory);
        }
    }
}

#[cfg(test)]
mod tests;
