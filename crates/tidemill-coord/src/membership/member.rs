//! A member of the cluster: the threads that keep one node registered and its view new.
//!
//! ```text
//! keeper     registers, keeps the lease alive, registers again when the lease is gone
//! watcher    lists and watches the table, publishes views and events
//! candidate  stands for election as the controller while there is none
//! ```
//!
//! Each thread asks a pure function of [`super`] for the next step and takes it. No thread holds a lock
//! while it calls the coordinator, and the keeper does nothing else, so that a slow change never costs
//! the lease.
//!
//! Invariants:
//! - An incarnation is told to others only after the coordinator has it.
//! - [`MemberStatus::Joined`] ends by this node's monotonic clock, before the coordinator ends the
//!   lease: a node that was paused does not believe in its lease. That is a hint; receivers refuse by
//!   incarnation.
//! - Once the table was replaced, nothing is changed in it any more.

mod backoff;
mod candidate;
mod keeper;
mod state;
mod watcher;

use super::{
    events::ClusterEvent,
    registration::{JoinError, NodeProfile, Registered},
    view::{ClusterView, FenceError},
};
use crate::{coordinator::Coordinator, key::Revision};
use state::{HeldLease, MemberEnd, MemberPhase, MemberShared, MemberState};
use std::{sync::Arc, time::Duration};
use tidemill_env::{Thread, World, lock::Mutex};
use tidemill_types::{Incarnation, NodeId};

#[cfg(all(test, debug_assertions))]
pub(super) mod tests;

/// The longest rest of a thread that waits for something that no signal tells of.
const POLL: Duration = Duration::from_millis(500);

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The node.
    pub profile: NodeProfile,
    /// Time to live of the node's lease. Default 6 s. A call of the coordinator should fail within
    /// a third of it.
    pub lease: Duration,
    /// True if a node whose lease has ended registers again, with a new incarnation. Otherwise it
    /// stays fenced until [`ClusterMember::rejoin`]. Default true.
    pub rejoins: bool,
}

impl MemberOptions {
    /// The default options for a node.
    #[must_use]
    pub fn new(profile: NodeProfile) -> Self {
        Self { profile, lease: Duration::from_secs(6), rejoins: true }
    }
}

/// The state of a node in its cluster, as it knows it itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStatus {
    /// The node is registered and holds its lease.
    Joined {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The node waits. It goes on with its work as far as that needs no change of the table.
    Waiting {
        /// Its incarnation; none before it has joined.
        incarnation: Option<Incarnation>,
        /// The thing that it waits for.
        why: String,
    },
    /// The node's incarnation is over. Others refuse it.
    Fenced {
        /// The incarnation that is over.
        incarnation: Incarnation,
        /// The reason.
        why: String,
    },
    /// The table is not the one that the node knew. The node changes nothing any more.
    Replaced {
        /// The reason, with a way out.
        why: String,
    },
    /// The node cannot join. It has stopped trying.
    Refused(JoinError),
    /// The node has left.
    Left,
}

/// The body of one of a member's threads.
type ThreadBody = fn(&MemberShared);

/// One node in its cluster.
pub struct ClusterMember {
    shared: Arc<MemberShared>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
}

