//! The table against a simple model: the same numbers, for keys of any length, whatever their hashes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Few hashes, so that many keys share their slot, and keys of different length their word.
fn hash_of(key: &[u8], hashes: u64) -> u64 {
    let sum = key.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    (sum % hashes) * 4
}

/// Keys about the lengths at which they are held in another way, many of which differ in one byte.
fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![0..34_usize, Just(23), Just(24), Just(70)];
    let key = (length, 0..4_u8, any::<prop::sample::Index>(), 0..3_u8);
    let key = key.prop_map(|(length, fill, at, other)| {
        let mut key = vec![fill; length];
        if !key.is_empty() {
            let at = at.index(key.len());
            key[at] = other;
        }
        key
    });
    prop::collection::vec(key, 0..300)
}

#[test]
fn a_short_key_is_itself_and_its_length() {
    let bytes: Vec<u8> = (1..=30).collect();
    for length in 0..=30 {
        let word = KeyWord::short(&bytes[..length]);
        assert_eq!(word.is_some(), length <= SHORT_BYTES_MAX, "{length}");
        let Some(KeyWord(words)) = word else { continue };
        let mut expected = [0_u8; 24];
        expected[..length].copy_from_slice(&bytes[..length]);
        expected[23] = length as u8;
        let held: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(held, expected, "{length}");
    }
}

proptest! {
    #[test]
    fn keys_have_the_numbers_of_their_first_appearance(keys in keys(), hashes in 1..90_u64, rounds in 1..4) {
        let mut table = KeyTable::new();
        for _ in 0..rounds {
            let mut model = BTreeMap::new();
            for key in &keys {
                let hash = hash_of(key, hashes);
                table.prefetch(hash);
                table.prefetch_long(key, hash);
                prop_assert_eq!(table.find(key, hash), model.get(key).copied());
                let next = model.len() as u32;
                let expected = *model.entry(key.clone()).or_insert(next);
                prop_assert_eq!(table.find_or_add(key, hash), expected);
            }
            prop_assert_eq!(table.len(), model.len());
            for (key, number) in &model {
                let hash = hash_of(key, hashes);
                prop_assert_eq!(table.find(key, hash), Some(*number));
                prop_assert_eq!(table.key(*number as usize), key.as_slice());
                prop_assert_eq!(table.hash(*number as usize), hash);
            }
            table.clear();
            prop_assert!(table.is_empty());
            prop_assert!(keys.iter().all(|key| table.find(key, hash_of(key, hashes)).is_none()));
        }
    }

    #[test]
    fn keys_that_were_pushed_are_found_once_they_are_indexed(keys in keys(), hashes in 1..90_u64, unfound in 0..300_u32) {
        let mut model = BTreeMap::new();
        let mut table = KeyTable::new();
        for key in &keys {
            if !model.contains_key(key) {
                let number = table.push(key, hash_of(key, hashes));
                model.insert(key.clone(), number);
            }
        }
        let unfound = Some(unfound).filter(|it| (*it as usize) < model.len());
        prop_assert!(table.index(unfound));
        for (key, number) in &model {
            let found = table.find(key, hash_of(key, hashes));
            prop_assert_eq!(found, Some(*number).filter(|_| unfound != Some(*number)));
        }
        // Others come behind them.
        let next = table.len() as u32;
        prop_assert_eq!(table.find_or_add(&[9; 40], 3), next);
        if let Some(twice) = keys.iter().find(|key| Some(model[*key]) != unfound) {
            table.push(twice, hash_of(twice, hashes));
            prop_assert!(!table.index(unfound));
        }
    }
}

#[test]
fn slots_of_all_rounds_are_free_once_rounds_are_used_up() {
    let mut table = KeyTable::new();
    table.find_or_add(b"first", 1);
    table.clear();
    table.round = u32::MAX;
    table.find_or_add(b"last", 2);
    table.clear();
    assert_eq!(table.round, 1, "that of the first key");
    assert_eq!((table.find(b"first", 1), table.find(b"last", 2)), (None, None));
    assert_eq!(table.find_or_add(b"last", 2), 0);
}
