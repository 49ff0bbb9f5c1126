//! Accumulators that do not fit into words: sets, sketches, digests, texts.

use super::{
    AccumulatorKind, ArgColumn,
    digest::{Digest, Saved},
};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tidemill_state::{
    ByteReader, SavedError, put_bytes, read_plain, structure::sampled, write_plain,
};

/// Precision of a distinct sketch: 2^12 buckets, about 1.6 % standard error.
const SKETCH_LG_K: u8 = 12;

/// Memory of a value in a set: nodes are half full when values come in their order.
const VALUE_BYTES: usize = size_of::<SideValue>() * 2;

/// One value of a set: numbers by their bits, wide ones and text as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum SideValue {
    Number(u64),
    Text(Box<str>),
    Wide(i128),
}

impl SideValue {
    /// Bytes of memory beside its own.
    fn memory(&self) -> usize {
        match self {
            Self::Number(_) | Self::Wide(_) => 0,
            Self::Text(text) => text.len(),
        }
    }
}

/// The state of one side accumulator, by group.
#[derive(Debug)]
pub(crate) enum SideColumn {
    Text { kept: AccumulatorKind, values: Vec<Option<(i64, Box<str>)>> },
    Distinct(Vec<BTreeSet<SideValue>>),
    Sketch(Vec<Option<Box<HllSketch>>>),
    Digest(Vec<Option<Box<Digest>>>),
}

fn sketch() -> Box<HllSketch> {
    Box::new(HllSketch::new(SKETCH_LG_K, HllType::Hll8).expect("a precision that sketches have"))
}

