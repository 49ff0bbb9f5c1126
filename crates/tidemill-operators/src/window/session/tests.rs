//! Sessions whose records come late, and keys that do not come again.

use super::super::tests::{Record, Row, batch, calls, records, rows_of, schema};
use super::{KEYS_KEPT, Sessions};
use crate::window::{compile, windowed};
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

fn found((key, first, end, cells): Row, gap: i64) -> Found {
    let count = cells.split(' ').next().and_then(|it| it.parse().ok());
    (key, first, end - gap, count.expect("a count"))
}

/// One cycle: sessions that ended, as they were written, and how many records were late.
fn written(trial: &mut Trial, records: &[Record], now: i64, gap: i64) -> (Vec<Found>, usize) {
    let written = trial.cycle(vec![vec![batch(records)]], Micros(now), now == i64::MAX);
    let (mut ended, mut late) = (Vec::new(), 0);
    for (port, batch) in written.expect("it runs") {
        match port {
            0 => ended.extend(rows_of(&batch).into_iter().map(|row| found(row, gap))),
            _ => late += batch.num_rows(),
        }
    }
    (ended, late)
}

fn sorted((mut ended, late): (Vec<Found>, usize)) -> (Vec<Found>, usize) {
    ended.sort_unstable();
    (ended, late)
}

/// The same, by key and time.
fn cycle(trial: &mut Trial, records: &[Record], now: i64, gap: i64) -> (Vec<Found>, usize) {
    sorted(written(trial, records, now, gap))
}

/// The same, record by record.
#[derive(Default)]
struct Model {
    /// By key, with their number in the order of opening.
    open: BTreeMap<i64, Vec<(usize, Found)>>,
    opened: usize,
    now: Option<i64>,
}

impl Model {
    fn cycle(&mut self, records: &[Record], now: i64, gap: i64) -> (Vec<Found>, usize) {
        let mut late = 0;
        for (key, _, time) in records {
            let open = self.open.entry(*key).or_default();
            let touches = |(_, it): &(usize, Found)| time - it.2 < gap && it.1 - time < gap;
            let has_ended = self.now.is_some_and(|before| time + gap <= before);
            if has_ended && !open.iter().any(touches) {
                late += 1;
                continue;
            }
            let (mut number, mut joined) = (None, (*key, *time, *time, 1));
            for (of, it) in open.extract_if(.., |it| touches(it)) {
                number = Some(number.map_or(of, |number: usize| number.min(of)));
                joined = (*key, joined.1.min(it.1), joined.2.max(it.2), joined.3 + it.3);
            }
            self.opened += usize::from(number.is_none());
            open.push((number.unwrap_or(self.opened), joined));
        }
        let all = self.open.values_mut();
        let has_ended = |(_, it): &mut (usize, Found)| it.2.saturating_add(gap) <= now;
        let mut ended: Vec<_> = all.flat_map(|it| it.extract_if(.., has_ended)).collect();
        ended.sort_unstable_by_key(|(number, it)| (it.2, *number));
        self.now = Some(now);
        (ended.into_iter().map(|(_, it)| it).collect(), late)
    }

    /// The open ones of each key, in the order in which they were opened.
    fn shown(&self) -> BTreeMap<i64, Vec<Found>> {
        let mut open = self.open.clone();
        open.retain(|_, it| !it.is_empty());
        open.values_mut().for_each(|it| it.sort_unstable_by_key(|(number, _)| *number));
        let found = |(key, it): (_, Vec<_>)| (key, it.into_iter().map(|(_, it)| it).collect());
        open.into_iter().map(found).collect()
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
            prop_assert_eq!(cycle(&mut trial, part, now, gap), sorted(model.cycle(part, now, gap)));
        }
        let rest = cycle(&mut trial, &[], i64::MAX, gap);
        prop_assert_eq!(rest, sorted(model.cycle(&[], i64::MAX, gap)));
    }

    #[test]
    fn sessions_are_written_and_shown_in_the_order_of_opening(
        records in records(),
        gap in 1_i64..40,
        per_cycle in 1_usize..40,
        lateness in 0_i64..100,
    ) {
        let (mut trial, mut model, mut most) = (trial(gap, 1, 1), Model::default(), i64::MIN);
        for part in records.chunks(per_cycle) {
            most = part.iter().map(|it| it.2).fold(most, i64::max);
            let now = most - lateness;
            prop_assert_eq!(written(&mut trial, part, now, gap), model.cycle(part, now, gap));
            let mut shown: BTreeMap<i64, Vec<Found>> = BTreeMap::new();
            let rows = trial.rows(0).into_iter().flat_map(|(_, batch)| rows_of(&batch));
            rows.for_each(|row| shown.entry(row.0).or_default().push(found(row, gap)));
            prop_assert_eq!(shown, model.shown());
        }
        let rest = written(&mut trial, &[], i64::MAX, gap);
        prop_assert_eq!(rest, model.cycle(&[], i64::MAX, gap));
    }
}

/// Each record would look through all sessions of the key otherwise, which would take for ever.
#[test]
fn a_record_looks_only_at_the_sessions_beside_it() {
    const COUNT: i64 = 500_000;
    let plan = compile(&schema(), &["key".to_owned()], &[(None, &calls())]).expect("right");
    let (mut sessions, mut merges) = (Sessions::new(&plan[0], 10), Vec::new());
    for nth in 0..COUNT {
        assert_eq!(sessions.cell(0, nth * 10, 10, &mut merges), nth as u32);
    }
    for nth in 0..COUNT {
        assert_eq!(sessions.cell(0, nth * 10, 5, &mut merges), nth as u32);
    }
    assert!(merges.is_empty());
    // Two that a record between them joins go on as the one that was opened first.
    assert_eq!(sessions.cell(0, 75, 10, &mut merges), 7);
    assert_eq!(merges, [(7, 8)]);
    let ended = sessions.ended(COUNT * 5, 10);
    assert_eq!(ended.len() as i64, COUNT / 2 - 1);
    assert!(ended.is_sorted_by_key(|(end, _, _)| *end));
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
