//! Random walks of whole virtual logs: the machines as nodes would run them, on a network that loses,
//! doubles and reorders, with crashes between any two steps, power cuts and late writes.
//!
//! The checker knows entries and promises alone, nothing of the machines.

mod cluster;
mod promises;

use cluster::{Cluster, SyncsWhen};
use proptest::prelude::*;

/// Walks of one kind: a seed, and how many steps.
fn walk(seed: u64, syncs: SyncsWhen, steps: usize) {
    let mut cluster = Cluster::new(seed, syncs);
    for _ in 0..steps {
        cluster.step();
        cluster.check();
    }
    cluster.heal();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn keeps_its_promises_when_copies_sync_first(seed in any::<u64>()) {
        walk(seed, SyncsWhen::BeforeAnswer, 600);
    }

    #[test]
    fn keeps_its_promises_when_copies_sync_later(seed in any::<u64>()) {
        walk(seed, SyncsWhen::Later, 600);
    }
}

/// The walks do what they are for: records are acknowledged under many epochs and sets.
#[test]
fn walks_reach_promotions_and_changes_of_set() {
    let (mut acknowledged, mut epochs, mut changes, mut losses) = (0, 0, 0, 0);
    for seed in 0..50 {
        let mut cluster = Cluster::new(seed, SyncsWhen::Later);
        for _ in 0..600 {
            cluster.step();
        }
        acknowledged += cluster.promises.acknowledged_total;
        epochs += cluster.promises.acknowledgers.len();
        changes += cluster.changes;
        losses += cluster.losses;
    }
    println!("{acknowledged} records, {epochs} epochs, {changes} changes, {losses} losses");
    assert!(acknowledged > 500 && epochs > 80 && changes > 50 && losses > 50);
}
