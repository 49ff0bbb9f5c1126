//! What stages write that share their panes, beside what each writes alone.

use super::super::tests::{Record, Row, batch, calls, records, rows_of, schema, sorted};
use super::super::windowed;
use super::*;
use arrow_array::RecordBatch;
use proptest::prelude::*;
use tidemill_flow::{Partition, trial::Trial};
use tidemill_types::{Micros, Span, job::SlidingWindow};

fn sliding(size: i64, every: i64) -> WindowSpec {
    WindowSpec::Sliding(SlidingWindow { size: Span(size), every: Span(every) })
}

fn windows() -> impl Strategy<Value = Vec<WindowSpec>> {
    let one = prop_oneof![
        (1_i64..60).prop_map(|size| WindowSpec::Tumbling(Span(size))),
        (0_i64..60, 1_i64..20).prop_map(|(more, every)| sliding(every + more, every)),
    ];
    prop::collection::vec(one, 2..5)
}

/// By output: its rows, and the late ones.
type Written = Vec<Vec<RecordBatch>>;

fn run(
    factory: Arc<dyn OperatorFactory>,
    records: &[Record],
    (per_cycle, lanes): (usize, u32),
    lateness: i64,
) -> Written {
    let mut written: Written = vec![Vec::new(); factory.outputs().len()];
    let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], 8, lanes);
    let mut most = i64::MIN;
    for part in records.chunks(per_cycle) {
        most = part.iter().map(|it| it.2).fold(most, i64::max);
        let cycle = trial.cycle(vec![vec![batch(part)]], Micros(most - lateness), false);
        cycle.expect("it runs").into_iter().for_each(|(port, rows)| written[port].push(rows));
    }
    let last = trial.cycle(vec![vec![]], Micros::MAX, true);
    last.expect("it runs").into_iter().for_each(|(port, rows)| written[port].push(rows));
    written
}

fn results(batches: &[RecordBatch]) -> Vec<Row> {
    sorted(batches.iter().flat_map(rows_of).collect())
}

/// Every value of every row, in one order.
fn late(batches: &[RecordBatch]) -> Vec<String> {
    let of_row = |batch: &RecordBatch, row| format!("{:?}", batch.slice(row, 1).columns());
    let mut rows = Vec::new();
    for batch in batches {
        rows.extend((0..batch.num_rows()).map(|row| of_row(batch, row)));
    }
    rows.sort_unstable();
    rows
}

/// The calls of a stage: all of them, in another order for each.
fn calls_of(nth: usize) -> Named<String> {
    let mut all: Vec<_> = calls().into_iter().collect();
    let count = all.len();
    all.rotate_left((nth * 5) % count);
    all.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_shares_panes_writes_what_it_writes_alone(
        records in records(),
        windows in windows(),
        per_cycle in 1_usize..40,
        lanes in 1_u32..4,
        lateness in 0_i64..80,
    ) {
        let key = ["key".to_owned()];
        let calls: Vec<_> = (0..windows.len()).map(calls_of).collect();
        let names: Vec<String> = (0..windows.len()).map(|nth| format!("s{nth}")).collect();
        let stages: Vec<SharedStage<'_>> = (0..windows.len())
            .map(|nth| SharedStage {
                name: &names[nth],
                window: &windows[nth],
                aggregate: &calls[nth],
            })
            .collect();
        let together = shared(&schema(), &key, &stages).expect("they fit");
        prop_assert_eq!(together.members(), names.clone());
        let together = run(together, &records, (per_cycle, lanes), lateness);
        for (nth, stage) in stages.iter().enumerate() {
            let alone = windowed(&schema(), &key, Some(stage.window), stage.aggregate);
            let alone = run(alone.expect("it fits"), &records, (per_cycle, lanes), lateness);
            prop_assert_eq!(results(&together[2 * nth]), results(&alone[0]));
            prop_assert_eq!(late(&together[2 * nth + 1]), late(&alone[1]));
        }
    }

    #[test]
    fn together_is_never_more_than_apart(windows in windows()) {
        let calls = calls();
        let stages: Vec<SharedStage<'_>> = windows
            .iter()
            .map(|window| SharedStage { name: "s", window, aggregate: &calls })
            .collect();
        let panes = |size: i64, pane: i64| (size + pane - 1) / pane;
        let alone = |it: &Spans| panes(it.size, it.pane);
        let mut seen = Vec::new();
        for group in groups(&schema(), &[], &stages) {
            let spans: Vec<Spans> =
                group.iter().map(|nth| spans_of(&stages[*nth]).expect("it fits")).collect();
            let pane = spans.iter().map(|it| it.pane).reduce(crate::window::spans::greatest_common_divisor);
            let size = spans.iter().map(|it| it.size).max();
            let together = panes(size.expect("one stage"), pane.expect("one stage"));
            prop_assert!(together <= spans.iter().map(alone).sum::<i64>());
            seen.extend(group);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..windows.len()).collect::<Vec<_>>());
    }
}

