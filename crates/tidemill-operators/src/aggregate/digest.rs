//! A digest of numbers, for quantiles.
//!
//! ```text
//! values ─▶ new ─ when they are many, or it is read ─▶ finite: merged, by means and weights
//!                                                    └▶ others: counted
//! ```

use datasketches::{error::Error, tdigest::TDigestMut};
use serde::{Deserialize, Serialize};

/// Values that a digest merges at once.
const NEW_MAX: usize = 1_024;
/// Compression of a digest: more is finer.
const K: u16 = 200;

/// Memory of a digest: mean and weight of twice as many centroids as its compression, and as many
/// waiting values.
const MERGED_BYTES: usize = K as usize * 2 * 16 * 2;

/// The counts of values that are not finite, of which a digest has no means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beyond {
    below: u64,
    above: u64,
    nan: u64,
}

impl Beyond {
    fn merge(&mut self, other: &Self) {
        self.below = self.below.saturating_add(other.below);
        self.above = self.above.saturating_add(other.above);
        self.nan = self.nan.saturating_add(other.nan);
    }
}

/// A digest as it is saved. The first two variants are, byte for byte, the `Option` that earlier versions
/// wrote, without values that are not finite.
#[derive(Serialize, Deserialize)]
pub(super) enum Saved {
    Nothing,
    Finite(Vec<u8>, Vec<f64>),
    All(Vec<u8>, Vec<f64>, Beyond),
}

/// A digest that can be saved at any time without a change. Its results depend on the moments at which
/// new values are merged, so they wait here until they are many or the digest is read.
#[derive(Clone, Debug)]
pub(crate) struct Digest {
    merged: TDigestMut,
    /// Beside the merged ones, which are finite.
    beyond: Beyond,
    new: Vec<f64>,
}

impl Default for Digest {
    fn default() -> Self {
        let merged = TDigestMut::new(K).expect("a compression that digests have");
        Self { merged, beyond: Beyond::default(), new: Vec::new() }
    }
}

impl Digest {
    pub(super) fn memory(&self) -> usize {
        MERGED_BYTES + self.new.capacity() * size_of::<f64>()
    }

    pub(super) fn update(&mut self, value: f64) {
        self.new.push(value);
        if self.new.len() >= NEW_MAX {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for value in self.new.drain(..) {
            take(&mut self.merged, &mut self.beyond, value);
        }
        // Looking at it merges what it holds itself.
        drop(self.merged.quantile(0.5));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.settle();
        self.merged.merge(&other.merged);
        self.beyond.merge(&other.beyond);
        other.new.iter().for_each(|value| take(&mut self.merged, &mut self.beyond, *value));
        self.settle();
    }

    pub(super) fn quantile(&mut self, q: f64) -> Option<f64> {
        self.settle();
        let finite = self.merged.total_weight();
        let mut of_finite = |q| self.merged.quantile(q).ok().flatten();
        if self.beyond == Beyond::default() {
            return of_finite(q);
        }
        // NaN is larger than all, as for `max`.
        let Beyond { below, above, nan } = self.beyond;
        let counts = [below, finite, above, nan].map(|it| it as f64);
        let rank = q * counts.iter().sum::<f64>();
        let mut before = 0.0;
        for (nth, count) in counts.into_iter().enumerate() {
            if count > 0.0 && rank <= before + count {
                return match nth {
                    0 => Some(f64::NEG_INFINITY),
                    1 => of_finite(((rank - before) / count).clamp(0.0, 1.0)),
                    2 => Some(f64::INFINITY),
                    _ => Some(f64::NAN),
                };
            }
            before += count;
        }
        None
    }

    pub(super) fn saved(&self) -> Saved {
        // Writing one merges what it holds itself, which is nothing here.
        let (merged, new) = (self.merged.clone().serialize(), self.new.clone());
        if self.beyond == Beyond::default() {
            return Saved::Finite(merged, new);
        }
        Saved::All(merged, new, self.beyond)
    }

    pub(super) fn restored(saved: Saved) -> Result<Option<Self>, Error> {
        let (merged, new, beyond) = match saved {
            Saved::Nothing => return Ok(None),
            Saved::Finite(merged, new) => (merged, new, Beyond::default()),
            Saved::All(merged, new, beyond) => (merged, new, beyond),
        };
        Ok(Some(Self { merged: TDigestMut::deserialize(&merged)?, beyond, new }))
    }
}

fn take(merged: &mut TDigestMut, beyond: &mut Beyond, value: f64) {
    let count = match value {
        it if it.is_nan() => &mut beyond.nan,
        f64::INFINITY => &mut beyond.above,
        f64::NEG_INFINITY => &mut beyond.below,
        it => return merged.update(it),
    };
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests;
