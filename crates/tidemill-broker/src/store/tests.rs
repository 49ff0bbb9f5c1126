//! The store against power cuts, failing and full disks, and flipped bytes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_env::{Disk, SimWorld};

const FILE: &str = "data/broker.redb";

fn sim(seed: u64) -> SimWorld {
    let sim = World::simulated(seed);
    sim.disk.create_dir_all(Path::new("data")).unwrap();
    sim.disk.sync_dir(Path::new("")).unwrap();
    sim
}

fn open(sim: &SimWorld) -> Result<MetadataStore, StoreError> {
    MetadataStore::open(&sim.world, Path::new(FILE))
}

type Content = BTreeMap<(StoreTable, Vec<u8>), Vec<u8>>;

fn content(store: &MetadataStore) -> Content {
    let mut content = Content::new();
    for table in StoreTable::ALL {
        let visit = |key: &[u8], value: &[u8]| {
            content.insert((table, key.to_vec()), value.to_vec());
            ControlFlow::Continue(())
        };
        store.scan(table, &[], visit).unwrap();
    }
    content
}

/// Changes two tables, the same two keys of each in every batch.
fn batch(number: u32) -> StoreBatch {
    let mut batch = StoreBatch::default();
    batch.put(StoreTable::Offsets, b"all".as_slice(), number.to_be_bytes());
    batch.put(StoreTable::Groups, b"all".as_slice(), number.to_be_bytes());
    let (here, gone) = if number.is_multiple_of(2) { ("even", "odd") } else { ("odd", "even") };
    batch.put(StoreTable::Offsets, here, vec![number as u8; 700]);
    batch.delete(StoreTable::Offsets, gone);
    batch
}

fn after(number: u32) -> Content {
    let all = b"all".to_vec();
    let here = if number.is_multiple_of(2) { "even" } else { "odd" };
    BTreeMap::from([
        ((StoreTable::Offsets, all.clone()), number.to_be_bytes().to_vec()),
        ((StoreTable::Groups, all), number.to_be_bytes().to_vec()),
        ((StoreTable::Offsets, here.as_bytes().to_vec()), vec![number as u8; 700]),
    ])
}

/// The batch that the store has last; 0 for none. Half a batch is none of these.
fn newest(store: &MetadataStore) -> u32 {
    let content = content(store);
    if content.is_empty() {
        return 0;
    }
    let number = &content[&(StoreTable::Offsets, b"all".to_vec())];
    let number = u32::from_be_bytes(number.as_slice().try_into().unwrap());
    assert!(content == after(number), "half of batch {number}");
    number
}