/// The groups of stages with these windows, all with the same aggregates.
fn grouped(windows: &[WindowSpec]) -> Vec<Vec<usize>> {
    let calls: Named<String> = [("n".to_owned(), "count(*)".to_owned())].into();
    let stage = |window| SharedStage { name: "s", window, aggregate: &calls };
    let stages: Vec<SharedStage<'_>> = windows.iter().map(stage).collect();
    groups(&schema(), &[], &stages)
}

#[test]
fn windows_share_where_that_takes_less() {
    let second = 1_000_000;
    let ten: Vec<WindowSpec> = (1..=10).map(|size| sliding(size * second, second)).collect();
    assert_eq!(grouped(&ten), [(0..10).collect::<Vec<_>>()]);
    let minute = WindowSpec::Tumbling(Span(60 * second));
    let day = WindowSpec::Tumbling(Span(86_400 * second));
    // 1,440 panes instead of two.
    assert_eq!(grouped(&[minute.clone(), day]), [vec![0], vec![1]]);
    // The panes of the hour are minutes anyway.
    let hour = sliding(3_600 * second, 60 * second);
    assert_eq!(grouped(&[minute, hour]), [vec![0, 1]]);
    // Nothing divides both.
    let odd = sliding(61 * second, 61 * second);
    assert_eq!(grouped(&[sliding(60 * second, 30 * second), odd]), [vec![0], vec![1]]);
    // Whoever has no such windows plans itself, and says so.
    let (minute, none) = (sliding(60 * second, second), WindowSpec::Tumbling(Span(0)));
    assert_eq!(grouped(&[minute.clone(), none, minute]), [vec![0, 2]]);
}

#[test]
fn a_row_that_one_stage_refuses_is_counted_by_the_others() {
    let window = WindowSpec::Tumbling(Span(10));
    let alone = |calls: [&str; 2]| {
        let calls = calls.map(|sql| Named::from([("n".to_owned(), sql.to_owned())]));
        let stage = |aggregate| SharedStage { name: "s", window: &window, aggregate };
        groups(&schema(), &[], &calls.iter().map(stage).collect::<Vec<_>>()).len() == 2
    };
    for refuses in [
        "sum(1 / key)",
        "max(cast(name as bigint))",
        "count(key % 2)",
        "sum(abs(key))",
        "sum(key * 2 + 1)",
    ] {
        assert!(alone([refuses, "count(*)"]), "{refuses}");
        assert!(alone(["sum(2 / key)", refuses]), "{refuses}");
        assert!(!alone([refuses, refuses]), "{refuses}");
    }
    for has_values in ["sum(value * 2 + 1)", "sum(value / 2)", "count(key > 3 and name is null)"] {
        assert!(!alone([has_values, "count(*)"]), "{has_values}");
    }
}

#[test]
fn a_row_that_is_late_for_one_stage_is_counted_by_another() {
    let calls = calls();
    let (short, long) = (WindowSpec::Tumbling(Span(10)), sliding(40, 10));
    let stages = [("short", &short), ("long", &long)].map(|(name, window)| SharedStage {
        name,
        window,
        aggregate: &calls,
    });
    let factory = shared(&schema(), &["key".to_owned()], &stages).expect("they fit");
    let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], 4, 1);
    trial.cycle(vec![vec![batch(&[(1, None, 25)])]], Micros(25), false).expect("it runs");
    let at_15 = batch(&[(1, Some(2.0), 15)]);
    let written = trial.cycle(vec![vec![at_15.clone()]], Micros(25), false).expect("it runs");
    assert_eq!(written, [(1, at_15)]);
    let written = trial.cycle(vec![vec![]], Micros::MAX, true).expect("it runs");
    let counts = |port| {
        let rows = written.iter().filter(|(at, _)| *at == port);
        let rows: Vec<Row> = rows.flat_map(|(_, batch)| rows_of(batch)).collect();
        let count = |it: &Row| it.3.split(' ').next().map(str::to_owned);
        rows.iter().map(|it| (it.1, count(it).expect("a count"))).collect::<Vec<_>>()
    };
    assert_eq!(counts(0), [(20, "1".to_owned())]);
    let expected = [(-10, "2"), (0, "2"), (10, "2"), (20, "1")];
    assert_eq!(counts(2), expected.map(|(start, n)| (start, n.to_owned())));
}

#[test]
fn what_cannot_share_is_refused() {
    let calls = calls();
    let refused = |window: WindowSpec| {
        let stage = SharedStage { name: "s", window: &window, aggregate: &calls };
        let error = shared(&schema(), &["key".to_owned()], &[stage]).err().expect("refused");
        assert_eq!(error.part, "window");
    };
    refused(WindowSpec::Session(Span(5)));
    refused(WindowSpec::Tumbling(Span(0)));
    assert!(shared(&schema(), &[], &[]).is_err());
}
