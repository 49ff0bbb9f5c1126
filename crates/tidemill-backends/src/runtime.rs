//! The runtime of asynchronous libraries: the calling thread, and no other.

use std::{future::Future, io, time::Duration};

/// Runs one future at a time to its end. Idle connections are not polled between calls.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

/// The answer did not come in time.
pub(crate) struct TimedOut;

impl Runtime {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn run<T>(&self, request: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is there until it is dropped").block_on(request)
    }
}

/// Waits for a future, up to a time limit.
pub(crate) async fn within<T>(
    timeout: Duration,
    request: impl Future<Output = T>,
) -> Result<T, TimedOut> {
    tokio::time::timeout(timeout, request).await.map_err(|_| TimedOut)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Does not wait, and so may be done in a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}