#[test]
fn values_come_back_in_order_and_by_prefix() {
    let sim = sim(1);
    let store = open(&sim).unwrap();
    let mut batch = StoreBatch::default();
    for key in ["b2", "a", "b1", "c", "b"] {
        batch.put(StoreTable::Groups, key, format!("value of {key}"));
    }
    batch.delete(StoreTable::Groups, "c");
    batch.put(StoreTable::Producers, "b", "elsewhere");
    assert!(!batch.is_empty());
    store.commit_blocking(batch).unwrap();
    let mut seen = Vec::new();
    store
        .scan(StoreTable::Groups, b"b", |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            if seen.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
    let expected = ["b", "b1"].map(|it| (it.as_bytes().to_vec(), format!("value of {it}")));
    assert_eq!(seen, expected.map(|(key, value)| (key, value.into_bytes())));
    assert_eq!(store.get(StoreTable::Groups, b"a").unwrap(), Some(b"value of a".to_vec()));
    assert_eq!(store.get(StoreTable::Groups, b"c").unwrap(), None);
    assert_eq!(store.get(StoreTable::Settings, b"a").unwrap(), None);
}

#[test]
fn the_last_of_two_changes_of_a_key_counts() {
    let store = open(&sim(1)).unwrap();
    let mut first = StoreBatch::default();
    first.put(StoreTable::Groups, "a", "1");
    first.delete(StoreTable::Groups, "a");
    let mut second = StoreBatch::default();
    second.delete(StoreTable::Groups, "b");
    second.put(StoreTable::Groups, "b", "2");
    first.append(second);
    store.commit_blocking(first).unwrap();
    assert_eq!(store.get(StoreTable::Groups, b"a").unwrap(), None);
    assert_eq!(store.get(StoreTable::Groups, b"b").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn batches_are_applied_as_they_were_handed_in_though_nobody_waits() {
    let sim = sim(1);
    let store = open(&sim).unwrap();
    for number in 1..=500 {
        drop(store.commit(batch(number)));
    }
    store.close();
    assert_eq!(store.commit_blocking(batch(501)), Err(StoreError::Closed));
    assert_eq!(store.get(StoreTable::Groups, b"all"), Err(StoreError::Closed));
    assert_eq!(newest(&open(&sim).unwrap()), 500);
}

#[test]
fn commits_that_wait_share_a_sync() {
    let sim = sim(1);
    let store = open(&sim).unwrap();
    // The thread is kept busy by a notice until all others are handed in.
    let (go, gone) = mpsc::channel::<()>();
    store.commit_then(batch(1), Box::new(move |_| gone.recv().unwrap())).unwrap();
    let before = sim.disk.operations();
    let (done, waits) = mpsc::channel();
    for number in 2..=200 {
        let done = done.clone();
        let notice = Box::new(move |outcome| done.send(outcome).unwrap());
        store.commit_then(batch(number), notice).unwrap();
    }
    go.send(()).unwrap();
    (2..=200).for_each(|_| waits.recv().unwrap().unwrap());
    let operations = sim.disk.operations() - before;
    assert!(operations < 100, "{operations} operations for 200 batches");
    assert_eq!(newest(&store), 200);
}

#[test]
fn too_large_a_batch_is_refused_alone() {
    let store = open(&sim(1)).unwrap();
    let mut large = StoreBatch::default();
    large.put(StoreTable::Groups, "a", vec![0; BATCH_BYTES_MAX]);
    assert!(matches!(store.commit_blocking(large), Err(StoreError::TooLarge { .. })));
    let mut long = StoreBatch::default();
    long.put(StoreTable::Groups, vec![0; KEY_BYTES_MAX + 1], "");
    assert!(matches!(store.commit_blocking(long), Err(StoreError::TooLarge { .. })));
    store.commit_blocking(batch(1)).unwrap();
    assert_eq!(newest(&store), 1);
}

#[test]
fn two_processes_cannot_have_one_file() {
    let sim = sim(1);
    let store = open(&sim).unwrap();
    assert!(matches!(open(&sim), Err(StoreError::InUse { .. })));
    drop(store);
    open(&sim).unwrap();
}

/// E1: the power is cut, or the process killed, at every operation of a life.
#[test]
fn e1_power_cuts_at_every_operation_lose_nothing_committed() {
    const BATCHES: u32 = 6;
    let whole = {
        let sim = sim(0);
        let store = open(&sim).unwrap();
        (1..=BATCHES).for_each(|it| store.commit_blocking(batch(it)).unwrap());
        drop(store);
        sim.disk.operations()
    };
    for operation in 0..whole {
        for seed in 0..6 {
            let sim = sim(seed);
            let start = sim.disk.operations();
            sim.disk.fail_after((operation + 1).saturating_sub(start));
            let mut committed = 0;
            let mut tried = 0;
            if let Ok(store) = open(&sim) {
                for number in 1..=BATCHES {
                    tried = number;
                    match store.commit_blocking(batch(number)) {
                        Ok(()) => committed = number,
                        Err(_) => break,
                    }
                }
                // The process dies here: what it would still do on its way out does not happen.
                if seed % 2 == 0 {
                    sim.disk.power_cut()
                } else {
                    sim.disk.kill()
                }
                drop(store);
            }
            sim.disk.power_cut();
            let store = open(&sim).unwrap();
            let newest = newest(&store);
            assert!(
                (committed..=tried).contains(&newest),
                "operation {operation}, seed {seed}: {newest} of {committed}..={tried}"
            );
            store.commit_blocking(batch(100)).unwrap();
            drop(store);
            sim.disk.power_cut();
            assert_eq!(self::newest(&open(&sim).unwrap()), 100);
        }
    }
}

/// A failed write costs the batch that met it, and it is not there; the next one is.
#[test]
fn an_error_of_the_disk_costs_one_batch_and_is_told_truly() {
    let mut outcomes = BTreeMap::new();
    for operation in 0..60 {
        let sim = sim(operation);
        let store = open(&sim).unwrap();
        store.commit_blocking(batch(1)).unwrap();
        sim.disk.fail_after(operation);
        let second = store.commit_blocking(batch(2));
        let third = store.commit_blocking(batch(3));
        match (&second, &third) {
            (Ok(()), Ok(())) => assert_eq!(newest(&store), 3),
            (Err(StoreError::Disk { .. }), Ok(())) => assert_eq!(newest(&store), 3),
            (Ok(()), Err(StoreError::Disk { .. })) => assert_eq!(newest(&store), 2),
            (Err(StoreError::Failed { .. }), Err(StoreError::Failed { .. })) => {}
            (Ok(()), Err(StoreError::Failed { .. })) => {}
            other => panic!("operation {operation}: {other:?}"),
        }
        *outcomes.entry(format!("{:?}", second.is_ok())).or_insert(0) += 1;
        drop(store);
        // No more failures.
        sim.disk.kill();
        let newest = newest(&open(&sim).unwrap());
        match (second, third) {
            (_, Ok(())) => assert_eq!(newest, 3),
            (Ok(()), Err(StoreError::Disk { .. })) => assert_eq!(newest, 2),
            (Ok(()), Err(_)) => assert!((2..=3).contains(&newest)),
            (Err(_), Err(_)) => assert!((1..=2).contains(&newest)),
        }
    }
    assert_eq!(outcomes.len(), 2, "some commits failed, some did not: {outcomes:?}");
}

#[test]
fn after_a_failed_sync_nothing_is_committed_and_nothing_acknowledged_is_lost() {
    for seed in 0..20 {
        let sim = sim(seed);
        let store = open(&sim).unwrap();
        store.commit_blocking(batch(1)).unwrap();
        sim.disk.fail_sync_after(0);
        let refused = store.commit_blocking(batch(2)).unwrap_err();
        assert!(matches!(refused, StoreError::Failed { .. }), "{refused}");
        assert!(refused.to_string().contains(FILE), "{refused}");
        assert!(matches!(store.commit_blocking(batch(3)), Err(StoreError::Failed { .. })));
        assert!(store.failure().is_some());
        drop(store);
        sim.disk.power_cut();
        let store = open(&sim).unwrap();
        assert!((1..=2).contains(&newest(&store)));
        store.commit_blocking(batch(4)).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_batches_until_there_is_room() {
    let sim = sim(3);
    let store = open(&sim).unwrap();
    store.commit_blocking(batch(1)).unwrap();
    sim.disk.set_capacity(sim.disk.used() + (8 << 10));
    let mut big = StoreBatch::default();
    big.put(StoreTable::Producers, "big", vec![7; 12 << 20]);
    for _ in 0..3 {
        let refused = store.commit_blocking(big.clone()).unwrap_err();
        assert!(matches!(refused, StoreError::Disk { full: true, .. }), "{refused}");
    }
    // Small ones go on: there is room in the file.
    store.commit_blocking(batch(2)).unwrap();
    assert_eq!(newest(&store), 2);
    sim.disk.set_capacity(u64::MAX);
    store.commit_blocking(big).unwrap();
    drop(store);
    sim.disk.power_cut();
    let store = open(&sim).unwrap();
    assert_eq!(store.get(StoreTable::Producers, b"big").unwrap().unwrap().len(), 12 << 20);
    assert_eq!(store.get(StoreTable::Groups, b"all").unwrap(), Some(2u32.to_be_bytes().to_vec()));
}

#[test]
fn n4_a_file_that_is_empty_or_no_store_is_refused_and_left_alone() {
    for bytes in [b"".as_slice(), b"something else", &[0; 10_000]] {
        let sim = sim(1);
        sim.disk.put(FILE, bytes);
        let refused = open(&sim).unwrap_err();
        let said = refused.to_string();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{said}");
        assert!(said.contains(FILE) && said.contains("move it away"), "{said}");
        assert_eq!(sim.disk.read(Path::new(FILE)).unwrap(), bytes);
    }
}

/// N4: a flipped bit anywhere is refused, or does no harm; also after a kill.
#[test]
fn n4_a_flipped_bit_is_told_or_does_no_harm() {
    for clean in [true, false] {
        let sim = sim(5);
        let store = open(&sim).unwrap();
        for number in 1..=40 {
            store.commit_blocking(batch(number)).unwrap();
        }
        if !clean {
            sim.disk.kill();
        }
        drop(store);
        let good = sim.disk.read(Path::new(FILE)).unwrap();
        let mut told = 0;
        let mut random = World::simulated(9).world.random(1);
        // All of the head, and places everywhere else.
        let places = (0..320).chain((0..800).map(|_| random.below(good.len() as u64) as usize));
        for place in places {
            let world = self::sim(7);
            let mut bad = good.clone();
            bad[place] ^= 1 << (place % 8);
            world.disk.put(FILE, &bad);
            match open(&world) {
                Ok(store) => assert_eq!(newest(&store), 40, "byte {place}, clean {clean}"),
                Err(error) => {
                    told += 1;
                    assert!(matches!(error, StoreError::Damaged { .. }), "byte {place}: {error}");
                    assert!(world.disk.exists(Path::new(FILE)).unwrap());
                }
            }
        }
        assert!(told > 20, "{told} of them were told");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any batches, with kills, power cuts and reopening between them, against a map.
    #[test]
    fn a_store_is_a_map_that_survives(
        seed in 0u64..1000,
        steps in proptest::collection::vec(
            (proptest::collection::vec((0usize..StoreTable::ALL.len(), 0u8..12, proptest::option::of(0usize..3000)), 0..8), 0u8..10),
            1..25,
        ),
    ) {
        let sim = sim(seed);
        let mut store = open(&sim).unwrap();
        let mut model = Content::new();
        for (changes, then) in steps {
            let mut batch = StoreBatch::default();
            for (table, key, value) in changes {
                let table = StoreTable::ALL[table];
                let key = vec![key; usize::from(key)];
                match value {
                    Some(length) => {
                        let value = vec![key.len() as u8; length];
                        batch.put(table, key.clone(), value.clone());
                        model.insert((table, key), value);
                    }
                    None => {
                        batch.delete(table, key.clone());
                        model.remove(&(table, key));
                    }
                }
            }
            store.commit_blocking(batch).unwrap();
            match then {
                0 => sim.disk.power_cut(),
                1 => sim.disk.kill(),
                2 => store.close(),
                _ => continue,
            }
            drop(store);
            store = open(&sim).unwrap();
            prop_assert_eq!(&content(&store), &model);
        }
        prop_assert_eq!(&content(&store), &model);
    }
}
