//! What is saved of a digest.

use super::*;
use crate::aggregate::{AccumulatorKind, sides::SideColumn};
use tidemill_state::{ByteReader, put_bytes, write_plain};

fn saved(side: &SideColumn) -> Vec<u8> {
    let mut out = Vec::new();
    side.save(0, &mut out);
    out
}

#[test]
fn a_digest_of_finite_values_is_saved_as_it_always_was() {
    let mut side = SideColumn::new(AccumulatorKind::Digest);
    side.resize(1);
    let option = |it: Option<(Vec<u8>, Vec<f64>)>| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        write_plain(&it, &mut bytes);
        put_bytes(&mut out, &bytes);
        out
    };
    assert_eq!(saved(&side), option(None));
    let mut whole = Digest::default();
    (0..2_000).for_each(|it| whole.update(f64::from(it)));
    let parts = (whole.merged.clone().serialize(), whole.new.clone());
    assert!(!parts.1.is_empty());
    let bytes = option(Some(parts));
    side.restore(0, &mut ByteReader::new(&bytes)).expect("an earlier version wrote it");
    assert_eq!(saved(&side), bytes);
    assert_eq!(side.quantile(0, 0.9), whole.quantile(0.9));
}

#[test]
fn a_digest_is_saved_with_what_is_not_finite() {
    let mut whole = Digest::default();
    for value in [f64::NEG_INFINITY, 1.0, f64::INFINITY, f64::INFINITY, f64::NAN] {
        whole.update(value);
    }
    whole.settle();
    whole.update(2.0);
    let mut side = SideColumn::Digest(vec![Some(Box::new(whole))]);
    let bytes = saved(&side);
    let mut other = SideColumn::new(AccumulatorKind::Digest);
    other.resize(1);
    other.restore(0, &mut ByteReader::new(&bytes)).expect("it was saved");
    assert_eq!(saved(&other), bytes);
    for q in [0.0, 0.2, 0.4, 0.5, 0.7, 0.8, 1.0] {
        let (one, two) = (side.quantile(0, q), other.quantile(0, q));
        assert_eq!(one.map(f64::to_bits), two.map(f64::to_bits), "{q}");
    }
}

/// As docs/job.md has it.
#[test]
fn the_median_of_a_few_values_is_one_of_them() {
    for (values, median) in
        [(&[1.0, 9.0][..], 9.0), (&[1.0, 2.0, 8.0, 9.0], 8.0), (&[1.0, 4.0, 9.0], 4.0)]
    {
        let mut digest = Digest::default();
        values.iter().for_each(|value| digest.update(*value));
        assert_eq!(digest.quantile(0.5), Some(median));
    }
}
