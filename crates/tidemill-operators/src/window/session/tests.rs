//! Sessions whose records come late, and keys that do not come again.

use super::super::tests::{Record, batch, calls, records, rows_of, schema};
use super::KEYS_KEPT;
use crate::window::windowed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_flow::{Partition, trial::Trial};
use tidemill_types::{Micros, Span, job::WindowSpec};

/// Key, first and last time, how many records.
type Found = (i64, i64, i64, usize);

fn trial(gap: i64, slices: u32, lanes: u32) -> Trial {
    let window = WindowSpec::Session(Span(gap));
    let factory = windowed(&schema(), &["key".to_owned()], Some(&window), &calls());
    Trial::new(factory.expect("right"), vec![Partition::Key(vec![0])], slices, lanes)
}

/// One cycle: sessions that ended, and how many records were late.
fn cycle(trial: &mut Trial, records: &[Record], now: i64, gap: i64) -> (Vec<Found>, usize) {
    let written = trial.cycle(vec![vec![batch(records)]], Micros(now), now == i64::MAX);
    let (mut ended, mut late) = (Vec::new(), 0);
    for (port, batch) in written.expect("it runs") {
        match port {
            0 => ended.extend(rows_of(&batch).into_iter().map(|(key, first, end, cells)| {
                let count = cells.split(' ').next().and_then(|it| it.parse().ok());
                (key, first, end - gap, count.expect("a count"))
            })),
            _ => late += batch.num_rows(),
        }
    }
    ended.sort_unstable();
    (ended, late)
}

/// The same, record by record.
#[derive(Default)]
struct Model {
    open: BTreeMap<i64, Vec<Found>>,
    now: Option<i64>,
}

impl Model {
    fn cycle(&mut self, records: &[Record], now: i64, gap: i64) -> (Vec<Found>, usize) {
        let mut late = 0;
        for (key, _, time) in records {
            let open = self.open.entry(*key).or_default();
            let touches = |it: &Found| time - it.2 < gap && it.1 - time < gap;
            let has_ended = self.now.is_some_and(|before| time + gap <= before);
            if has_ended && !open.iter().any(touches) {
                late += 1;
                continue;
            }
            let mut joined = (*key, *time, *time, 1);
            for it in open.extract_if(.., |it| touches(it)) {
                joined = (*key, joined.1.min(it.1), joined.2.max(it.2), joined.3 + it.3);
            }
            open.push(joined);
        }
        let all = self.open.values_mut();
        let mut ended: Vec<Found> =
            all.flat_map(|it| it.extract_if(.., |it| it.2.saturating_add(gap) <= now)).collect();
        ended.sort_unstable();
        self.now = Some(now);
        (ended, late)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_record_that_touches_an_open_session_is_not_late(
        records in records(),
        gap in 1_i64..40,
        per_cycle in 1_usize..20,
        lateness in 0_i64..60,
        lanes in 1_u32..4,
    ) {
        let (mut trial, mut model, mut most) = (trial(gap, 8, lanes), Model::default(), i64::MIN);
        for part in records.chunks(per_cycle) {
            most = part.iter().map(|it| it.2).fold(most, i64::max);
            let now = most - lateness;
            prop_assert_eq!(cycle(&mut trial, part, now, gap), model.cycle(part, now, gap));
        }
        prop_assert_eq!(cycle(&mut trial, &[], i64::MAX, gap), model.cycle(&[], i64::MAX, gap));
    }
}

/// Ever new keys, while a few stay open: those go on, and what is kept does not grow.
#[test]
fn keys_that_do_not_come_again_are_forgotten() {
    const GAP: i64 = 10;
    const STEPS: i64 = 1_200;
    let (mut trial, mut most_kept) = (trial(GAP, 2, 2), 0);
    for step in 0..STEPS {
        let time = step * GAP;
        let stay = (0..20).map(|nth| (nth / 2, Some(1.0), time + nth % 2 * GAP / 2));
        let new = (0..20).map(|nth| (1_000 + step * 20 + nth, Some(1.0), time));
        let records: Vec<Record> = stay.chain(new).collect();
        let (ended, late) = cycle(&mut trial, &records, time, GAP);
        let before = time - GAP;
        let expected = (0..20).map(|nth| (1_000 + (step - 1) * 20 + nth, before, before, 1));
        let expected: Vec<Found> = expected.filter(|it| it.1 >= 0).collect();
        assert_eq!((ended, late), (expected, 0), "step {step}");
        most_kept = most_kept.max(trial.saved_entries());
    }
    let (rest, _) = cycle(&mut trial, &[], i64::MAX, GAP);
    let last = (STEPS - 1) * GAP + GAP / 2;
    let stayed: Vec<Found> = (0..10).map(|key| (key, 0, last, 2 * STEPS as usize)).collect();
    assert_eq!((&rest[..10], rest.len()), (&stayed[..], 30));
    // Two slices of so many each, and what came until they were saved.
    assert!((500..2 * KEYS_KEPT + 400).contains(&most_kept), "{most_kept} of 24,010 keys");
}
