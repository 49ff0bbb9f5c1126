//! Channels: those of `std`, which a simulated thread tries, and waits in the scheduler while they
//! are empty.

use crate::sim::schedule::{here, key_of};
use std::{
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    time::Duration,
};

pub use mpsc::{RecvError, RecvTimeoutError, SendError};

/// As [`std::sync::mpsc::Sender`].
#[derive(Debug)]
pub struct Sender<T> {
    inner: Option<mpsc::Sender<T>>,
    /// Its address stands for the channel.
    channel: Arc<u8>,
}

/// As [`std::sync::mpsc::Receiver`].
#[derive(Debug)]
pub struct Receiver<T> {
    inner: mpsc::Receiver<T>,
    channel: Arc<u8>,
}

/// As [`std::sync::mpsc::channel`].
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let channel = Arc::new(0);
    let sender = Sender { inner: Some(sender), channel: Arc::clone(&channel) };
    (sender, Receiver { inner: receiver, channel })
}

impl<T> Sender<T> {
    /// As [`std::sync::mpsc::Sender::send`].
    ///
    /// # Errors
    /// Nobody receives any more.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let sent = self.inner.as_ref().expect("it is there until it is dropped").send(value);
        if let Some(here) = here() {
            here.wake_all(key_of(&*self.channel));
            here.pass("send");
        }
        sent
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        if let Some(here) = here() {
            here.wake_all(key_of(&*self.channel));
        }
    }
}

impl<T> Receiver<T> {
    /// As [`std::sync::mpsc::Receiver::recv`].
    ///
    /// # Errors
    /// Nobody sends any more.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let Some(here) = here() else { return self.inner.recv() };
        here.pass("receive");
        loop {
            match self.inner.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => here.wait_on(key_of(&*self.channel), "receive"),
            }
        }
    }

    /// As [`std::sync::mpsc::Receiver::recv_timeout`].
    ///
    /// # Errors
    /// Nobody sends any more, or the time has passed.
    #[track_caller]
    pub fn recv_timeout(&self, span: Duration) -> Result<T, RecvTimeoutError> {
        let Some(here) = here() else { return self.inner.recv_timeout(span) };
        here.pass("receive");
        let mut is_late = false;
        loop {
            match self.inner.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if is_late => return Err(RecvTimeoutError::Timeout),
                Err(TryRecvError::Empty) => {
                    is_late = !here.wait_for_signal(key_of(&*self.channel), Some(span));
                }
            }
        }
    }
}
