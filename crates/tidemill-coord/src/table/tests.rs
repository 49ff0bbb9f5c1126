//! The table against a naive model.

use super::*;
use proptest::prelude::*;

fn key(number: u8) -> Key {
    Key::new(format!("k{number}")).expect("a short name")
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Put { key: u8, value: u8, lease: Option<u8> },
    Delete { key: u8 },
    Require { key: u8, is_current: bool, write: u8 },
    Grant,
    End { lease: u8 },
    Compact,
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5u8, any::<u8>(), prop::option::of(0..4u8))
            .prop_map(|(key, value, lease)| Step::Put { key, value, lease }),
        2 => (0..5u8).prop_map(|key| Step::Delete { key }),
        3 => (0..5u8, any::<bool>(), 0..5u8)
            .prop_map(|(key, is_current, write)| Step::Require { key, is_current, write }),
        2 => Just(Step::Grant),
        1 => (0..4u8).prop_map(|lease| Step::End { lease }),
        1 => Just(Step::Compact),
        1 => Just(Step::Restore),
    ]
}

proptest! {
    #[test]
    fn a_table_is_what_a_map_says(steps in prop::collection::vec(step(), 0..60)) {
        let mut table = Table::default();
        let mut expected: BTreeMap<Key, (Vec<u8>, Option<LeaseId>)> = BTreeMap::new();
        let mut leases: BTreeSet<LeaseId> = BTreeSet::new();
        // A watcher that reads after every step must be able to rebuild the table from changes alone.
        let mut watched: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
        let mut seen = Revision::NONE;
        for step in steps {
            let before = table.revision();
            match step {
                Step::Put { key: number, value, lease } => {
                    let lease = lease.map(|it| LeaseId(i64::from(it) + 1));
                    let write = Write::Put { key: key(number), value: vec![value], lease };
                    let transaction = Transaction { writes: vec![write], ..Transaction::default() };
                    let reply = table.apply(&Command::Commit(transaction));
                    if lease.is_none_or(|it| leases.contains(&it)) {
                        prop_assert_eq!(reply, Ok(Reply::Commit(CommitOutcome::Applied(before.next()))));
                        expected.insert(key(number), (vec![value], lease));
                    } else {
                        prop_assert_eq!(reply, Err(CoordinatorError::LeaseExpired(lease.expect("named"))));
                    }
                }
                Step::Delete { key: number } => {
                    let transaction = Transaction::new().delete(&key(number));
                    table.apply(&Command::Commit(transaction)).expect("a delete applies");
                    expected.remove(&key(number));
                }
                Step::Require { key: number, is_current, write } => {
                    let current = table.modified(&key(number));
                    let modified = if is_current { current } else { current.next() };
                    let transaction =
                        Transaction::new().require(&key(number), modified).put(&key(write), "r");
                    let reply = table.apply(&Command::Commit(transaction)).expect("is answered");
                    prop_assert_eq!(reply == Reply::Commit(CommitOutcome::Refused(before)), !is_current);
                    if is_current {
                        expected.insert(key(write), (b"r".to_vec(), None));
                    }
                }
                Step::Grant => {
                    let reply = table.apply(&Command::Grant { ttl_ms: 1_000 }).expect("few leases");
                    let Reply::Lease(lease) = reply else { panic!("{reply:?}") };
                    prop_assert!(leases.insert(lease), "a lease's id is never used again");
                }
                Step::End { lease } => {
                    let lease = LeaseId(i64::from(lease) + 1);
                    table.apply(&Command::End { lease }).expect("ending applies");
                    leases.remove(&lease);
                    expected.retain(|_, (_, bound)| *bound != Some(lease));
                }
                Step::Compact => table.compact(table.revision()),
                Step::Restore => {
                    let restored = Table::restore(&table.snapshot()).expect("its own snapshot");
                    prop_assert_eq!(&restored.contents, &table.contents);
                    // The history of a restored table begins anew: the watcher has read all of it.
                    table = restored;
                }
            }
            prop_assert!(table.revision() >= before);
            let entries: BTreeMap<Key, (Vec<u8>, Option<LeaseId>)> = table
                .list("")
                .entries
                .into_iter()
                .map(|it| (it.key, (it.value, it.lease)))
                .collect();
            prop_assert_eq!(&entries, &expected);
            let bound: BTreeSet<&Key> = table.contents.leases.values().flat_map(|it| &it.keys).collect();
            let with_lease: BTreeSet<&Key> =
                expected.iter().filter(|(_, it)| it.1.is_some()).map(|(key, _)| key).collect();
            prop_assert_eq!(bound, with_lease);
            if let Ok(changes) = table.changes("", seen) {
                for change in changes {
                    prop_assert!(change.revision > seen);
                    match change.value {
                        Some(value) => watched.insert(change.key, value),
                        None => watched.remove(&change.key),
                    };
                }
            } else {
                let listing = table.list("");
                watched = listing.entries.into_iter().map(|it| (it.key, it.value)).collect();
            }
            seen = table.revision();
            let values: BTreeMap<Key, Vec<u8>> =
                expected.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
            prop_assert_eq!(&watched, &values);
        }
    }

    #[test]
    fn any_bytes_restore_to_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _no_panic = Table::restore(&bytes);
    }
}

#[test]
fn history_is_bounded() {
    let mut table = Table::default();
    let value = vec![0; crate::key::VALUE_BYTES_MAX];
    for _ in 0..100 {
        let transaction = Transaction::new().put(&key(1), value.clone());
        table.apply(&Command::Commit(transaction)).expect("is applied");
    }
    assert!(table.history_bytes <= HISTORY_BYTES_MAX);
    let told = table.changes("", Revision(1));
    assert!(matches!(told, Err(CoordinatorError::Compacted { .. })), "{told:?}");
    assert_eq!(table.changes("", table.revision()), Ok(Vec::new()));
}
