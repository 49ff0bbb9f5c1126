//! Progress: from any state, once faults end, the cluster serves again with all that was promised.
//!
//! The rest of the way is one fair schedule: every message in flight is lost, every node is up, the
//! controller elects a copy if nobody leads, and each node does what it can.
//!
//! Invariants:
//! - The schedule takes steps of the model alone, so it shows that progress is possible.

use super::properties;
use super::state::{ClusterState, NODES, POSITIONS, Phase, UNMATCHED};
use super::{ProtocolStep, ReplicationModel};

/// Rounds after which a cluster that does not serve is stuck.
const ROUNDS: usize = 40;

/// True if the fair schedule reaches a leader that acknowledges a new record, or all it has where
/// no position is left, and every property that is checked without a schedule holds there.
pub(super) fn recovers(model: &ReplicationModel, state: &ClusterState) -> bool {
    let mut healed = state.clone();
    healed.network.clear();
    let appended = state.spent.records;
    for _ in 0..ROUNDS {
        if round(model, &mut healed, appended) {
            return properties::holds(&healed);
        }
    }
    false
}

/// One round of the schedule. Returns true once the goal is reached.
fn round(model: &ReplicationModel, state: &mut ClusterState, appended: u8) -> bool {
    for n in 0..model.nodes {
        if state.observes(n) {
            model.take(state, ProtocolStep::Observe(n));
        }
        model.take(state, ProtocolStep::Sync(n));
    }
    let n = state.record.leader;
    let node = state.nodes[usize::from(n)];
    let Some(lead) = node.lead.filter(|lead| lead.epoch == state.record.epoch) else {
        elect(model, state);
        return false;
    };
    match lead.phase {
        Phase::Sealing => {
            for m in lead.open.set.nodes().filter(|m| *m != usize::from(n)) {
                model.take(state, ProtocolStep::Seal(n, m as u8));
            }
            let sealed = state.nodes[usize::from(n)].lead;
            if sealed.is_some_and(|lead| model.may_adopt(&lead)) {
                let set = state.set_of(model.first_set | 1 << n);
                model.take(state, ProtocolStep::Adopt(n, set));
            }
        }
        // A copy that forgot will not answer for the generation that the candidate has chosen.
        Phase::Copying if lead.next.is_some_and(|next| !state.is_whole(next.set)) => {
            elect(model, state);
        }
        Phase::Copying => {
            if !exchange(model, state, n) {
                model.take(state, ProtocolStep::RecordSet(n));
                arrive(model, state);
            }
        }
        // What was asked of the coordinator was lost: the same is asked again.
        Phase::Recording => {
            model.take(state, ProtocolStep::RecordSet(n));
            arrive(model, state);
        }
        Phase::Serving if lead.next.is_some() => elect(model, state),
        Phase::Serving => {
            let end = node.log.end(lead.open.from);
            if !state.is_whole(lead.open.set) {
                elect(model, state);
            } else if state.spent.records == appended && usize::from(end) < POSITIONS {
                model.take(state, ProtocolStep::Append(n));
            } else if !exchange(model, state, n) {
                return lead.head == end;
            }
        }
    }
    false
}

/// Elects a copy that has forgotten nothing, or any copy if none is left.
fn elect(model: &ReplicationModel, state: &mut ClusterState) {
    let set = state.record.open().set;
    let full = set.nodes().find(|m| state.is_complete(*m, set.generation(*m)));
    let node = full.or_else(|| set.nodes().next()).expect("a set has a copy");
    model.take(state, ProtocolStep::Elect(node as u8));
}

/// Sends each copy what it lacks and lets all messages arrive. Returns false if nothing was lacking.
fn exchange(model: &ReplicationModel, state: &mut ClusterState, n: u8) -> bool {
    let node = state.nodes[usize::from(n)];
    let lead = node.lead.expect("a leader exchanges messages");
    let end = node.log.end(lead.open.from);
    let set = lead.next.unwrap_or(lead.open).set;
    let behind = |m: &usize| lead.matched[*m] == UNMATCHED || lead.matched[*m] < end;
    let behind: Vec<usize> =
        (0..NODES).filter(|m| set.0[*m] != 0 && *m != usize::from(n) && behind(m)).collect();
    for m in &behind {
        model.take(state, ProtocolStep::Ship(n, *m as u8));
    }
    arrive(model, state);
    !behind.is_empty()
}

fn arrive(model: &ReplicationModel, state: &mut ClusterState) {
    while let Some(message) = state.network.first().copied() {
        model.take(state, ProtocolStep::Deliver(message));
    }
}
