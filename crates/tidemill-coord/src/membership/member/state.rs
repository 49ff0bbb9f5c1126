//! The state that the threads of a member share, and the lock around it.

use super::{MemberOptions, MemberStatus};
use crate::{
    coordinator::{Coordinator, check_ttl},
    error::CoordinatorError,
    key::{LeaseId, Revision},
    membership::{
        events::{ClusterEventKind, EventLog, changes_between},
        registration::{JoinError, NodeProfile, Registered},
        view::{ClusterView, FenceError},
    },
};
use std::{sync::Arc, time::Duration};
use tidemill_env::{
    World,
    lock::{Condvar, Mutex, MutexGuard},
};
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The end of a member: nothing follows it.
#[derive(Clone, Debug)]
pub(super) enum MemberEnd {
    Refused(JoinError),
    Replaced(String),
    Left,
}

impl MemberEnd {
    /// The end that a revision which went back stands for.
    pub(super) fn went_back(error: &CoordinatorError) -> Self {
        Self::Replaced(match error {
            CoordinatorError::Replaced { known, found } => {
                format!("the coordinator's table went back from revision {known} to {found}")
            }
            error => error.to_string(),
        })
    }
}

/// The lease of a registered node.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLease {
    pub(super) id: LeaseId,
    /// The moment on the monotonic clock from which the lease is not believed in.
    pub(super) until_us: u64,
}

/// The stage of a member's life.
#[derive(Clone, Debug)]
pub(super) enum MemberPhase {
    Joining,
    Joined { registered: Registered, lease: HeldLease },
    Fenced { incarnation: Incarnation, why: String },
    Ended(MemberEnd),
}

/// The state that the threads of a member share.
pub(super) struct MemberState {
    /// The node as it registers next: with its cluster and newest incarnation.
    pub(super) profile: NodeProfile,
    pub(super) phase: MemberPhase,
    pub(super) view: Option<Arc<ClusterView>>,
    pub(super) events: EventLog,
    /// The thing that the keeper waits for; empty while it waits for nothing.
    pub(super) waits_for: String,
    /// True while the coordinator does not answer the keeper.
    pub(super) is_coordinator_lost: bool,
    pub(super) is_stopping: bool,
    /// The owner of the member lets it register again after a fence.
    pub(super) is_told_to_rejoin: bool,
}

impl MemberState {
    /// The revision of the newest view.
    pub(super) fn revision(&self) -> Revision {
        self.view.as_ref().map_or(Revision::NONE, |it| it.revision)
    }

    /// True once the threads are to end.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopping || matches!(self.phase, MemberPhase::Ended(_))
    }

    /// The reason why the view refuses the incarnation that this node is registered as.
    pub(super) fn fence(&self) -> Option<FenceError> {
        let MemberPhase::Joined { registered, .. } = &self.phase else { return None };
        let view = self.view.as_ref().filter(|it| it.revision >= registered.revision)?;
        view.check(self.profile.node, registered.incarnation).err()
    }

    /// The status at a moment of the monotonic clock.
    pub(super) fn status(&self, now_us: u64) -> MemberStatus {
        let (registered, lease) = match &self.phase {
            MemberPhase::Ended(MemberEnd::Refused(error)) => {
                return MemberStatus::Refused(error.clone());
            }
            MemberPhase::Ended(MemberEnd::Replaced(why)) => {
                return MemberStatus::Replaced {
                    why: JoinError::Replaced(why.clone()).to_string(),
                };
            }
            MemberPhase::Ended(MemberEnd::Left) => return MemberStatus::Left,
            MemberPhase::Fenced { incarnation, why } => {
                let why = match self.waits_for.as_str() {
                    "" => why.clone(),
                    waits_for => format!("{why}; it {waits_for}"),
                };
                return MemberStatus::Fenced { incarnation: *incarnation, why };
            }
            MemberPhase::Joining => {
                return MemberStatus::Waiting { incarnation: None, why: self.waits_for.clone() };
            }
            MemberPhase::Joined { registered, lease } => (registered, lease),
        };
        let incarnation = registered.incarnation;
        if let Some(error) = self.fence() {
            return MemberStatus::Fenced { incarnation, why: error.to_string() };
        }
        if now_us < lease.until_us {
            return MemberStatus::Joined { incarnation };
        }
        let why = match self.waits_for.as_str() {
            "" => "the lease was not renewed in time".to_owned(),
            why => format!("the lease was not renewed in time: {why}"),
        };
        MemberStatus::Waiting { incarnation: Some(incarnation), why }
    }
}