impl ClusterMember {
    /// Starts to join without waiting for it. [`Self::status`] says how far it has come.
    ///
    /// # Errors
    /// [`JoinError::Coordinator`] for a lease that no coordinator grants.
    pub fn launch(
        world: &World,
        coordinator: Arc<dyn Coordinator>,
        options: MemberOptions,
    ) -> Result<Self, JoinError> {
        let shared = Arc::new(MemberShared::new(world, coordinator, options)?);
        let start = |name: &str, body: ThreadBody| {
            let shared = Arc::clone(&shared);
            world.spawn.spawn(name, Box::new(move || body(&shared)))
        };
        let threads = vec![
            start("member-keeper", keeper::run),
            start("member-watcher", watcher::run),
            start("member-candidate", candidate::run),
        ];
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Joins the cluster: waits for the coordinator and for a view that has this node.
    ///
    /// # Errors
    /// [`JoinError`] if the node cannot join until a person has changed something.
    pub fn start(
        world: &World,
        coordinator: Arc<dyn Coordinator>,
        options: MemberOptions,
    ) -> Result<Self, JoinError> {
        let member = Self::launch(world, coordinator, options)?;
        member.wait_joined(Duration::MAX)?;
        Ok(member)
    }

    /// Waits until the node has joined. None if it has not by then.
    ///
    /// # Errors
    /// [`JoinError`] if the node cannot join until a person has changed something.
    pub fn wait_joined(&self, timeout: Duration) -> Result<Option<Registered>, JoinError> {
        let joined = |state: &mut MemberState| match &state.phase {
            MemberPhase::Joined { registered, .. } => {
                (state.revision() >= registered.revision).then(|| Ok(registered.clone()))
            }
            MemberPhase::Ended(MemberEnd::Refused(error)) => Some(Err(error.clone())),
            MemberPhase::Ended(MemberEnd::Replaced(why)) => {
                Some(Err(JoinError::Replaced(why.clone())))
            }
            MemberPhase::Ended(MemberEnd::Left) => Some(Err(JoinError::Stopped)),
            MemberPhase::Joining | MemberPhase::Fenced { .. } => None,
        };
        match self.shared.wait_until(timeout, joined) {
            Some(result) => result.map(Some),
            None if self.shared.is_over() => Err(JoinError::Stopped),
            None => Ok(None),
        }
    }

    /// The id of this node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.node
    }

    /// The newest view; none before the node has first joined.
    #[must_use]
    pub fn view(&self) -> Option<Arc<ClusterView>> {
        self.shared.lock().view.clone()
    }

    /// Waits for a view after a revision. None if there is none by then.
    #[must_use]
    pub fn wait_for_view(&self, after: Revision, timeout: Duration) -> Option<Arc<ClusterView>> {
        let newer = |state: &mut MemberState| state.view.clone().filter(|it| it.revision > after);
        self.shared.wait_until(timeout, newer)
    }

    /// The state of this node.
    #[must_use]
    pub fn status(&self) -> MemberStatus {
        self.shared.lock().status(self.shared.now_us())
    }

    /// Waits until the status is another than this one, and gives the status of then. A lease that
    /// ends by the clock is noticed at the end of the wait.
    #[must_use]
    pub fn wait_for_status(&self, seen: &MemberStatus, timeout: Duration) -> MemberStatus {
        let shared = &self.shared;
        let other = |state: &mut MemberState| {
            Some(state.status(shared.now_us())).filter(|status| status != seen)
        };
        shared.wait_until(timeout, other).unwrap_or_else(|| self.status())
    }

    /// Checks an incarnation of a node, as [`ClusterView::check`] of the newest view.
    ///
    /// # Errors
    /// [`FenceError`] says why the incarnation is refused. Before there is a view, every node is
    /// unknown.
    pub fn check(&self, node: NodeId, incarnation: Incarnation) -> Result<(), FenceError> {
        let view = self.view().ok_or(FenceError::Unknown(node))?;
        view.check(node, incarnation)
    }

    /// The events after one of this number, in their order.
    #[must_use]
    pub fn events(&self, after: u64) -> Vec<ClusterEvent> {
        self.shared.lock().events.after(after)
    }

    /// Lets a fenced node register again, with a new incarnation.
    pub fn rejoin(&self) {
        self.shared.update(|state| state.is_told_to_rejoin = true);
    }

    /// Leaves the cluster: stops the threads and ends the lease, so that others need not wait for it.
    /// While the coordinator does not answer, it tries for half the time of the lease.
    pub fn leave(&self) {
        self.shared.update(|state| state.is_stopping = true);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            thread.join();
        }
        keeper::leave(&self.shared);
        self.shared.end(MemberEnd::Left);
    }
}

impl Drop for ClusterMember {
    /// Stops the threads without leaving: for the others this node is dead when its lease ends.
    fn drop(&mut self) {
        self.shared.update(|state| state.is_stopping = true);
    }
}
