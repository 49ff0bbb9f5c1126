//! What a request names more than once is answered once: as it was named first. So an answer is as
//! long as what there is, not as what a request repeats.
//!
//! This is for requests that look at things, and for groups that are deleted. Others that change
//! something refuse what they name twice, or say of each what became of it in a few bytes.

use hashbrown::{HashMap, HashSet};
use std::hash::Hash;

#[cfg(test)]
mod tests;

/// Leaves out what has a key that something before it has.
pub(crate) fn once<T, K: Hash + Eq>(list: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if list.len() > 1 {
        let mut named = HashSet::new();
        list.retain(|it| named.insert(key(it)));
    }
}

/// Merges what has a key that something before it has into that: `merge` takes over what else it
/// asks for.
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
pub(crate) fn partitions_once<T, K: Hash + Eq>(
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
