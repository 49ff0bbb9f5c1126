//! The words of one accumulator: updates by values, merges, and results.
//!
//! ```text
//! count │ sum, least, most │ time of the first, the last       a wide number takes two words
//!
//! sum of whole numbers: upper word, less its upper bit, and whether there is a value │ lower words
//! ```

use super::results::ResultBuilder;
use super::{AccumulatorKind, NumberKind, ResultKind};
use std::hint::select_unpredictable;

/// The most that 38 digits are.
pub(super) const WIDEST: u128 = 10_u128.pow(38) - 1;

/// One loop for each kind of result, so that no loop has a branch on it.
pub(super) fn read_words<'a>(
    reading: ResultKind,
    words: impl Iterator<Item = &'a [u64]> + Clone,
    to: &mut ResultBuilder,
) {
    match (to, reading) {
        (ResultBuilder::Int(to), ResultKind::Count) => {
            to.extend(words.map(|it| Some(it[0] as i64)))
        }
        (ResultBuilder::Int(to), _) => to.extend(words.map(|it| (it[0] > 0).then(|| it[1] as i64))),
        (ResultBuilder::Float(to), ResultKind::Variance { sample, root }) => {
            let less = u64::from(sample);
            let variance =
                |it: &[u64]| (it[0] > less).then(|| f64::from_bits(it[2]) / (it[0] - less) as f64);
            if root {
                to.extend(words.map(|it| variance(it).map(f64::sqrt)));
            } else {
                to.extend(words.map(variance));
            }
        }
        (ResultBuilder::Float(to), _) => {
            to.extend(words.map(|it| (it[0] > 0).then(|| f64::from_bits(it[1]))));
        }
        (ResultBuilder::Wide(to), ResultKind::Sum(NumberKind::Int)) => {
            let sum = |it: &[u64]| (i128::from(it[0] as i64 >> 1) << 64) | i128::from(it[1]);
            to.extend(words.map(|it| (it[0] > 0).then(|| sum(it))));
        }
        (ResultBuilder::Wide(to), ResultKind::Sum(_)) => {
            to.extend(words.map(|it| (it[0] > 0).then(|| wide_sum(it))));
        }
        (ResultBuilder::Wide(to), _) => to.extend(words.map(|it| (it[0] > 0).then(|| whole(it)))),
        (ResultBuilder::Text(to), _) => words.for_each(|_| to.append_null()),
    }
}

/// Adds a whole number: its lower words, lowest first, and its upper part.
#[inline]
pub(super) fn add_whole<const N: usize>(words: &mut [u64], lower: [u64; N], upper: i64) {
    let words = &mut words[..=N];
    let mut carry = false;
    for (word, more) in words[1..].iter_mut().zip(lower) {
        (*word, carry) = word.carrying_add(more, carry);
    }
    // More numbers than can be counted would be needed to fill it.
    let upper = (words[0] as i64 >> 1).wrapping_add(upper).wrapping_add(i64::from(carry));
    words[0] = (upper << 1) as u64 | 1;
}

#[inline]
pub(super) fn add_int(words: &mut [u64], value: i64) {
    add_whole(words, [value as u64], value >> 63);
}

#[inline]
pub(super) fn add_wide(words: &mut [u64], value: i128) {
    add_whole(words, halves(value), (value >> 127) as i64);
}

#[inline]
pub(super) fn add_float(words: &mut [u64], count: u64, value: f64) {
    words[0] += count;
    words[1] = (f64::from_bits(words[1]) + value).to_bits();
}

/// One step of Welford's method. Where the distance to the mean is none that is finite, the mean is
/// computed from its parts, as infinities may come before or after all else.
#[inline]
pub(super) fn add_moment(words: &mut [u64], value: f64) {
    let words = &mut words[..3];
    words[0] += 1;
    let mean = f64::from_bits(words[1]);
    let distance = value - mean;
    let n = words[0] as f64;
    let new_mean = match distance.is_finite() {
        true => mean + distance / n,
        false => mean * ((n - 1.0) / n) + value / n,
    };
    words[1] = new_mean.to_bits();
    words[2] = (f64::from_bits(words[2]) + distance * (value - new_mean)).to_bits();
}

