//! The order of a delta's keys.
//!
//! ```text
//! rows of structures   by their number, digit by digit; then by their prefix
//! other keys           by their first bytes, then by all of them
//! ```
//!
//! Nearly all keys are row numbers behind a few prefixes, and copies of changed rows come in no
//! order. Sorting by digits takes a fifth of the time that comparing the keys would.

use super::{Delta, DeltaEntry, Prefix};

/// The longest key of a row, in bytes.
const ROW_BYTES: usize = size_of::<u32>();
/// The bits of a digit, few enough that its counters stay in the first cache.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer rows are sorted by comparison, which is faster than filling the counters.
const ROWS_MIN: usize = if cfg!(test) { 16 } else { 512 };
/// Prefixes are sorted by rank only if each stands before at least this many entries.
const ENTRIES_PER_PREFIX: usize = 8;

/// Sorts the keys of deltas, and reuses its memory.
#[derive(Debug, Default)]
pub struct KeyOrder {
    /// A row number in the upper half, or zeros; the number of the entry in the lower half.
    rows: Vec<u64>,
    other: Vec<u64>,
    heads: Vec<(u128, u32)>,
}

impl KeyOrder {
    /// Sorts the entries by their keys; [`nth_of`] gives the number of each.
    pub(super) fn sort(&mut self, delta: &Delta) -> &[u64] {
        self.rows.clear();
        match row_bytes(delta).zip(ranks(&delta.prefixes, delta.entries.len())) {
            Some((bytes, ranks)) => self.sort_rows(delta, bytes, &ranks),
            None => self.sort_keys(delta),
        }
        let number = |it: &u64| nth_of(*it) as u32;
        debug_assert!(
            self.rows.iter().map(number).is_sorted_by(|a, b| key(delta, *a).lt(key(delta, *b))),
            "a key is written once"
        );
        &self.rows
    }

    /// Sorts keys that are numbers of `bytes` bytes behind prefixes with these ranks.
    fn sort_rows(&mut self, delta: &Delta, bytes: usize, ranks: &[u32]) {
        let Self { rows, other, .. } = self;
        let row = |it: &DeltaEntry| match delta.bytes[it.key()].try_into() {
            Ok(row) => u64::from(u32::from_be_bytes(row)),
            Err(_) => delta.bytes[it.key()].iter().fold(0, |row, byte| row << 8 | u64::from(*byte)),
        };
        let numbered = delta.entries.iter().map(row).zip(0_u64..);
        rows.extend(numbered.map(|(row, nth)| row << 32 | nth));
        if rows.len() < ROWS_MIN {
            rows.sort_unstable();
        } else if !rows.is_sorted() {
            let (any, all) = rows.iter().fold((0, u64::MAX), |(any, all), it| (any | it, all & it));
            for shift in (32..32 + 8 * bytes as u32).step_by(DIGIT_BITS as usize) {
                let digit = |it: u64| (it >> shift) as usize % DIGITS;
                // A digit that is the same in all of them says nothing.
                if digit(any) != digit(all) {
                    lay_out(rows, other, &mut [0; DIGITS], digit);
                }
            }
        }
        let most = ranks.iter().max().map_or(0, |it| *it as usize);
        if most > 0 {
            let rank = |it: u64| ranks[delta.entries[nth_of(it)].prefix as usize] as usize;
            lay_out(rows, other, &mut vec![0; most + 1], rank);
        }
    }

    /// Sorts keys of any form.
    fn sort_keys(&mut self, delta: &Delta) {
        let Delta { bytes, entries, prefixes, .. } = delta;
        // Most are told apart by their heads, which lie together.
        let head = |it: &DeltaEntry| {
            prefixes[it.prefix as usize].head_of(it.key_bytes as usize, &bytes[it.start as usize..])
        };
        self.heads.clear();
        self.heads.extend(entries.iter().map(head).zip(0..));
        // A stable sort uses the order that structures have written most of it in.
        self.heads.sort_by(|(a_head, a), (b_head, b)| {
            a_head.cmp(b_head).then_with(|| key(delta, *a).cmp(key(delta, *b)))
        });
        self.rows.extend(self.heads.iter().map(|(_, nth)| u64::from(*nth)));
    }
}

/// The number of an entry within its delta.
#[inline]
pub(super) fn nth_of(sorted: u64) -> usize {
    sorted as u32 as usize
}

/// The whole key of an entry.
fn key(delta: &Delta, nth: u32) -> impl Iterator<Item = &u8> {
    let it = &delta.entries[nth as usize];
    delta.prefixes[it.prefix as usize].bytes.iter().chain(&delta.bytes[it.key()])
}

/// The length in bytes that all keys have behind their prefixes, if they are row numbers.
fn row_bytes(delta: &Delta) -> Option<usize> {
    let bytes = delta.entries.first().map_or(0, |it| it.key_bytes as usize);
    let is_alike = |it: &DeltaEntry| it.key_bytes as usize == bytes;
    (bytes <= ROW_BYTES && delta.entries.iter().all(is_alike)).then_some(bytes)
}

/// The rank of each prefix, if keys sort by the rank of their prefix first: all prefixes have one
/// length, or all are equal. None too if there are too many prefixes for the entries.
fn ranks(prefixes: &[Prefix], entries: usize) -> Option<Vec<u32>> {
    let mut ranks = vec![0; prefixes.len()];
    if prefixes.windows(2).all(|pair| pair[0].bytes == pair[1].bytes) {
        return Some(ranks);
    }
    let bytes = prefixes.first().map_or(0, |it| it.bytes.len());
    if prefixes.len() * ENTRIES_PER_PREFIX > entries
        || prefixes.iter().any(|it| it.bytes.len() != bytes)
    {
        return None;
    }
    let mut sorted: Vec<usize> = (0..prefixes.len()).collect();
    sorted.sort_by(|a, b| prefixes[*a].bytes.cmp(&prefixes[*b].bytes));
    let mut rank = 0;
    for pair in sorted.windows(2) {
        rank += u32::from(prefixes[pair[0]].bytes != prefixes[pair[1]].bytes);
        ranks[pair[1]] = rank;
    }
    Some(ranks)
}

/// Sorts rows by one digit, stably.
fn lay_out(
    rows: &mut Vec<u64>,
    other: &mut Vec<u64>,
    places: &mut [u32],
    digit: impl Fn(u64) -> usize,
) {
    rows.iter().for_each(|it| places[digit(*it)] += 1);
    let mut sum = 0;
    for place in &mut *places {
        let count = std::mem::replace(place, sum);
        sum += count;
    }
    other.resize(rows.len(), 0);
    for it in &*rows {
        let place = &mut places[digit(*it)];
        other[*place as usize] = *it;
        *place += 1;
    }
    std::mem::swap(rows, other);
}
