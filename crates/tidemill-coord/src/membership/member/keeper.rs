//! The keeper: registers the node, keeps its lease alive, and registers again after a fence.

use super::{HeldLease, MemberEnd, MemberPhase, MemberShared, POLL, backoff::Backoff};
use crate::{
    error::CoordinatorError,
    key::LeaseId,
    membership::{
        events::ClusterEventKind,
        registration::{
            self, JoinError, Registered, RegistrationLease, RegistrationStep, RegistrationTerms,
            WaitReason,
        },
    },
    transaction::CommitOutcome,
};
use std::time::Duration;

/// Keeps the random rests of this thread apart from those of others.
const PURPOSE: u64 = 0x6b65_6570_6572_0000;
/// Renewals of a lease within its time to live.
const RENEWALS: u32 = 3;
/// The holder ends a lease before the coordinator does, by one part in this many.
const MARGIN: u32 = 10;

/// The body of the thread.
pub(super) fn run(shared: &MemberShared) {
    let mut backoff = Backoff::new(&shared.world, PURPOSE, shared.node);
    loop {
        if let Err(end) = join(shared, &mut backoff) {
            return shared.end(end);
        }
        match keep(shared, &mut backoff) {
            KeepEnd::Stopped => return,
            KeepEnd::Over(end) => return shared.end(end),
            KeepEnd::Fenced(why) => fence(shared, why),
        }
        if !wait_to_rejoin(shared) {
            return;
        }
    }
}

/// The result of one attempt to register.
enum JoinAttempt {
    Registered(Registered, HeldLease),
    Again,
    Wait(WaitReason),
}

/// Registers the node, and waits as long as that may still succeed.
fn join(shared: &MemberShared, backoff: &mut Backoff) -> Result<(), MemberEnd> {
    let mut lease = None;
    let mut held_since_us = None;
    while !shared.is_over() {
        match attempt(shared, &mut lease) {
            Ok(JoinAttempt::Registered(registered, lease)) => {
                backoff.reset();
                shared.note_coordinator(None);
                set_joined(shared, registered, lease);
                return Ok(());
            }
            Ok(JoinAttempt::Again) => {}
            Ok(JoinAttempt::Wait(WaitReason::NoCluster)) => {
                set_waiting(shared, "waits for a node that begins the cluster".to_owned());
            }
            Ok(JoinAttempt::Wait(WaitReason::IdHeld(error))) => {
                let now_us = shared.now_us();
                let since_us = *held_since_us.get_or_insert(now_us);
                let patience = shared.lease * 2 + POLL;
                if u128::from(now_us - since_us) > patience.as_micros() {
                    return Err(MemberEnd::Refused(error));
                }
                set_waiting(shared, format!("waits for the lease of a former life: {error}"));
            }
            Err(JoinError::Coordinator(error @ CoordinatorError::Unavailable(_))) => {
                shared.note_coordinator(Some(&error));
            }
            Err(JoinError::Coordinator(error @ CoordinatorError::Replaced { .. })) => {
                return Err(MemberEnd::went_back(&error));
            }
            Err(JoinError::Replaced(why)) => return Err(MemberEnd::Replaced(why)),
            // A node that was in its cluster knows that the table had been that cluster's.
            Err(error @ JoinError::OtherCluster { .. }) if shared.lock().view.is_some() => {
                return Err(MemberEnd::Replaced(error.to_string()));
            }
            Err(error) => return Err(MemberEnd::Refused(error)),
        }
        shared.rest(backoff.grow());
    }
    Err(MemberEnd::Left)
}

fn attempt(shared: &MemberShared, lease: &mut Option<HeldLease>) -> Result<JoinAttempt, JoinError> {
    let coordinator = &*shared.coordinator;
    let (profile, known) = {
        let state = shared.lock();
        (state.profile.clone(), state.revision())
    };
    let listing = coordinator.list("").map_err(JoinError::Coordinator)?;
    let next_step = |lease: RegistrationLease| {
        let new_cluster = &shared.new_cluster;
        let terms = RegistrationTerms { profile: &profile, lease, known, new_cluster };
        registration::next_step(&listing, &terms)
    };
    let granted = |it: HeldLease| RegistrationLease::Granted(it.id);
    let mut step = next_step(lease.map_or(RegistrationLease::Wanted, granted))?;
    if step == RegistrationStep::GrantLease {
        let new = *lease.insert(grant(shared)?);
        step = next_step(granted(new))?;
    }
    let (transaction, cluster, incarnation) = match step {
        RegistrationStep::Commit { transaction, cluster, incarnation } => {
            (transaction, cluster, incarnation)
        }
        RegistrationStep::Registered(registered) => {
            let lease = lease.expect("it is registered under this lease");
            return Ok(JoinAttempt::Registered(registered, lease));
        }
        RegistrationStep::GrantLease => return Ok(JoinAttempt::Again),
        RegistrationStep::Wait(reason) => return Ok(JoinAttempt::Wait(reason)),
    };
    match coordinator.commit(&transaction) {
        Ok(CommitOutcome::Applied(revision)) => {
            let lease = lease.expect("the transaction is under this lease");
            Ok(JoinAttempt::Registered(Registered { cluster, incarnation, revision }, lease))
        }
        Ok(CommitOutcome::Refused(_)) => Ok(JoinAttempt::Again),
        Err(CoordinatorError::LeaseExpired(_)) => {
            *lease = None;
            Ok(JoinAttempt::Again)
        }
        // The commit may be in the table: the next attempt's listing tells.
        Err(error) => Err(JoinError::Coordinator(error)),
    }
}

