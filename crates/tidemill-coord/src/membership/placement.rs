//! Placement: the copies of each streamlet on the nodes.
//!
//! ```text
//! nodes, present copies ─▶ place ─▶ the copies that are wanted
//! ```
//!
//! Copies stay where they are as long as that is allowed: moving one costs its whole length. A node
//! that is gone or draining gives its copies to others. Of those that may take one, the choice is, in
//! this order: a rack without a copy of the streamlet, the fewest copies for the node's size, the
//! smallest id. [`rebalance`] moves copies from full nodes to empty ones, a bounded number at a time.
//!
//! Invariants:
//! - No streamlet has two copies on one node.
//! - The same input gives the same output, whatever the order of its parts.
//! - A copy moves only if its node may not keep it, or in [`rebalance`].

use std::collections::{BTreeMap, BTreeSet};
use tidemill_types::{NodeId, StreamletIx};

/// A streamlet within the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamletName {
    /// The name of the stream.
    pub stream: String,
    /// The streamlet within it.
    pub streamlet: StreamletIx,
}

/// The part of a node in keeping copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementDuty {
    /// It keeps the copies that it has, and may get more.
    Takes,
    /// It keeps the copies that it has: it is away for a while.
    Keeps,
    /// It gives up its copies: it drains, or is gone for good.
    Leaves,
}

impl PlacementNode {
    fn takes_copies(&self) -> bool {
        self.duty == PlacementDuty::Takes
    }
}

/// A node that copies may be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementNode {
    /// The rack of the node.
    pub rack: Option<String>,
    /// Its part in keeping copies.
    pub duty: PlacementDuty,
    /// The size of the node beside others. A node of size 2 gets twice the copies. At least 1.
    pub size: u32,
}

/// The nodes with copies of a streamlet, in the order of preference: the first one is to lead.
pub type CopySet = Vec<NodeId>;

/// The wanted copies of every streamlet, `copies` of each where there are nodes enough.
#[must_use]
pub fn place(
    nodes: &BTreeMap<NodeId, PlacementNode>,
    present: &BTreeMap<StreamletName, CopySet>,
    copies: usize,
) -> BTreeMap<StreamletName, CopySet> {
    let mut load = Load::default();
    let keep = |set: &CopySet| -> CopySet {
        let mut seen = BTreeSet::new();
        let stays =
            |node: &NodeId| nodes.get(node).is_some_and(|it| it.duty != PlacementDuty::Leaves);
        let kept = set.iter().copied().filter(|node| stays(node) && seen.insert(*node));
        kept.take(copies).collect()
    };
    let mut wanted: BTreeMap<StreamletName, CopySet> =
        present.iter().map(|(name, set)| (name.clone(), keep(set))).collect();
    for set in wanted.values() {
        load.add_set(set);
    }
    for set in wanted.values_mut() {
        while set.len() < copies {
            let Some(node) = choose(nodes, set, &load, set.is_empty()) else { break };
            if set.is_empty() {
                *load.leaders.entry(node).or_default() += 1;
            }
            *load.copies.entry(node).or_default() += 1;
            set.push(node);
        }
    }
    wanted
}

/// The number of copies and of first copies on each node.
#[derive(Clone, Debug, Default)]
struct Load {
    copies: BTreeMap<NodeId, u64>,
    leaders: BTreeMap<NodeId, u64>,
}

impl Load {
    fn add_set(&mut self, set: &CopySet) {
        for node in set {
            *self.copies.entry(*node).or_default() += 1;
        }
        if let Some(first) = set.first() {
            *self.leaders.entry(*first).or_default() += 1;
        }
    }

    /// The load for the size of a node, comparable between nodes.
    fn of(counts: &BTreeMap<NodeId, u64>, node: NodeId, size: u32) -> u64 {
        const SCALE: u64 = 1 << 20;
        counts.get(&node).copied().unwrap_or(0) * SCALE / u64::from(size.max(1))
    }
}

/// The node for one more copy of a streamlet. None: no other node may take one.
fn choose(
    nodes: &BTreeMap<NodeId, PlacementNode>,
    set: &CopySet,
    load: &Load,
    leads: bool,
) -> Option<NodeId> {
    let racks: BTreeSet<&str> =
        set.iter().filter_map(|it| nodes.get(it)?.rack.as_deref()).collect();
    let candidates = nodes.iter().filter(|(id, it)| it.takes_copies() && !set.contains(id));
    let best = candidates.min_by_key(|(id, it)| {
        let is_rack_used = it.rack.as_deref().is_some_and(|rack| racks.contains(rack));
        let leaders = if leads { Load::of(&load.leaders, **id, it.size) } else { 0 };
        (is_rack_used, leaders, Load::of(&load.copies, **id, it.size), **id)
    });
    best.map(|(id, _)| *id)
}

/// One copy that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyMove {
    /// The streamlet.
    pub streamlet: StreamletName,
    /// The node that gives it up.
    pub from: NodeId,
    /// The node that gets it.
    pub to: NodeId,
}

/// Moves of copies that make the load of nodes more even, at most `moves_max`. Each makes the
/// difference between two nodes smaller, so the moves end. No move puts a copy into a rack that has
/// one already, unless it comes from there.
#[must_use]
pub fn rebalance(
    nodes: &BTreeMap<NodeId, PlacementNode>,
    present: &BTreeMap<StreamletName, CopySet>,
    moves_max: usize,
) -> Vec<CopyMove> {
    let mut sets = present.clone();
    let mut load = Load::default();
    sets.values().for_each(|set| load.add_set(set));
    let mut moves = Vec::new();
    while moves.len() < moves_max {
        let Some(next) = next_move(nodes, &sets, &load) else { break };
        let set = sets.get_mut(&next.streamlet).expect("a move is of a streamlet that is there");
        set.iter_mut().filter(|it| **it == next.from).for_each(|it| *it = next.to);
        *load.copies.entry(next.from).or_default() -= 1;
        *load.copies.entry(next.to).or_default() += 1;
        moves.push(next);
    }
    moves
}

fn next_move(
    nodes: &BTreeMap<NodeId, PlacementNode>,
    sets: &BTreeMap<StreamletName, CopySet>,
    load: &Load,
) -> Option<CopyMove> {
    let share = |id: NodeId, more: i64| -> u64 {
        let size = u64::from(nodes.get(&id).map_or(1, |it| it.size.max(1)));
        let count = load.copies.get(&id).copied().unwrap_or(0).saturating_add_signed(more);
        count * (1 << 20) / size
    };
    let mut givers: Vec<NodeId> = nodes.keys().copied().collect();
    givers.sort_by_key(|id| (std::cmp::Reverse(share(*id, 0)), *id));
    let mut takers: Vec<NodeId> =
        nodes.iter().filter(|(_, it)| it.takes_copies()).map(|(id, _)| *id).collect();
    takers.sort_by_key(|id| (share(*id, 0), *id));
    let rack = |id: &NodeId| nodes.get(id).and_then(|it| it.rack.as_deref());
    for from in &givers {
        for to in &takers {
            // With one copy less the giver must still have no less than the taker gets.
            if from == to || share(*to, 1) > share(*from, -1) {
                continue;
            }
            let fits = |set: &CopySet| {
                let others = || set.iter().filter(|it| *it != from);
                let is_rack_free = rack(to).is_none() || others().all(|it| rack(it) != rack(to));
                set.contains(from) && !set.contains(to) && is_rack_free
            };
            if let Some((streamlet, _)) = sets.iter().find(|(_, set)| fits(set)) {
                return Some(CopyMove { streamlet: streamlet.clone(), from: *from, to: *to });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