/// The parts of a member that its threads share.
pub(super) struct MemberShared {
    pub(super) world: World,
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) lease: Duration,
    pub(super) rejoins: bool,
    pub(super) node: NodeId,
    /// The id of the cluster that this node begins, if it begins one.
    pub(super) new_cluster: ClusterId,
    state: Mutex<MemberState>,
    /// Signalled by every change of the state.
    changed: Condvar,
}

impl MemberShared {
    /// The parts of a member that has not begun to join.
    pub(super) fn new(
        world: &World,
        coordinator: Arc<dyn Coordinator>,
        options: MemberOptions,
    ) -> Result<Self, JoinError> {
        check_ttl(options.lease).map_err(JoinError::Coordinator)?;
        let node = options.profile.node;
        let state = MemberState {
            profile: options.profile,
            phase: MemberPhase::Joining,
            view: None,
            events: EventLog::default(),
            waits_for: "waits for the coordinator's first answer".to_owned(),
            is_coordinator_lost: false,
            is_stopping: false,
            is_told_to_rejoin: false,
        };
        Ok(Self {
            world: world.clone(),
            coordinator,
            lease: options.lease,
            rejoins: options.rejoins,
            node,
            new_cluster: crate::membership::new_cluster_id(world)?,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    pub(super) fn now_us(&self) -> u64 {
        self.world.clock.monotonic_micros()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, MemberState> {
        self.state.lock()
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Changes the state and signals that.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut MemberState) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    pub(super) fn add_event(&self, state: &mut MemberState, kind: ClusterEventKind) {
        tracing::info!(node = %self.node, "{kind}");
        state.events.add(kind, state.revision(), self.world.clock.wall_micros());
    }

    /// Ends the member. The first end counts.
    pub(super) fn end(&self, end: MemberEnd) {
        self.update(|state| {
            if matches!(state.phase, MemberPhase::Ended(_)) {
                return;
            }
            if let MemberEnd::Replaced(why) = &end {
                self.add_event(state, ClusterEventKind::TableReplaced(why.clone()));
            }
            state.phase = MemberPhase::Ended(end);
        });
    }

    /// Waits until `find` gives something, for `span` at most, or until the member is over.
    /// [`Duration::MAX`] has no end.
    pub(super) fn wait_until<T>(
        &self,
        span: Duration,
        mut find: impl FnMut(&mut MemberState) -> Option<T>,
    ) -> Option<T> {
        let span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = self.now_us().saturating_add(span_us);
        let mut state = self.lock();
        loop {
            if let Some(found) = find(&mut state) {
                return Some(found);
            }
            let now_us = self.now_us();
            if state.is_over() || now_us >= deadline_us {
                return None;
            }
            state = if span == Duration::MAX {
                self.changed.wait(state)
            } else {
                let rest = Duration::from_micros(deadline_us - now_us);
                self.changed.wait_timeout(state, rest).0
            };
        }
    }

    /// Rests, until the member is over at most.
    pub(super) fn rest(&self, span: Duration) {
        let _never: Option<()> = self.wait_until(span, |_| None);
    }

    /// Notes that the coordinator answers, or why it does not.
    pub(super) fn note_coordinator(&self, error: Option<&CoordinatorError>) {
        let why = error.map_or_else(String::new, |it| format!("waits for the coordinator: {it}"));
        let mut state = self.lock();
        if state.waits_for == why {
            return;
        }
        let was_lost = std::mem::replace(&mut state.is_coordinator_lost, error.is_some());
        state.waits_for.clone_from(&why);
        match (was_lost, error) {
            (false, Some(_)) => {
                self.add_event(&mut state, ClusterEventKind::CoordinatorLost(why));
            }
            (true, None) => self.add_event(&mut state, ClusterEventKind::CoordinatorFound),
            _ => {}
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Makes a view the newest, with the events that lead to it.
    pub(super) fn publish(&self, view: &ClusterView) {
        self.update(|state| {
            let view = Arc::new(view.clone());
            let before = state.view.replace(Arc::clone(&view));
            let empty = ClusterView::empty(view.cluster.clone());
            for kind in changes_between(before.as_deref().unwrap_or(&empty), &view) {
                self.add_event(state, kind);
            }
        });
    }
}
