//! The candidate: stands for election as the controller whenever the view has none that lives.

use super::{MemberEnd, MemberPhase, MemberShared, MemberState, POLL, backoff::Backoff};
use crate::{
    error::CoordinatorError,
    key::{LeaseId, Revision},
    membership::{controller::elect, view::ClusterView},
    transaction::CommitOutcome,
};
use std::{sync::Arc, time::Duration};
use tidemill_types::Incarnation;

/// Keeps the random rests of this thread apart from those of others.
const PURPOSE: u64 = 0x636f_6e74_726f_6c00;

/// The body of the thread.
pub(super) fn run(shared: &MemberShared) {
    let mut backoff = Backoff::new(&shared.world, PURPOSE, shared.node);
    // The view and the incarnation that left nothing to do.
    let mut done = (Revision::NONE, Incarnation(0));
    loop {
        let turn = shared.wait_until(Duration::MAX, |state| {
            turn(state)
                .filter(|(view, incarnation, _)| view.revision > done.0 || *incarnation != done.1)
        });
        let Some((view, incarnation, lease)) = turn else { return };
        let Some(transaction) = elect(&view, shared.node, incarnation, lease) else {
            done = (view.revision, incarnation);
            continue;
        };
        match shared.coordinator.commit(&transaction) {
            Ok(CommitOutcome::Applied(revision)) => {
                backoff.reset();
                await_revision(shared, revision);
            }
            // Another was faster, or the view is old.
            Ok(CommitOutcome::Refused(revision)) => {
                await_revision(shared, revision);
                shared.rest(backoff.grow());
            }
            Err(error @ CoordinatorError::Replaced { .. }) => {
                return shared.end(MemberEnd::went_back(&error));
            }
            // The node may be elected all the same: the view will tell.
            Err(error) => {
                tracing::debug!(%error, "the node stands for election again");
                shared.rest(backoff.grow());
            }
        }
    }
}

/// The facts for an election; none while the node is not registered.
fn turn(state: &MemberState) -> Option<(Arc<ClusterView>, Incarnation, LeaseId)> {
    let MemberPhase::Joined { registered, lease } = &state.phase else { return None };
    if state.is_over() {
        return None;
    }
    let view = state.view.clone().filter(|it| it.revision >= registered.revision)?;
    Some((view, registered.incarnation, lease.id))
}

/// Waits until the view has a revision, for a while.
fn await_revision(shared: &MemberShared, revision: Revision) {
    let _seen = shared.wait_until(POLL, |state| (state.revision() >= revision).then_some(()));
}
