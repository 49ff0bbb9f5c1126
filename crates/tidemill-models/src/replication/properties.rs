//! The properties: what clients may rely on, what the copies agree on, and that work goes on.

use super::state::{ClusterState, Leadership, NODES, POSITIONS, Phase};
use super::{ReplicationModel, recovery};
use stateright::Property;

/// No acknowledged record is missing at the leader of the newest epoch, nor in a closed segment.
pub const KEPT: &str = "no acknowledged record is lost";
/// A record that a consumer has read stays where it was.
pub const STABLE: &str = "a record that was read stays";
/// One node at most acknowledges under an epoch.
pub const SINGLE: &str = "one leader acknowledges in an epoch";
/// Copies that follow a leader have a prefix of its log, and an entry of an epoch is the same everywhere.
pub const AGREED: &str = "logs agree by epoch";
/// Every copy that has forgotten nothing has all that was acknowledged in its segment.
pub const FULL: &str = "each full copy has what was acknowledged";
/// Without further faults the cluster serves again.
pub const RECOVERS: &str = "a healed cluster serves again";
/// A record is acknowledged after a promotion.
pub const PROMOTED: &str = "a promoted leader acknowledges";
/// A record is acknowledged under a set that was changed.
pub const CHANGED: &str = "a record is acknowledged under a changed set";
/// An old leader is still at work while the new one serves.
pub const ZOMBIE: &str = "an old leader works beside the new one";

/// The properties of a model with these bounds.
pub(super) fn all(model: &ReplicationModel) -> Vec<Property<ReplicationModel>> {
    let mut all = vec![
        Property::always(KEPT, |_, state| is_kept(state, &state.promises.acknowledged)),
        Property::always(STABLE, |_, state: &ClusterState| {
            !state.promises.contradiction && is_kept(state, &state.promises.read)
        }),
        Property::always(SINGLE, |_, state: &ClusterState| {
            state.promises.acknowledgers.iter().all(|nodes| nodes.count_ones() <= 1)
        }),
        Property::always(AGREED, |_, state| agrees(state)),
        Property::always(FULL, |_, state| is_full(state)),
    ];
    if model.check_recovery {
        all.push(Property::always(RECOVERS, recovery::recovers));
    }
    if model.epochs > 1 && model.records > 0 {
        all.push(Property::sometimes(PROMOTED, |_, state: &ClusterState| {
            state.promises.acknowledgers[2..].iter().any(|nodes| *nodes != 0)
        }));
        all.push(Property::sometimes(ZOMBIE, |_, state: &ClusterState| {
            let old = |lead: Leadership| lead.epoch < state.record.epoch;
            state.record.serving && state.nodes.iter().any(|node| node.lead.is_some_and(old))
        }));
    }
    if model.changes > 0 && model.records > 0 {
        all.push(Property::sometimes(CHANGED, |_, state: &ClusterState| {
            let from = usize::from(state.record.open().from);
            state.record.segments > 1 && state.promises.acknowledged[from..].iter().any(|e| *e != 0)
        }));
    }
    all
}

/// The node that serves in the newest epoch.
fn serving(state: &ClusterState) -> Option<(usize, &Leadership)> {
    let n = usize::from(state.record.leader);
    let lead = state.nodes[n].lead.as_ref()?;
    let is_current = lead.epoch == state.record.epoch && lead.phase == Phase::Serving;
    (state.record.serving && is_current).then_some((n, lead))
}

/// The leader that serves has the promised entries of the open segment. Every closed segment has a
/// copy with those promised in it.
fn is_kept(state: &ClusterState, promised: &[u8; POSITIONS]) -> bool {
    let Some((leader, lead)) = serving(state) else {
        return true;
    };
    promised.iter().enumerate().filter(|(_, entry)| **entry != 0).all(|(p, entry)| {
        if p >= usize::from(lead.open.from) {
            return state.nodes[leader].log.0[p] == *entry;
        }
        let set = state.record.covering(p as u8).set;
        set.nodes()
            .any(|m| state.is_complete(m, set.generation(m)) && state.nodes[m].log.0[p] == *entry)
    })
}

fn is_full(state: &ClusterState) -> bool {
    (0..POSITIONS).filter(|p| state.promises.acknowledged[*p] != 0).all(|p| {
        let set = state.record.covering(p as u8).set;
        set.nodes()
            .filter(|m| state.is_complete(*m, set.generation(*m)))
            .all(|m| state.nodes[m].log.0[p] == state.promises.acknowledged[p])
    })
}

fn agrees(state: &ClusterState) -> bool {
    let entries = |p: usize| state.nodes.iter().map(move |node| node.log.0[p]);
    let same_epoch = |a: u8, b: u8| a >> 4 == b >> 4;
    let by_epoch =
        (0..POSITIONS).all(|p| entries(p).all(|a| entries(p).all(|b| !same_epoch(a, b) || a == b)));
    let prefix = |leader: usize, lead: &Leadership| {
        (0..NODES).filter(|m| *m != leader && state.nodes[*m].joined == lead.epoch).all(|m| {
            let (copy, log) = (&state.nodes[m], &state.nodes[leader].log);
            let from = usize::from(copy.base.max(lead.open.from));
            (from..POSITIONS).all(|p| copy.log.0[p] == 0 || copy.log.0[p] == log.0[p])
        })
    };
    let leads =
        state.nodes.iter().enumerate().filter_map(|(n, node)| Some((n, node.lead.as_ref()?)));
    let mut copied = leads.filter(|(_, lead)| lead.phase != Phase::Sealing);
    by_epoch && copied.all(|(n, lead)| prefix(n, lead))
}

/// True if every property of a single state holds.
pub(super) fn holds(state: &ClusterState) -> bool {
    is_kept(state, &state.promises.acknowledged)
        && is_kept(state, &state.promises.read)
        && !state.promises.contradiction
        && agrees(state)
        && is_full(state)
}
