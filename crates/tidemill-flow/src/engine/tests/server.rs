//! A server of checkpoints that refuses, waits or goes away as a test wants.

use super::*;
use tidemill_checkpoints::{Backend, BackendError, WriteBatch};
use tidemill_env::sync::Condvar;

/// Asks before each commit and each read; what that refuses does not reach the backend.
struct Before<C, R> {
    inner: Arc<dyn Backend>,
    commit: C,
    read: R,
}

impl<C, R> Backend for Before<C, R>
where
    C: Fn(&WriteBatch) -> Result<(), BackendError> + Send + Sync,
    R: Fn() -> Result<(), BackendError> + Send + Sync,
{
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        (self.commit)(batch)?;
        self.inner.commit(batch)
    }
    fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, BackendError> {
        (self.read)()?;
        self.inner.get(key)
    }
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        self.inner.keys(prefix)
    }
}

/// A backend of which each commit is asked for first.
pub(super) fn before_commits(
    inner: &Arc<dyn Backend>,
    commit: impl Fn(&WriteBatch) -> Result<(), BackendError> + Send + Sync + 'static,
) -> Arc<dyn Backend> {
    Arc::new(Before { inner: Arc::clone(inner), commit, read: || Ok(()) })
}

/// What others wait at while it is closed.
pub(super) struct Gate {
    is_open: Mutex<bool>,
    wakeup: Condvar,
}

impl Gate {
    pub(super) fn new(is_open: bool) -> Arc<Self> {
        Arc::new(Self { is_open: Mutex::new(is_open), wakeup: Condvar::new() })
    }

    pub(super) fn set(&self, is_open: bool) {
        *self.is_open.lock().expect("held briefly") = is_open;
        self.wakeup.notify_all();
    }

    /// Waits until it is open.
    pub(super) fn pass(&self) {
        let mut is_open = self.is_open.lock().expect("held briefly");
        while !*is_open {
            is_open = self.wakeup.wait(is_open).expect("held briefly");
        }
    }

    /// The backend behind it: its commits wait.
    pub(super) fn before(self: &Arc<Self>, inner: &Arc<dyn Backend>) -> Arc<dyn Backend> {
        let gate = Arc::clone(self);
        before_commits(inner, move |_| {
            gate.pass();
            Ok(())
        })
    }
}

pub(super) fn unreachable(why: &str) -> BackendError {
    BackendError::Unreachable { place: "there".to_owned(), why: why.to_owned() }
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
    let commit = move |_: &WriteBatch| may(&of_commits.commits);
    let read = move || may(&of_reads.reads);
    (Arc::new(Before { inner: Arc::clone(inner), commit, read }), left)
}
