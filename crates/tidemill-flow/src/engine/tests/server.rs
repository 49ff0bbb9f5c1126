//! A server of checkpoints that refuses, waits or goes away as a test wants.

use super::*;
use tidemill_state::{Backend, Batch, StateError};

/// Asks before each commit and each read; what that refuses does not reach the backend.
struct Before<C, R> {
    inner: Arc<dyn Backend>,
    commit: C,
    read: R,
}

impl<C, R> Backend for Before<C, R>
where
    C: Fn(&Batch) -> Result<(), StateError> + Send + Sync,
    R: Fn() -> Result<(), StateError> + Send + Sync,
{
    fn commit(&self, batch: &mut Batch) -> Result<(), StateError> {
        (self.commit)(batch)?;
        self.inner.commit(batch)
    }
    fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, StateError> {
        (self.read)()?;
        self.inner.get(key)
    }
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StateError> {
        self.inner.keys(prefix)
    }
}

/// A backend of which each commit is asked for first.
pub(super) fn before_commits(
    inner: &Arc<dyn Backend>,
    commit: impl Fn(&Batch) -> Result<(), StateError> + Send + Sync + 'static,
) -> Arc<dyn Backend> {
    Arc::new(Before { inner: Arc::clone(inner), commit, read: || Ok(()) })
}

pub(super) fn unreachable(why: &str) -> StateError {
    StateError::Unreachable { place: "there".to_owned(), why: why.to_owned() }
}

/// How many reads and commits there are until a server goes away.
pub(super) struct Left {
    pub(super) reads: AtomicU64,
    commits: AtomicU64,
}

/// A server that goes away after so many reads, or commits.
pub(super) fn that_goes_away(
    inner: &Arc<dyn Backend>,
    (reads, commits): (u64, u64),
) -> (Arc<dyn Backend>, Arc<Left>) {
    let left = Arc::new(Left { reads: AtomicU64::new(reads), commits: AtomicU64::new(commits) });
    let may = |left: &AtomicU64| {
        let went = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
        went.map(drop).map_err(|_| unreachable("connection reset"))
    };
    let (of_reads, of_commits) = (Arc::clone(&left), Arc::clone(&left));
    let commit = move |_: &Batch| may(&of_commits.commits);
    let read = move || may(&of_reads.reads);
    (Arc::new(Before { inner: Arc::clone(inner), commit, read }), left)
}