fn bits(value: f64) -> u64 {
    // One zero and one NaN, as in keys.
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

impl SideColumn {
    /// About how many bytes of memory it takes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Text { values, .. } => {
                let of = |group: usize| values[group].as_ref().map_or(0, |(_, text)| text.len());
                values.capacity() * size_of::<Option<(i64, Box<str>)>>() + sampled(values.len(), of)
            }
            Self::Distinct(sets) => {
                let of = |group: usize| {
                    sets[group]
                        .iter()
                        .next()
                        .map_or(0, |first| sets[group].len() * (VALUE_BYTES + first.memory()))
                };
                sets.capacity() * size_of::<BTreeSet<SideValue>>() + sampled(sets.len(), of)
            }
            Self::Sketch(sketches) => {
                // It is a list, then a set, then has a byte for each bucket: as it is saved.
                let of = |group: usize| {
                    let kept = sketches[group].as_ref().map(|it| it.serialize().len());
                    kept.map_or(0, |bytes| size_of::<HllSketch>() + bytes)
                };
                sketches.capacity() * size_of::<usize>() + sampled(sketches.len(), of)
            }
            Self::Digest(digests) => {
                let of = |group: usize| digests[group].as_ref().map_or(0, |it| it.memory());
                digests.capacity() * size_of::<usize>() + sampled(digests.len(), of)
            }
        }
    }

    pub(crate) fn new(kept: AccumulatorKind) -> Self {
        match kept {
            AccumulatorKind::Distinct => Self::Distinct(Vec::new()),
            AccumulatorKind::Sketch => Self::Sketch(Vec::new()),
            AccumulatorKind::Digest => Self::Digest(Vec::new()),
            other => Self::Text { kept: other, values: Vec::new() },
        }
    }

    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            Self::Text { values, .. } => values.resize(groups, None),
            Self::Distinct(sets) => sets.resize_with(groups, BTreeSet::new),
            Self::Sketch(sketches) => sketches.resize_with(groups, || None),
            Self::Digest(digests) => digests.resize_with(groups, || None),
        }
    }

    /// Empties one group.
    pub(crate) fn clear(&mut self, group: usize) {
        match self {
            Self::Text { values, .. } => values[group] = None,
            Self::Distinct(sets) => sets[group].clear(),
            Self::Sketch(sketches) => sketches[group] = None,
            Self::Digest(digests) => digests[group] = None,
        }
    }

    /// Takes a value that is not null.
    pub(crate) fn update(&mut self, group: usize, argument: &ArgColumn, (row, time): (usize, i64)) {
        match (self, argument) {
            (Self::Text { kept, values }, ArgColumn::Text(text)) => {
                put(*kept, &mut values[group], (time, text.value(row)));
            }
            (Self::Distinct(sets), argument) => {
                sets[group].insert(match argument {
                    ArgColumn::Int(ints) => SideValue::Number(ints.value(row) as u64),
                    ArgColumn::Wide(numbers) => SideValue::Wide(numbers.value(row)),
                    ArgColumn::Float(floats) => SideValue::Number(bits(floats.value(row))),
                    ArgColumn::Text(text) => SideValue::Text(text.value(row).into()),
                });
            }
            (Self::Sketch(sketches), argument) => {
                let sketch = sketches[group].get_or_insert_with(sketch);
                match argument {
                    ArgColumn::Int(ints) => sketch.update(ints.value(row)),
                    ArgColumn::Wide(numbers) => sketch.update(numbers.value(row)),
                    ArgColumn::Float(floats) => sketch.update(bits(floats.value(row))),
                    ArgColumn::Text(text) => sketch.update(text.value(row)),
                }
            }
            (Self::Digest(digests), ArgColumn::Int(ints)) => {
                digests[group].get_or_insert_default().update(ints.value(row) as f64);
            }
            (Self::Digest(digests), ArgColumn::Float(floats)) => {
                digests[group].get_or_insert_default().update(floats.value(row));
            }
            (Self::Text { .. } | Self::Digest(_), _) => {
                unreachable!("compiled for another form of argument")
            }
        }
    }

    /// Adds group `from` of another store, which came later, to group `to`.
    pub(crate) fn merge(&mut self, to: usize, other: &Self, from: usize) {
        match (self, other) {
            (Self::Text { kept, values }, Self::Text { values: others, .. }) => {
                if let Some((time, text)) = &others[from] {
                    put(*kept, &mut values[to], (*time, text));
                }
            }
            (Self::Distinct(sets), Self::Distinct(others)) => {
                sets[to].extend(others[from].iter().cloned());
            }
            (Self::Sketch(sketches), Self::Sketch(others)) => {
                let Some(other) = &others[from] else { return };
                let mut union = HllUnion::new(SKETCH_LG_K).expect("a precision that sketches have");
                if let Some(mine) = &sketches[to] {
                    union.update(mine);
                }
                union.update(other);
                sketches[to] = Some(Box::new(union.to_sketch(HllType::Hll8)));
            }
            (Self::Digest(digests), Self::Digest(others)) => {
                if let Some(other) = &others[from] {
                    digests[to].get_or_insert_default().merge(other);
                }
            }
            _ => unreachable!("stores of one accumulator are of one kind"),
        }
    }

    /// Moves group `from` into group `to` of the same store.
    pub(crate) fn merge_within(&mut self, to: usize, from: usize) {
        let mut taken = match self {
            Self::Text { kept, values } => {
                Self::Text { kept: *kept, values: vec![values[from].take()] }
            }
            Self::Distinct(sets) => Self::Distinct(vec![std::mem::take(&mut sets[from])]),
            Self::Sketch(sketches) => Self::Sketch(vec![sketches[from].take()]),
            Self::Digest(digests) => Self::Digest(vec![digests[from].take()]),
        };
        self.merge(to, &taken, 0);
        taken.clear(0);
    }

    /// Writes the state of a group, for a checkpoint.
    pub(crate) fn save(&self, group: usize, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        match self {
            Self::Text { values, .. } => write_plain(&values[group], &mut bytes),
            Self::Distinct(sets) => write_plain(&sets[group], &mut bytes),
            Self::Sketch(sketches) => {
                let sketch = sketches[group].as_ref().map(|it| it.serialize());
                write_plain(&sketch, &mut bytes);
            }
            Self::Digest(digests) => {
                let digest = digests[group].as_deref();
                write_plain(&digest.map_or(Saved::Nothing, Digest::saved), &mut bytes);
            }
        }
        put_bytes(out, &bytes);
    }

    /// Restores the state of a group.
    pub(crate) fn restore(
        &mut self,
        group: usize,
        from: &mut ByteReader<'_>,
    ) -> Result<(), SavedError> {
        let bytes = from.sized()?;
        let failed = |error: datasketches::error::Error| {
            SavedError::new(format!("a saved sketch cannot be read: {error}"))
        };
        match self {
            Self::Text { values, .. } => values[group] = read_plain(bytes)?,
            Self::Distinct(sets) => sets[group] = read_plain(bytes)?,
            Self::Sketch(sketches) => {
                let sketch = read_plain::<Option<Vec<u8>>>(bytes)?;
                let sketch = sketch.map(|it| HllSketch::deserialize(&it).map(Box::new));
                sketches[group] = sketch.transpose().map_err(failed)?;
            }
            Self::Digest(digests) => {
                let digest = Digest::restored(read_plain(bytes)?).map_err(failed)?;
                digests[group] = digest.map(Box::new);
            }
        }
        Ok(())
    }

    pub(crate) fn count(&self, group: usize) -> i64 {
        match self {
            Self::Distinct(sets) => sets[group].len() as i64,
            Self::Sketch(sketches) => {
                sketches[group].as_ref().map_or(0, |sketch| sketch.estimate().round() as i64)
            }
            Self::Text { .. } | Self::Digest(_) => 0,
        }
    }

    pub(crate) fn text(&self, group: usize) -> Option<&str> {
        match self {
            Self::Text { values, .. } => values[group].as_ref().map(|(_, text)| &**text),
            _ => None,
        }
    }

    pub(crate) fn quantile(&mut self, group: usize, q: f64) -> Option<f64> {
        match self {
            Self::Digest(digests) => digests[group].as_mut()?.quantile(q),
            _ => None,
        }
    }
}

fn put(kept: AccumulatorKind, slot: &mut Option<(i64, Box<str>)>, (time, text): (i64, &str)) {
    let takes = match (kept, slot.as_ref()) {
        (_, None) => true,
        (AccumulatorKind::Min(_), Some((_, held))) => text < &**held,
        (AccumulatorKind::Max(_), Some((_, held))) => text > &**held,
        (AccumulatorKind::First(_), Some((held, _))) => time < *held,
        (_, Some((held, _))) => time >= *held,
    };
    if takes {
        *slot = Some((time, text.into()));
    }
}
