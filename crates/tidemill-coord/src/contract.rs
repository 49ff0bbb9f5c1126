//! The contract of a [`Coordinator`], run against every home.
//!
//! Each property is a function of a [`Harness`]; [`contract!`] makes a test of each. A home that is a
//! server is shared by the tests, so every test works under a prefix of its own.

use crate::{
    coordinator::Coordinator,
    error::CoordinatorError,
    key::{Key, Revision},
    transaction::{Change, CommitOutcome, Transaction},
};
use std::time::Duration;

/// A home, and the means to let time pass and to compact it.
pub struct Harness {
    /// The home under test.
    pub coordinator: Box<dyn Coordinator>,
    /// A second handle of the same table, as another node has it.
    pub other: Box<dyn Coordinator>,
    /// Lets this much time pass.
    pub pass: Box<dyn Fn(Duration)>,
    /// Forgets the changes up to a revision.
    pub compact: Box<dyn Fn(Revision)>,
    /// Before every key of the test.
    pub prefix: String,
}

impl Harness {
    fn key(&self, name: &str) -> Key {
        Key::new(format!("{}{name}", self.prefix)).expect("a short name")
    }

    fn put(&self, name: &str, value: &str) -> Revision {
        let transaction = Transaction::new().put(&self.key(name), value);
        match self.coordinator.commit(&transaction).expect("the home answers") {
            CommitOutcome::Applied(revision) => revision,
            CommitOutcome::Refused(at) => panic!("a put without comparisons was refused at {at}"),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        let found = self.coordinator.get(&self.key(name)).expect("the home answers");
        found.map(|it| String::from_utf8(it.value).expect("the tests put text"))
    }
}

const SOON: Duration = Duration::from_secs(5);
const NOW: Duration = Duration::ZERO;

/// The name without its prefix, and the value, of each change.
fn seen(harness: &Harness, changes: &[Change]) -> Vec<(String, Option<String>)> {
    changes
        .iter()
        .map(|it| {
            let name = it.key.as_str().strip_prefix(&harness.prefix).expect("a key of the test");
            let value = it.value.clone().map(|it| String::from_utf8(it).expect("text"));
            (name.to_owned(), value)
        })
        .collect()
}

/// Reads from a watch until `count` changes are there.
fn read(watch: &mut dyn crate::Watch, count: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..100 {
        if changes.len() >= count {
            break;
        }
        changes.extend(watch.changes(SOON).expect("the watch goes on"));
    }
    changes
}

pub fn a_put_is_read_by_every_node(harness: &Harness) {
    assert_eq!(harness.value("a"), None);
    let revision = harness.put("a", "1");
    let found = harness.other.get(&harness.key("a")).expect("answers").expect("is there");
    assert_eq!((found.value, found.modified), (b"1".to_vec(), revision));
    assert!(harness.put("a", "2") > revision, "each commit has a revision of its own");
    assert_eq!(harness.value("a").as_deref(), Some("2"));
}

pub fn values_are_bytes(harness: &Harness) {
    let key = harness.key("bytes");
    let value: Vec<u8> = (0..=255).collect();
    for value in [value, Vec::new()] {
        harness.coordinator.commit(&Transaction::new().put(&key, value.clone())).expect("answers");
        let found = harness.other.get(&key).expect("answers").expect("is there");
        assert_eq!(found.value, value);
    }
}

pub fn a_comparison_that_fails_changes_nothing(harness: &Harness) {
    let (key, other) = (harness.key("cas"), harness.key("cas-other"));
    let first = Transaction::new().require_absent(&key).put(&key, "mine");
    let CommitOutcome::Applied(revision) = harness.coordinator.commit(&first).expect("answers")
    else {
        panic!("the key was absent")
    };
    let late = Transaction::new().require_absent(&key).put(&key, "yours").put(&other, "too");
    assert!(!harness.other.commit(&late).expect("answers").is_applied());
    assert_eq!(harness.value("cas").as_deref(), Some("mine"));
    assert_eq!(harness.value("cas-other"), None, "a transaction is applied as a whole");
    let next = Transaction::new().require(&key, revision).put(&key, "ours").put(&other, "too");
    assert!(harness.other.commit(&next).expect("answers").is_applied());
    assert_eq!(harness.value("cas-other").as_deref(), Some("too"));
    assert!(!harness.coordinator.commit(&next).expect("answers").is_applied(), "not twice");
}

pub fn a_deleted_key_is_absent(harness: &Harness) {
    let key = harness.key("gone");
    harness.put("gone", "1");
    assert!(
        harness.coordinator.commit(&Transaction::new().delete(&key)).expect("answers").is_applied()
    );
    assert_eq!(harness.value("gone"), None);
    let again = Transaction::new().require_absent(&key).delete(&key);
    assert!(harness.coordinator.commit(&again).expect("answers").is_applied());
}

pub fn a_listing_is_sorted_and_of_its_prefix(harness: &Harness) {
    for name in ["list/b", "list/a", "lisp", "list/a/x", "listing"] {
        harness.put(name, name);
    }
    let listing = harness.coordinator.list(harness.key("list/").as_str()).expect("answers");
    let names: Vec<&str> = listing.entries.iter().map(|it| it.key.as_str()).collect();
    let expected = ["list/a", "list/a/x", "list/b"].map(|it| format!("{}{it}", harness.prefix));
    assert_eq!(names, expected);
    assert!(listing.entries.iter().all(|it| it.modified <= listing.revision));
}

pub fn a_watch_sees_each_change_once_and_in_order(harness: &Harness) {
    let start = harness.coordinator.list(harness.key("w/").as_str()).expect("answers").revision;
    let mut watch = harness.coordinator.watch(harness.key("w/").as_str(), start).expect("answers");
    harness.put("w/a", "1");
    harness.put("v", "not under the prefix");
    harness.put("w/b", "2");
    harness.put("w/a", "3");
    harness.other.commit(&Transaction::new().delete(&harness.key("w/a"))).expect("answers");
    let changes = read(&mut *watch, 4);
    let expected = [("w/a", Some("1")), ("w/b", Some("2")), ("w/a", Some("3")), ("w/a", None)]
        .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    assert_eq!(seen(harness, &changes), expected);
    assert!(changes.is_sorted_by_key(|it| it.revision));
    assert_eq!(watch.changes(NOW).expect("goes on"), Vec::new());
}

pub fn a_watch_begins_after_its_revision(harness: &Harness) {
    harness.put("r/a", "1");
    let revision = harness.put("r/b", "2");
    harness.put("r/c", "3");
    let mut watch = harness.other.watch(harness.key("r/").as_str(), revision).expect("answers");
    let changes = read(&mut *watch, 1);
    assert_eq!(seen(harness, &changes), [("r/c".to_owned(), Some("3".to_owned()))]);
}

pub fn the_changes_of_one_commit_come_together(harness: &Harness) {
    let start = harness.coordinator.list(&harness.prefix).expect("answers").revision;
    let mut watch = harness.coordinator.watch(&harness.prefix, start).expect("answers");
    let both = Transaction::new().put(&harness.key("t/a"), "1").put(&harness.key("t/b"), "2");
    harness.other.commit(&both).expect("answers");
    let mut first = Vec::new();
    while first.is_empty() {
        first = watch.changes(SOON).expect("goes on");
    }
    assert_eq!(first.len(), 2, "{first:?}");
    assert_eq!(first[0].revision, first[1].revision);
}

pub fn a_compacted_watch_is_told(harness: &Harness) {
    let start = harness.put("c/a", "1");
    harness.put("c/b", "2");
    let newest = harness.put("c/c", "3");
    (harness.compact)(newest);
    let prefix = harness.key("c/");
    let told = harness
        .coordinator
        .watch(prefix.as_str(), start)
        .and_then(|mut watch| watch.changes(SOON).map(drop));
    assert!(matches!(told, Err(CoordinatorError::Compacted { .. })), "{told:?}");
    // The way out: read, and watch from there.
    let listing = harness.coordinator.list(prefix.as_str()).expect("answers");
    assert_eq!(listing.entries.len(), 3);
    let mut watch = harness.coordinator.watch(prefix.as_str(), listing.revision).expect("answers");
    harness.put("c/d", "4");
    assert_eq!(read(&mut *watch, 1).len(), 1);
}

pub fn a_lease_takes_its_keys_along(harness: &Harness) {
    // Long enough that a busy machine does not let it expire between two calls.
    let ttl = Duration::from_secs(6);
    let lease = harness.coordinator.grant_lease(ttl).expect("answers");
    let (bound, free) = (harness.key("l/bound"), harness.key("l/free"));
    let transaction = Transaction::new().put_leased(&bound, "1", lease).put(&free, "2");
    harness.coordinator.commit(&transaction).expect("answers");
    let start = harness.other.list(harness.key("l/").as_str()).expect("answers").revision;
    let mut watch = harness.other.watch(harness.key("l/").as_str(), start).expect("answers");
    for _ in 0..3 {
        (harness.pass)(ttl / 2);
        harness.coordinator.keep_alive(lease).expect("the lease lives");
    }
    assert_eq!(harness.value("l/bound").as_deref(), Some("1"));
    (harness.pass)(ttl * 2);
    assert_eq!(seen(harness, &read(&mut *watch, 1)), [("l/bound".to_owned(), None)]);
    assert_eq!(harness.value("l/bound"), None);
    assert_eq!(harness.value("l/free").as_deref(), Some("2"));
    let kept = harness.coordinator.keep_alive(lease);
    assert_eq!(kept, Err(CoordinatorError::LeaseExpired(lease)));
    let late = harness.coordinator.commit(&Transaction::new().put_leased(&bound, "3", lease));
    assert_eq!(late, Err(CoordinatorError::LeaseExpired(lease)));
}

pub fn a_revoked_lease_is_gone_at_once(harness: &Harness) {
    let lease = harness.coordinator.grant_lease(Duration::from_secs(60)).expect("answers");
    let key = harness.key("revoked");
    harness.coordinator.commit(&Transaction::new().put_leased(&key, "1", lease)).expect("answers");
    harness.coordinator.revoke_lease(lease).expect("answers");
    assert_eq!(harness.value("revoked"), None);
    harness.coordinator.revoke_lease(lease).expect("revoking twice changes nothing");
}

pub fn a_key_leaves_its_lease_when_it_is_put_without(harness: &Harness) {
    let lease = harness.coordinator.grant_lease(Duration::from_secs(60)).expect("answers");
    let key = harness.key("unbound");
    harness.coordinator.commit(&Transaction::new().put_leased(&key, "1", lease)).expect("answers");
    harness.coordinator.commit(&Transaction::new().put(&key, "2")).expect("answers");
    harness.coordinator.revoke_lease(lease).expect("answers");
    assert_eq!(harness.value("unbound").as_deref(), Some("2"));
}

pub fn requests_beyond_the_limits_are_refused(harness: &Harness) {
    let key = harness.key("large");
    let refused = |it: Result<CommitOutcome, CoordinatorError>| {
        assert!(matches!(it, Err(CoordinatorError::Invalid(_))), "{it:?}");
    };
    let value = vec![0; crate::key::VALUE_BYTES_MAX + 1];
    refused(harness.coordinator.commit(&Transaction::new().put(&key, value)));
    refused(harness.coordinator.commit(&Transaction::new().put(&key, "1").delete(&key)));
    let mut many = Transaction::new();
    for number in 0..=crate::transaction::OPERATIONS_MAX {
        many = many.delete(&harness.key(&format!("many/{number}")));
    }
    refused(harness.coordinator.commit(&many));
    let short = harness.coordinator.grant_lease(Duration::from_millis(10));
    assert!(matches!(short, Err(CoordinatorError::Invalid(_))), "{short:?}");
}

/// Makes a test of each property for one home.
#[macro_export]
#[doc(hidden)]
macro_rules! contract {
    ($harness:path) => {
        $crate::contract!($harness:
            a_put_is_read_by_every_node, values_are_bytes, a_comparison_that_fails_changes_nothing,
            a_deleted_key_is_absent, a_listing_is_sorted_and_of_its_prefix,
            a_watch_sees_each_change_once_and_in_order, a_watch_begins_after_its_revision,
            the_changes_of_one_commit_come_together, a_compacted_watch_is_told,
            a_lease_takes_its_keys_along, a_revoked_lease_is_gone_at_once,
            a_key_leaves_its_lease_when_it_is_put_without, requests_beyond_the_limits_are_refused,
        );
    };
    ($harness:path: $($property:ident),* $(,)?) => {
        $(#[test]
        fn $property() {
            $crate::contract::$property(&$harness(stringify!($property)));
        })*
    };
}
pub use crate::contract;