fn grant(shared: &MemberShared) -> Result<HeldLease, JoinError> {
    let asked_us = shared.now_us();
    let id = shared.coordinator.grant_lease(shared.lease).map_err(JoinError::Coordinator)?;
    Ok(HeldLease { id, until_us: end_of_lease(shared, asked_us) })
}

/// The moment from which a lease is not believed in that was prolonged by a request of then.
fn end_of_lease(shared: &MemberShared, asked_us: u64) -> u64 {
    let believed = shared.lease - shared.lease / MARGIN;
    asked_us.saturating_add(u64::try_from(believed.as_micros()).unwrap_or(u64::MAX))
}

fn set_waiting(shared: &MemberShared, why: String) {
    shared.update(|state| state.waits_for = why);
}

fn set_joined(shared: &MemberShared, registered: Registered, lease: HeldLease) {
    shared.update(|state| {
        state.profile.cluster = Some(registered.cluster.clone());
        state.profile.last_incarnation = registered.incarnation;
        state.is_told_to_rejoin = false;
        if !matches!(state.phase, MemberPhase::Ended(_)) {
            state.phase = MemberPhase::Joined { registered, lease };
        }
    });
}

/// The end of a time in which the node was registered.
enum KeepEnd {
    Stopped,
    Fenced(String),
    Over(MemberEnd),
}

/// Keeps the lease alive until it is gone or the view says that this incarnation is over.
fn keep(shared: &MemberShared, backoff: &mut Backoff) -> KeepEnd {
    let mut rest = shared.lease / RENEWALS;
    loop {
        if let Some(error) = shared.wait_until(rest, |state| state.fence()) {
            return KeepEnd::Fenced(error.to_string());
        }
        let Some(lease) = held_lease(shared) else { return KeepEnd::Stopped };
        let asked_us = shared.now_us();
        match shared.coordinator.keep_alive(lease) {
            Ok(()) => {
                backoff.reset();
                shared.note_coordinator(None);
                set_lease_end(shared, end_of_lease(shared, asked_us));
                rest = shared.lease / RENEWALS;
            }
            Err(error @ CoordinatorError::LeaseExpired(_)) => {
                return KeepEnd::Fenced(error.to_string());
            }
            Err(error @ CoordinatorError::Replaced { .. }) => {
                return KeepEnd::Over(MemberEnd::went_back(&error));
            }
            Err(error) => {
                shared.note_coordinator(Some(&error));
                rest = backoff.grow().min(shared.lease / RENEWALS);
            }
        }
    }
}

/// The lease to keep alive; none once the member is over.
fn held_lease(shared: &MemberShared) -> Option<LeaseId> {
    let state = shared.lock();
    match &state.phase {
        MemberPhase::Joined { lease, .. } if !state.is_over() => Some(lease.id),
        _ => None,
    }
}

fn set_lease_end(shared: &MemberShared, until_us: u64) {
    shared.update(|state| {
        if let MemberPhase::Joined { lease, .. } = &mut state.phase {
            lease.until_us = until_us;
        }
    });
}

fn fence(shared: &MemberShared, why: String) {
    shared.update(|state| {
        let MemberPhase::Joined { registered, .. } = &state.phase else { return };
        let incarnation = registered.incarnation;
        shared.add_event(state, ClusterEventKind::Fenced(incarnation));
        state.phase = MemberPhase::Fenced { incarnation, why };
    });
}

/// Waits until a fenced node may register again. False once the member is over.
fn wait_to_rejoin(shared: &MemberShared) -> bool {
    let may_rejoin = shared.wait_until(Duration::MAX, |state| {
        (shared.rejoins || state.is_told_to_rejoin).then_some(())
    });
    may_rejoin.is_some() && !shared.is_over()
}

/// Takes the node out of the table after its threads have ended.
pub(super) fn leave(shared: &MemberShared) {
    let (registered, lease) = {
        let state = shared.lock();
        let MemberPhase::Joined { registered, lease } = &state.phase else { return };
        (registered.clone(), *lease)
    };
    let span_us = u64::try_from((shared.lease / 2).as_micros()).unwrap_or(u64::MAX);
    let deadline_us = shared.now_us().saturating_add(span_us);
    let mut backoff = Backoff::new(&shared.world, PURPOSE, shared.node);
    loop {
        match try_to_leave(shared, &registered, lease.id) {
            Ok(()) => return,
            Err(error) if error.is_retriable() && shared.now_us() < deadline_us => {
                let rest_us = u64::try_from(backoff.grow().as_micros()).unwrap_or(u64::MAX);
                shared.world.clock.sleep_micros(rest_us);
            }
            Err(error) => {
                tracing::warn!(%error, "the node's lease is left to end by itself");
                return;
            }
        }
    }
}

fn try_to_leave(
    shared: &MemberShared,
    registered: &Registered,
    lease: LeaseId,
) -> Result<(), CoordinatorError> {
    let coordinator = &*shared.coordinator;
    let listing = coordinator.list("")?;
    match registration::leave(&listing, shared.node, registered.incarnation) {
        Ok(Some(transaction)) => {
            if !coordinator.commit(&transaction)?.is_applied() {
                let why = "the node's record was changed meanwhile".to_owned();
                return Err(CoordinatorError::Unavailable(why));
            }
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the node's record stays as it is"),
    }
    coordinator.revoke_lease(lease)
}
