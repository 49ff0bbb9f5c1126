//! The table in memory, with the anomalies of a real coordinator: the home for tests and simulation.
//!
//! Every handle belongs to one node. A handle can be cut off, and each of its calls may lose its
//! request or its answer: a lost answer of a commit leaves the commit applied, as etcd's timeouts do
//! (etcd issue 13937 and the like). Watches may lag behind the table. Compaction and expiry of leases
//! happen when a test says so or the clock passes the deadline.
//!
//! Invariant: the same seed and the same order of calls give the same answers.

use crate::{
    coordinator::{Coordinator, Watch, check_ttl},
    error::CoordinatorError,
    key::{LeaseId, Revision},
    table::{Command, Deadlines, Reply, Table},
    transaction::{Change, CommitOutcome, Listing, Transaction},
};
use std::{sync::Arc, time::Duration};
use tidemill_env::{
    Clock, Random,
    lock::{Condvar, Mutex, MutexGuard},
    sync::atomic::{AtomicBool, Ordering},
};

#[cfg(test)]
mod tests;

/// How often a handle's calls go wrong, in calls of 1,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anomalies {
    /// The request is lost: nothing happens.
    pub lost_requests: u32,
    /// The answer is lost: what was asked for has happened.
    pub lost_answers: u32,
    /// A watch gives nothing though there are changes; they come with a later call.
    pub late_watches: u32,
}

/// One table, and the handles that share it.
#[derive(Clone)]
pub struct Model {
    shared: Arc<ModelTable>,
}

struct ModelTable {
    clock: Arc<dyn Clock>,
    contents: Mutex<Contents>,
    changed: Condvar,
}

struct Contents {
    table: Table,
    deadlines: Deadlines,
}

impl Model {
    /// An empty table on this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let contents = Contents { table: Table::default(), deadlines: Deadlines::default() };
        let (contents, changed) = (Mutex::new(contents), Condvar::new());
        Self { shared: Arc::new(ModelTable { clock, contents, changed }) }
    }

    /// A handle without anomalies.
    #[must_use]
    pub fn handle(&self) -> ModelCoordinator {
        self.handle_with(Anomalies::default(), Random::new(0))
    }

    /// A handle whose calls go wrong as often as `anomalies` says.
    #[must_use]
    pub fn handle_with(&self, anomalies: Anomalies, random: Random) -> ModelCoordinator {
        let line = Line { anomalies, random: Mutex::new(random), is_cut: AtomicBool::new(false) };
        ModelCoordinator { shared: Arc::clone(&self.shared), line: Arc::new(line) }
    }

    /// Forgets the changes up to a revision.
    pub fn compact(&self, up_to: Revision) {
        self.shared.lock().table.compact(up_to);
        self.shared.changed.notify_all();
    }

    /// Loses everything, as a wiped data folder does.
    pub fn wipe(&self) {
        let mut contents = self.shared.lock();
        contents.table = Table::default();
        contents.deadlines = Deadlines::default();
        self.shared.changed.notify_all();
    }
}

impl ModelTable {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        let mut contents = self.contents.lock();
        self.end_expired(&mut contents);
        contents
    }

    fn end_expired(&self, contents: &mut Contents) {
        for lease in contents.deadlines.expired(self.clock.monotonic_micros()) {
            contents.table.apply(&Command::End { lease }).expect("ending a lease always applies");
            contents.deadlines.remove(lease);
            self.changed.notify_all();
        }
    }
}

/// The way from one node to the table.
struct Line {
    anomalies: Anomalies,
    random: Mutex<Random>,
    is_cut: AtomicBool,
}

impl Line {
    fn happens(&self, of_thousand: u32) -> bool {
        let drawn = self.random.lock().next() % 1_000;
        drawn < u64::from(of_thousand)
    }

    fn send(&self) -> Result<(), CoordinatorError> {
        if self.is_cut.load(Ordering::SeqCst) || self.happens(self.anomalies.lost_requests) {
            return Err(CoordinatorError::Unavailable("the request was lost".into()));
        }
        Ok(())
    }

    fn answer<T>(&self, value: T) -> Result<T, CoordinatorError> {
        if self.is_cut.load(Ordering::SeqCst) || self.happens(self.anomalies.lost_answers) {
            return Err(CoordinatorError::Unavailable("the answer was lost".into()));
        }
        Ok(value)
    }
}

/// One node's handle of a [`Model`].
#[derive(Clone)]
pub struct ModelCoordinator {
    shared: Arc<ModelTable>,
    line: Arc<Line>,
}

impl ModelCoordinator {
    /// Cuts this handle off from the table, or lets it through again.
    pub fn set_cut(&self, is_cut: bool) {
        self.line.is_cut.store(is_cut, Ordering::SeqCst);
        self.shared.changed.notify_all();
    }
}

impl Coordinator for ModelCoordinator {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        self.line.send()?;
        let listing = self.shared.lock().table.list(prefix);
        self.line.answer(listing)
    }

    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        self.line.send()?;
        let reply = self.shared.lock().table.apply(&Command::Commit(transaction.clone()))?;
        self.shared.changed.notify_all();
        match reply {
            Reply::Commit(committed) => self.line.answer(committed),
            Reply::Lease(_) | Reply::Ended => unreachable!("a commit is answered by a commit"),
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        self.line.send()?;
        self.shared.lock().table.changes(prefix, after)?;
        let (shared, line) = (Arc::clone(&self.shared), Arc::clone(&self.line));
        self.line.answer(())?;
        Ok(Box::new(ModelWatch { shared, line, prefix: prefix.to_owned(), after }))
    }

    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        check_ttl(ttl)?;
        self.line.send()?;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let mut contents = self.shared.lock();
        match contents.table.apply(&Command::Grant { ttl_ms })? {
            Reply::Lease(lease) => {
                contents.deadlines.prolong(lease, ttl, self.shared.clock.monotonic_micros());
                self.line.answer(lease)
            }
            Reply::Commit(_) | Reply::Ended => unreachable!("a grant is answered by a lease"),
        }
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.line.send()?;
        let mut contents = self.shared.lock();
        let ttl = contents.table.ttl(lease)?;
        contents.deadlines.prolong(lease, ttl, self.shared.clock.monotonic_micros());
        self.line.answer(())
    }

    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.line.send()?;
        let mut contents = self.shared.lock();
        contents.table.apply(&Command::End { lease })?;
        contents.deadlines.remove(lease);
        self.shared.changed.notify_all();
        self.line.answer(())
    }
}

struct ModelWatch {
    shared: Arc<ModelTable>,
    line: Arc<Line>,
    prefix: String,
    after: Revision,
}

impl Watch for ModelWatch {
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        let clock = &self.shared.clock;
        let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = clock.monotonic_micros().saturating_add(timeout_us);
        let mut contents = self.shared.lock();
        loop {
            let is_late = self.line.is_cut.load(Ordering::SeqCst)
                || self.line.happens(self.line.anomalies.late_watches);
            if !is_late {
                let changes = contents.table.changes(&self.prefix, self.after)?;
                self.after = contents.table.revision();
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
            let now_us = clock.monotonic_micros();
            if now_us >= deadline_us {
                return Ok(Vec::new());
            }
            let expires_us = contents.deadlines.next_us().unwrap_or(u64::MAX);
            let wait = Duration::from_micros(deadline_us.min(expires_us).saturating_sub(now_us));
            contents = self.shared.changed.wait_timeout(contents, wait).0;
            self.shared.end_expired(&mut contents);
        }
    }
}
