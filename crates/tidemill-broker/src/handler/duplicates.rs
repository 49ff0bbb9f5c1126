//! An item that a request names more than once is answered once, at its first place. So an answer
//! is as long as the things it describes, and not as the request.
//!
//! This is for requests that read, and for the deletion of groups. Other requests refuse an item
//! that is named twice, or answer each mention in a few bytes.

use hashbrown::{HashMap, HashSet};
use std::hash::Hash;

#[cfg(test)]
mod tests;

/// Removes every item whose key stood before.
pub(crate) fn remove_repeated<T, K: Hash + Eq>(list: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if list.len() > 1 {
        let mut named = HashSet::new();
        list.retain(|it| named.insert(key(it)));
    }
}

/// Merges every item whose key stood before into that one.
pub(crate) fn merge_repeated<T, K: Hash + Eq>(
    list: &mut Vec<T>,
    key: impl Fn(&T) -> K,
    merge: impl Fn(&mut T, T),
) {
    if list.len() < 2 {
        return;
    }
    let (mut merged, mut places) = (Vec::with_capacity(list.len()), HashMap::new());
    for item in list.drain(..) {
        let count = merged.len();
        match *places.entry(key(&item)).or_insert(count) {
            place if place == count => merged.push(item),
            place => merge(&mut merged[place], item),
        }
    }
    *list = merged;
}

/// Leaves out partitions of topics that were named before, and topics that have nothing else.
/// `partitions` are those of a topic, each a number.
pub(crate) fn remove_repeated_partitions<T, K: Hash + Eq>(
    topics: &mut Vec<T>,
    key: impl Fn(&T) -> K,
    partitions: impl Fn(&mut T) -> &mut Vec<i32>,
) {
    let (mut numbers, mut named) = (HashMap::new(), HashSet::new());
    topics.retain_mut(|topic| {
        let count = numbers.len();
        let number = *numbers.entry(key(topic)).or_insert(count);
        let indexes = partitions(topic);
        indexes.retain(|it| named.insert((number, *it)));
        number == count || !indexes.is_empty()
    });
}
