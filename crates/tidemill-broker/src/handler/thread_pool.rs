//! Work that waits for the disk, away from the threads that serve sockets.

use tokio::task::spawn_blocking;

/// Runs it on a thread of its own and waits for it. It runs to its end even if nobody waits any
/// more: a change that has begun is not left half done.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends: whoever waits here ends with it.
            Err(_) => std::future::pending().await,
        },
    }
}