/// A wide number as two words.
#[inline]
pub(super) fn halves(value: i128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// The wide number that stands behind a count.
#[inline]
fn whole(words: &[u64]) -> i128 {
    i128::from(words[1]) | (i128::from(words[2]) << 64)
}

/// A sum of wide numbers; one that they have no room for is some number of more than 38 digits.
#[inline]
fn wide_sum(words: &[u64]) -> i128 {
    let low = whole(words);
    match (words[0] as i64 >> 1, low >> 127) {
        (high, sign) if i128::from(high) == sign => low,
        (0.., _) => i128::MAX,
        _ => i128::MIN,
    }
}

pub(super) fn is_less<T: PartialOrd>(value: T, held: T) -> bool {
    value < held
}

pub(super) fn is_more<T: PartialOrd>(value: T, held: T) -> bool {
    value > held
}

/// NaN counts as larger than every number, as in DuckDB and PostgreSQL.
pub(super) fn is_lower(value: f64, held: f64) -> bool {
    (value < held) | held.is_nan()
}

pub(super) fn is_higher(value: f64, held: f64) -> bool {
    (value > held) | value.is_nan()
}

/// Keeps the value that is better, or the first. Which one nobody can foretell: there is no branch.
#[inline]
pub(super) fn put_int(words: &mut [u64], value: i64, is_better: impl Fn(i64, i64) -> bool) {
    let words = &mut words[..2];
    let takes = (words[0] == 0) | is_better(value, words[1] as i64);
    words[0] += 1;
    words[1] = select_unpredictable(takes, value as u64, words[1]);
}

#[inline]
pub(super) fn put_wide(words: &mut [u64], value: i128, is_better: impl Fn(i128, i128) -> bool) {
    let words = &mut words[..3];
    let takes = (words[0] == 0) | is_better(value, whole(words));
    words[0] += 1;
    for (word, half) in words[1..].iter_mut().zip(halves(value)) {
        *word = select_unpredictable(takes, half, *word);
    }
}

#[inline]
pub(super) fn put_float(words: &mut [u64], value: f64, is_better: impl Fn(f64, f64) -> bool) {
    let words = &mut words[..2];
    let takes = (words[0] == 0) | is_better(value, f64::from_bits(words[1]));
    words[0] += 1;
    words[1] = select_unpredictable(takes, value.to_bits(), words[1]);
}

/// Keeps the value of the earliest or the latest time, in as many words as it takes; of one time, the
/// first or the last to come.
#[inline]
pub(super) fn put_ordered<const N: usize>(
    kept: AccumulatorKind,
    words: &mut [u64],
    count: u64,
    (value, time): ([u64; N], i64),
) {
    let words = &mut words[..N + 2];
    let held = words[N + 1] as i64;
    let takes = match kept {
        _ if words[0] == 0 => true,
        AccumulatorKind::First(_) => time < held,
        _ => time >= held,
    };
    words[0] += count;
    if takes {
        words[1..=N].copy_from_slice(&value);
        words[N + 1] = time as u64;
    }
}

pub(super) fn merge_words(kept: AccumulatorKind, to: &mut [u64], from: &[u64]) {
    if from[0] == 0 {
        return;
    }
    match kept {
        AccumulatorKind::Rows | AccumulatorKind::Values => to[0] += from[0],
        AccumulatorKind::Sum(NumberKind::Int) => add_whole(to, [from[1]], from[0] as i64 >> 1),
        AccumulatorKind::Sum(NumberKind::Wide) => {
            add_whole(to, [from[1], from[2]], from[0] as i64 >> 1)
        }
        AccumulatorKind::Sum(_) => add_float(to, from[0], f64::from_bits(from[1])),
        AccumulatorKind::Moments => merge_moments(to, from),
        AccumulatorKind::First(NumberKind::Wide) | AccumulatorKind::Last(NumberKind::Wide) => {
            put_ordered(kept, to, from[0], ([from[1], from[2]], from[3] as i64));
        }
        AccumulatorKind::First(_) | AccumulatorKind::Last(_) => {
            put_ordered(kept, to, from[0], ([from[1]], from[2] as i64));
        }
        AccumulatorKind::Min(held) | AccumulatorKind::Max(held) => {
            let count = to[0] + from[0];
            match (held, kept) {
                (NumberKind::Int, AccumulatorKind::Min(_)) => put_int(to, from[1] as i64, is_less),
                (NumberKind::Int, _) => put_int(to, from[1] as i64, is_more),
                (NumberKind::Wide, AccumulatorKind::Min(_)) => put_wide(to, whole(from), is_less),
                (NumberKind::Wide, _) => put_wide(to, whole(from), is_more),
                (_, AccumulatorKind::Min(_)) => put_float(to, f64::from_bits(from[1]), is_lower),
                _ => put_float(to, f64::from_bits(from[1]), is_higher),
            }
            to[0] = count;
        }
        AccumulatorKind::Distinct | AccumulatorKind::Sketch | AccumulatorKind::Digest => {
            unreachable!("kept in side stores")
        }
    }
}

/// Moments of two parts together (Chan, Golub and LeVeque). Of nothing and a part they are those of the
/// part, to the last digit.
fn merge_moments(to: &mut [u64], from: &[u64]) {
    if to[0] == 0 {
        to[..3].copy_from_slice(&from[..3]);
        return;
    }
    let (a, b) = (to[0] as f64, from[0] as f64);
    let n = a + b;
    let (mean_a, mean_b) = (f64::from_bits(to[1]), f64::from_bits(from[1]));
    let distance = mean_b - mean_a;
    to[0] += from[0];
    let mean = match distance.is_finite() {
        true => mean_a + distance * b / n,
        false => mean_a * (a / n) + mean_b * (b / n),
    };
    to[1] = mean.to_bits();
    let m2 = f64::from_bits(to[2]) + f64::from_bits(from[2]) + distance * distance * a * b / n;
    to[2] = m2.to_bits();
}

#[cfg(test)]
mod tests;
