//! Membership: the nodes of a cluster, the life that each is in, and the controller among them.
//!
//! ```text
//! registration ─▶ incarnation, lease     view ─▶ controller, placement, failover
//!      │                                   │         (plain functions)
//!      └───────────── member ──────────────┘
//!            keeper · watcher · candidate (threads)
//! ```
//!
//! A node draws an incarnation when it starts: a number that no life of any node had before. Others
//! refuse a lower one than the newest they know. A lease says how long a node is believed to live; it
//! is a hint, and no decision is safe because of it.
//!
//! Read in this order: [`record`], [`view`], [`registration`], [`desire`], [`events`], [`controller`],
//! [`placement`], [`failover`], [`member`]. All but the last are plain functions.

pub mod controller;
pub mod desire;
pub mod events;
pub mod failover;
pub mod member;
pub mod placement;
pub mod record;
pub mod registration;
pub mod view;

pub use desire::{DesireError, set_desired};
pub use events::{ClusterEvent, ClusterEventKind};
pub use failover::{LeaderChange, StreamletAssignment, StreamletLeader};
pub use member::{ClusterMember, MemberOptions, MemberStatus};
pub use placement::{CopySet, PlacementNode, StreamletName};
pub use record::{DesiredState, NodeAddresses, NodeRecord, NodeRole};
pub use registration::{JoinError, NodeProfile, Registered};
pub use view::{ClusterView, ControllerView, FenceError, LiveNode, NodeView};

use crate::{coordinator::Coordinator, key::Revision, transaction::CommitOutcome};
use registration::{RegistrationLease, RegistrationStep, RegistrationTerms};
use tidemill_env::World;
use tidemill_types::ClusterId;

#[cfg(all(test, debug_assertions))]
mod tests;

/// Attempts of a node alone to draw an incarnation. Nothing but its own process can be in the way.
const ATTEMPTS_MAX: u32 = 3;

/// Draws an incarnation for a node without a cluster, by one commit and without a thread.
///
/// A new table gets the cluster id of the data folder, or a new one if the profile lets the node
/// create it.
///
/// # Errors
/// [`JoinError`] if the table is another cluster's, damaged or away.
pub fn draw_incarnation(
    world: &World,
    coordinator: &dyn Coordinator,
    profile: &NodeProfile,
) -> Result<Registered, JoinError> {
    let new_cluster = new_cluster_id(world)?;
    let terms = RegistrationTerms {
        profile,
        lease: RegistrationLease::Alone,
        known: Revision::NONE,
        new_cluster: &new_cluster,
    };
    for _ in 0..ATTEMPTS_MAX {
        let listing = coordinator.list("").map_err(JoinError::Coordinator)?;
        let RegistrationStep::Commit { transaction, cluster, incarnation } =
            registration::next_step(&listing, &terms)?
        else {
            break;
        };
        let outcome = coordinator.commit(&transaction).map_err(JoinError::Coordinator)?;
        if let CommitOutcome::Applied(revision) = outcome {
            return Ok(Registered { cluster, incarnation, revision });
        }
    }
    Err(JoinError::Invalid("data folder has no cluster, and none may be created".to_owned()))
}

/// An id for a new cluster.
fn new_cluster_id(world: &World) -> Result<ClusterId, JoinError> {
    let mut bytes = [0; 16];
    let filled = world.entropy.fill(&mut bytes);
    filled.map_err(|error| JoinError::Invalid(format!("new cluster id: {error}")))?;
    Ok(ClusterId::from_bits(u128::from_be_bytes(bytes)))
}
