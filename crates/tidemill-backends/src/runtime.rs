//! What asynchronous libraries run on: the thread that asks, and none besides.

use std::{future::Future, io, time::Duration};

/// Runs one thing at a time to its end, for each thread that asks. Connections that were kept from
/// the last time are looked at when something is asked, and not between.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

/// There was no answer in time.
pub(crate) struct Late;

impl Runtime {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn run<T>(&self, what: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is there until it is dropped").block_on(what)
    }
}

/// What comes, if it comes in time.
pub(crate) async fn within<T>(timeout: Duration, what: impl Future<Output = T>) -> Result<T, Late> {
    tokio::time::timeout(timeout, what).await.map_err(|_| Late)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Does not wait, and so may be done in a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}
