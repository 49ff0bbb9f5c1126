//! The table as nodes use it, on a voter and on any other node.

use crate::{
    message::{Answer, Call, CallAnswer, Message},
    transport::{Transport, TransportError, exchange},
    voters::RaftVoter,
};
use std::{sync::Arc, time::Duration};
use tidemill_coord::{
    Change, CommitOutcome, Coordinator, CoordinatorError, LeaseId, Listing, Revision, Transaction,
    Watch, coordinator::LEASE_TTL_MIN, table::Reply,
};
use tidemill_env::{World, lock::Mutex};
use tidemill_types::NodeId;

/// Wait before a call is made again, in microseconds.
const RETRY_US: u64 = 50_000;
/// Longest wait of one call of a watch that goes over the network.
const WATCH_WAIT: Duration = Duration::from_secs(5);
/// A prefix that no key has.
const NO_KEY: &str = "\u{10ffff}";

/// A handle of the table.
#[derive(Clone)]
pub struct RaftCoordinator {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    transport: Arc<dyn Transport>,
    /// The voter in this process.
    local: Option<Arc<RaftVoter>>,
    /// Addresses of voters, tried in turn.
    addresses: Vec<String>,
    timeout: Duration,
    route: Mutex<Route>,
}

/// The voter to ask.
#[derive(Default)]
struct Route {
    /// The leader, as the last answer named it.
    leader: Option<(NodeId, String)>,
    /// The next address if no leader is known.
    next: usize,
}

impl RaftCoordinator {
    /// The table as a voter has it.
    #[must_use]
    pub fn of_voter(voter: &Arc<RaftVoter>, transport: Arc<dyn Transport>) -> Self {
        let (world, timeout) = (&voter.world, voter.options.call_timeout);
        Self::new(world, transport, Some(Arc::clone(voter)), Vec::new(), timeout)
    }

    /// The table as a node has it that asks the voters at these addresses.
    #[must_use]
    pub fn of_client(
        world: &World,
        transport: Arc<dyn Transport>,
        addresses: Vec<String>,
        timeout: Duration,
    ) -> Self {
        Self::new(world, transport, None, addresses, timeout)
    }

    fn new(
        world: &World,
        transport: Arc<dyn Transport>,
        local: Option<Arc<RaftVoter>>,
        addresses: Vec<String>,
        timeout: Duration,
    ) -> Self {
        let (world, route) = (world.clone(), Mutex::default());
        Self { inner: Arc::new(Inner { world, transport, local, addresses, timeout, route }) }
    }
}

/// The outcome of one attempt.
enum Attempt {
    Answered(CallAnswer),
    /// Nothing was done: it may be tried elsewhere.
    Elsewhere(String),
    /// It may have been done.
    Unknown(String),
}

