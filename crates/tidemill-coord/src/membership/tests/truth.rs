//! The table as it is: a checker that reads JSON by itself and shares no code with the product.

use crate::{
    Coordinator, CoordinatorError, ModelCoordinator, Watch,
    key::Revision,
    membership::ClusterView,
    transaction::{Change, Listing},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A node of the table: incarnation of the record, live incarnation, desired state.
type TruthNode = (u64, Option<u64>, String);

/// The controller of the table: node, incarnation, revision of the election.
type TruthController = (u64, u64, Revision);

/// The history of the table, checked change by change.
pub(super) struct Truth {
    handle: ModelCoordinator,
    watch: Box<dyn Watch>,
    values: BTreeMap<String, serde_json::Value>,
    live_incarnations: BTreeSet<u64>,
    pub(super) elections: u64,
    /// The newest change that was checked.
    pub(super) checked: Revision,
}

fn number(value: &serde_json::Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} in {value}"))
}

fn parse(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).expect("the table holds JSON")
}

impl Truth {
    pub(super) fn new(handle: ModelCoordinator) -> Self {
        let watch = handle.watch("", Revision::NONE).expect("the table answers");
        let (values, live_incarnations) = (BTreeMap::new(), BTreeSet::new());
        Self { handle, watch, values, live_incarnations, elections: 0, checked: Revision::NONE }
    }

    /// Checks all changes up to now. Only those that were checked may be compacted.
    pub(super) fn check_changes(&mut self) {
        loop {
            let changes = match self.watch.changes(Duration::ZERO) {
                Ok(changes) if changes.is_empty() => return,
                Ok(changes) => changes,
                Err(CoordinatorError::Compacted { .. }) => panic!("changes are checked first"),
                Err(error) => panic!("{error}"),
            };
            for change in changes {
                self.check_change(&change);
                self.checked = change.revision;
            }
        }
    }

    fn check_change(&mut self, change: &Change) {
        let key = change.key.as_str().to_owned();
        if key == "decision" {
            return;
        }
        let Some(value) = change.value.as_deref().map(parse) else {
            self.values.remove(&key);
            return;
        };
        if key == "incarnations" {
            let before = self.values.get(&key).map_or(0, |it| number(it, "last"));
            assert!(number(&value, "last") > before, "the counter goes back at {change:?}");
        }
        if key.starts_with("live/") {
            let incarnation = number(&value, "incarnation");
            assert!(self.live_incarnations.insert(incarnation), "used twice: {change:?}");
        }
        if key.starts_with("nodes/") {
            let before = self.values.get(&key).map_or(0, |it| number(it, "incarnation"));
            assert!(number(&value, "incarnation") >= before, "a node goes back: {change:?}");
        }
        if key == "controller" {
            self.elections += 1;
            if let Some(before) = self.values.get(&key) {
                assert!(!self.is_live(before), "{before} was the controller at {change:?}");
            }
            assert!(self.is_live(&value), "a controller that is not live: {change:?}");
        }
        self.values.insert(key, value);
    }

    fn is_live(&self, controller: &serde_json::Value) -> bool {
        let live = self.values.get(&format!("live/{}", number(controller, "node")));
        live.is_some_and(|it| number(it, "incarnation") == number(controller, "incarnation"))
    }

    pub(super) fn listing(&self) -> Listing {
        self.handle.list("").expect("the table answers")
    }

    /// The newest incarnation that was drawn.
    pub(super) fn last_incarnation(&self) -> u64 {
        let listing = self.listing();
        let counter = listing.entries.iter().find(|it| it.key.as_str() == "incarnations");
        counter.map_or(0, |it| number(&parse(&it.value), "last"))
    }

    /// The nodes, and the controller with the revision of its election.
    fn nodes(listing: &Listing) -> (BTreeMap<i32, TruthNode>, Option<TruthController>) {
        let mut nodes: BTreeMap<i32, TruthNode> = BTreeMap::new();
        let mut controller = None;
        for entry in listing.entries.iter().filter(|it| it.key.as_str() != "decision") {
            let value = parse(&entry.value);
            if let Some(id) = entry.key.as_str().strip_prefix("nodes/") {
                let node = nodes.entry(id.parse().expect("an id")).or_default();
                node.0 = number(&value, "incarnation");
                node.2 = value["desired"].as_str().expect("text").to_owned();
            } else if let Some(id) = entry.key.as_str().strip_prefix("live/") {
                let node = nodes.entry(id.parse().expect("an id")).or_default();
                node.1 = Some(number(&value, "incarnation"));
            } else if entry.key.as_str() == "controller" {
                let (node, incarnation) = (number(&value, "node"), number(&value, "incarnation"));
                controller = Some((node, incarnation, entry.modified));
            }
        }
        (nodes, controller)
    }

    /// The revision of the election of the controller of now.
    pub(super) fn elected(&self) -> Option<Revision> {
        Self::nodes(&self.listing()).1.map(|it| it.2)
    }

    /// The difference of a view from the table of now; none if it is the same.
    pub(super) fn difference(&self, view: &ClusterView) -> Option<String> {
        let listing = self.listing();
        let (nodes, controller) = Self::nodes(&listing);
        let seen: BTreeMap<i32, TruthNode> = view
            .nodes
            .iter()
            .map(|(id, it)| {
                let live = it.live.map(|it| u64::from(it.incarnation.0));
                let desired = it.record.desired.to_string();
                (id.0, (u64::from(it.record.incarnation.0), live, desired))
            })
            .collect();
        let leads = view.controller.map(|it| {
            (u64::from(it.node.0.unsigned_abs()), u64::from(it.incarnation.0), it.elected)
        });
        let is_same = seen == nodes && leads == controller && view.revision == listing.revision;
        (!is_same).then(|| {
            format!(
                "at {} it sees {seen:?} {leads:?}, at {} there are {nodes:?} {controller:?}",
                view.revision, listing.revision
            )
        })
    }

    /// The incarnations that hold leases.
    pub(super) fn live(&self) -> BTreeSet<(i32, u64)> {
        let (nodes, _) = Self::nodes(&self.listing());
        nodes.iter().filter_map(|(id, it)| it.1.map(|live| (*id, live))).collect()
    }
}
