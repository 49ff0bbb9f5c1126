//! The watcher: lists the table, follows its changes, and publishes views.
//!
//! A watch that missed changes is given up, and the table is listed anew. Now and then it is listed
//! without need as well, in case a watch lost events in silence (etcd issues 15271, 17529 and 18089).

use super::{MemberEnd, MemberPhase, MemberShared, POLL, backoff::Backoff};
use crate::{
    error::CoordinatorError,
    key::Revision,
    membership::{
        events::ClusterEventKind,
        view::{FoldError, ViewFold},
    },
};
use std::time::Duration;

/// Keeps the random rests of this thread apart from those of others.
const PURPOSE: u64 = 0x7761_7463_6865_7200;
/// The time between two listings of a watch that goes on.
const LISTING_INTERVAL_US: u64 = 30_000_000;

/// The reason why a following ended.
enum FollowError {
    Coordinator(CoordinatorError),
    Table(FoldError),
}

impl From<CoordinatorError> for FollowError {
    fn from(error: CoordinatorError) -> Self {
        Self::Coordinator(error)
    }
}

impl From<FoldError> for FollowError {
    fn from(error: FoldError) -> Self {
        Self::Table(error)
    }
}

/// The body of the thread.
pub(super) fn run(shared: &MemberShared) {
    let cluster = shared.wait_until(Duration::MAX, |state| match &state.phase {
        MemberPhase::Joined { registered, .. } => Some(registered.cluster.clone()),
        _ => None,
    });
    let Some(cluster) = cluster else { return };
    let mut fold = ViewFold::new(cluster);
    let mut backoff = Backoff::new(&shared.world, PURPOSE, shared.node);
    while !shared.is_over() {
        match follow(shared, &mut fold, &mut backoff) {
            Ok(()) => {}
            Err(FollowError::Coordinator(CoordinatorError::Compacted { .. })) => {
                shared.update(|state| shared.add_event(state, ClusterEventKind::Resynced));
            }
            Err(FollowError::Coordinator(error @ CoordinatorError::Replaced { .. })) => {
                return shared.end(MemberEnd::went_back(&error));
            }
            Err(FollowError::Coordinator(error)) => {
                tracing::debug!(%error, "the table is listed anew later");
                shared.rest(backoff.grow());
            }
            Err(FollowError::Table(error)) => {
                return shared.end(MemberEnd::Replaced(error.to_string()));
            }
        }
    }
}

/// Lists the table and follows it, until the member is over.
fn follow(
    shared: &MemberShared,
    fold: &mut ViewFold,
    backoff: &mut Backoff,
) -> Result<(), FollowError> {
    let after = list(shared, fold)?;
    let mut watch = shared.coordinator.watch("", after)?;
    let mut listed_us = shared.now_us();
    while !shared.is_over() {
        match watch.changes(POLL) {
            Ok(changes) => {
                backoff.reset();
                if fold.apply(&changes)? {
                    shared.publish(fold.view());
                }
            }
            // The watch goes on by itself.
            Err(error) if error.is_retriable() => {
                tracing::debug!(%error, "the watch waits");
                shared.rest(backoff.grow());
            }
            Err(error) => return Err(error.into()),
        }
        if shared.now_us().saturating_sub(listed_us) >= LISTING_INTERVAL_US {
            list(shared, fold)?;
            listed_us = shared.now_us();
        }
    }
    Ok(())
}

/// Lists the table; gives the revision to watch from.
fn list(shared: &MemberShared, fold: &mut ViewFold) -> Result<Revision, FollowError> {
    let listing = shared.coordinator.list("")?;
    fold.reset(&listing)?;
    shared.publish(fold.view());
    Ok(listing.revision)
}