impl Inner {
    /// Makes a call until it is answered or its time is over.
    fn call(&self, call: &Call) -> Result<CallAnswer, CoordinatorError> {
        let timeout_us = u64::try_from(self.timeout.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = self.world.clock.monotonic_micros().saturating_add(timeout_us);
        loop {
            let (why, is_unknown) = match self.attempt(call, self.timeout) {
                Attempt::Answered(CallAnswer::Refused(error)) if error.is_retriable() => {
                    (error.to_string(), true)
                }
                Attempt::Answered(CallAnswer::Refused(error)) => return Err(error),
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Elsewhere(why) => (why, false),
                Attempt::Unknown(why) => (why, true),
            };
            let is_final = is_unknown && !call.is_repeatable();
            if is_final || self.world.clock.monotonic_micros() >= deadline_us {
                return Err(CoordinatorError::Unavailable(why));
            }
            self.world.clock.sleep_micros(RETRY_US);
        }
    }

    fn attempt(&self, call: &Call, timeout: Duration) -> Attempt {
        let leader = self.route.lock().leader.clone();
        let answer = match (&self.local, leader) {
            (Some(voter), None) => voter.execute(call.clone()),
            (_, leader) => {
                let (node, address) = match leader {
                    Some((node, address)) => (Some(node), address),
                    None => match self.next_address() {
                        Some(address) => (None, address),
                        None => return Attempt::Elsewhere("no voter is known".to_owned()),
                    },
                };
                let message = Message::Call(call.clone());
                match exchange(&*self.transport, &address, node, &message, timeout) {
                    Ok(Answer::Call(answer)) => answer,
                    Ok(Answer::Failed(why)) => return self.lost(Attempt::Elsewhere(why)),
                    Ok(_) => {
                        return self
                            .lost(Attempt::Unknown(format!("{address} answers something else")));
                    }
                    Err(TransportError::NotSent(why)) => return self.lost(Attempt::Elsewhere(why)),
                    Err(TransportError::NoAnswer(why)) => return self.lost(Attempt::Unknown(why)),
                }
            }
        };
        if let CallAnswer::NotLeader { leader } = answer {
            let is_known = leader.is_some();
            self.route.lock().leader = leader;
            let why = if is_known { "the leader has changed" } else { "no leader is known" };
            return Attempt::Elsewhere(why.to_owned());
        }
        Attempt::Answered(answer)
    }

    /// Forgets the leader.
    fn lost(&self, attempt: Attempt) -> Attempt {
        self.route.lock().leader = None;
        attempt
    }

    fn next_address(&self) -> Option<String> {
        let mut route = self.route.lock();
        let address = self.addresses.get(route.next % self.addresses.len().max(1)).cloned();
        route.next = route.next.wrapping_add(1);
        address
    }

    fn reply(&self, call: &Call) -> Result<Reply, CoordinatorError> {
        match self.call(call)? {
            CallAnswer::Reply(reply) => Ok(reply),
            other => Err(foreign(&other)),
        }
    }
}

fn foreign(answer: &CallAnswer) -> CoordinatorError {
    CoordinatorError::Failed(format!("a voter answered something else: {answer:?}"))
}

impl Coordinator for RaftCoordinator {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        match self.inner.call(&Call::List { prefix: prefix.to_owned() })? {
            CallAnswer::Listing { revision, entries } => Ok(Listing { revision, entries }),
            other => Err(foreign(&other)),
        }
    }

    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        transaction.check()?;
        match self.inner.reply(&Call::Commit(transaction.clone()))? {
            Reply::Commit(outcome) => Ok(outcome),
            other => Err(CoordinatorError::Failed(format!("a commit was answered by {other:?}"))),
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        let newest = self.list(NO_KEY)?.revision;
        if after > newest {
            return Err(CoordinatorError::Replaced { known: after, found: newest });
        }
        let inner = Arc::clone(&self.inner);
        let mut watch = RaftWatch { inner, prefix: prefix.to_owned(), after };
        // A watch that can never begin fails here, not at its first reading.
        match watch.look(Duration::ZERO) {
            Err(error) if !error.is_retriable() => Err(error),
            _ => Ok(Box::new(RaftWatch { after, ..watch })),
        }
    }

    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        if ttl < LEASE_TTL_MIN {
            let why = format!("a lease of {ttl:?}, {LEASE_TTL_MIN:?} at least");
            return Err(CoordinatorError::Invalid(why));
        }
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        match self.inner.reply(&Call::Grant { ttl_ms })? {
            Reply::Lease(lease) => Ok(lease),
            other => Err(CoordinatorError::Failed(format!("a grant was answered by {other:?}"))),
        }
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        match self.inner.call(&Call::KeepAlive { lease })? {
            CallAnswer::Done => Ok(()),
            other => Err(foreign(&other)),
        }
    }

    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.inner.reply(&Call::Revoke { lease }).map(|_| ())
    }
}

/// The changes under a prefix, from the table in this process or from a voter.
struct RaftWatch {
    inner: Arc<Inner>,
    prefix: String,
    after: Revision,
}

impl RaftWatch {
    fn look(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        let (changes, revision) = match &self.inner.local {
            Some(voter) => voter.machine.changes(&self.prefix, self.after, timeout)?,
            None => self.ask(timeout)?,
        };
        self.after = self.after.max(revision);
        Ok(changes)
    }

    fn ask(&self, timeout: Duration) -> Result<(Vec<Change>, Revision), CoordinatorError> {
        let unavailable = |why: String| Err(CoordinatorError::Unavailable(why));
        let Some(address) = self.inner.next_address() else {
            return unavailable("no voter is known".to_owned());
        };
        let wait = timeout.min(WATCH_WAIT);
        let (prefix, after) = (self.prefix.clone(), self.after);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let message = Message::Call(Call::Changes { prefix, after, wait_ms });
        let answer_time = wait + self.inner.timeout;
        match exchange(&*self.inner.transport, &address, None, &message, answer_time) {
            Ok(Answer::Call(CallAnswer::Changes { changes, revision })) => Ok((changes, revision)),
            Ok(Answer::Call(CallAnswer::Refused(error))) => Err(error),
            Ok(Answer::Failed(why)) => unavailable(why),
            Ok(_) => unavailable(format!("{address} answers something else")),
            Err(error) => unavailable(error.to_string()),
        }
    }
}

impl Watch for RaftWatch {
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        self.look(timeout)
    }
}
