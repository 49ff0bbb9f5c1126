//! The history of epochs against the epochs of all records, one by one.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append(u8),
    /// A leader so many epochs later.
    Lead(u8),
    /// A leader so many epochs later is known, and has sent nothing.
    Observe(u8),
    /// Keeps so many parts of 255.
    Truncate(u8),
    Delete(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..5u8).prop_map(Step::Append),
        3 => (1..4u8).prop_map(Step::Lead),
        1 => (0..3u8).prop_map(Step::Observe),
        1 => any::<u8>().prop_map(Step::Truncate),
        1 => any::<u8>().prop_map(Step::Delete),
    ];
    proptest::collection::vec(step, 1..40)
}

fn part(of: i64, part: u8) -> i64 {
    of * i64::from(part) / 255
}

fn run(steps: &[Step]) {
    let mut history = EpochHistory::default();
    // The epoch of each record, deleted ones too.
    let mut records: Vec<i32> = Vec::new();
    let (mut start, mut leads, mut highest) = (0i64, 0, 0);
    for step in steps {
        let end = records.len() as i64;
        match step {
            Step::Append(count) => {
                // A leader appends under its own epoch: what it only knows of is another's.
                if leads != highest || history.newest() != Some(LeaderEpoch(leads)) {
                    leads = highest + 1;
                    highest = leads;
                    history.begin(LeaderEpoch(leads), Offset(end)).unwrap();
                }
                records.resize(records.len() + usize::from(*count), leads);
            }
            Step::Lead(more) => {
                (leads, highest) = (highest + i32::from(*more), highest + i32::from(*more));
                history.begin(LeaderEpoch(leads), Offset(end)).unwrap();
            }
            Step::Observe(more) => {
                highest += i32::from(*more);
                history.observe(LeaderEpoch(highest)).unwrap();
            }
            Step::Truncate(kept) => {
                let to = start + part(end - start, *kept);
                records.truncate(to as usize);
                history.truncate(Offset(to));
            }
            Step::Delete(kept) => {
                start += part(end - start, *kept);
                history.forget_below(Offset(start));
            }
        }
        check(&history, &records, start, highest);
    }
}

fn check(history: &EpochHistory, records: &[i32], start: i64, highest: i32) {
    let end = records.len() as i64;
    let starts = history.starts();
    assert!(starts.windows(2).all(|it| it[0].epoch < it[1].epoch && it[0].start < it[1].start));
    assert_eq!(history.highest(), LeaderEpoch(highest));
    for offset in start..end {
        let epoch = history.epoch_at(Offset(offset));
        assert_eq!(epoch.0, records[offset as usize], "offset {offset} of {history:?}");
    }
    for asked in -1..highest + 3 {
        let found = history.end_of(LeaderEpoch(asked), Offset(end));
        if !(0..=highest).contains(&asked) {
            assert_eq!(found, None, "epoch {asked}");
            continue;
        }
        let found = found.expect("it is known");
        let after = records.iter().position(|it| *it > asked).map_or(end, |it| it as i64);
        assert_eq!(found.end.0.max(start), after.max(start), "epoch {asked} of {history:?}");
        assert!(found.epoch.0 <= asked);
        let has = |it: &i32| *it == found.epoch.0;
        let is_told = found.epoch.0 == asked || records.iter().any(has) || found.epoch.0 == 0;
        assert!(is_told || starts.iter().any(|it| it.epoch == found.epoch), "epoch {asked}");
        // No record that is left is of an epoch between the answer and the question.
        let between = |it: &i32| found.epoch.0 < *it && *it <= asked;
        assert!(!records[start as usize..].iter().any(between), "epoch {asked}");
    }
}

proptest! {
    #[test]
    fn every_record_has_its_epoch_and_every_epoch_its_end(steps in steps()) {
        run(&steps);
    }
}

#[test]
fn a_lower_epoch_is_refused_and_changes_nothing() {
    let mut history = EpochHistory::default();
    history.begin(LeaderEpoch(5), Offset(10)).unwrap();
    let before = history.clone();
    for epoch in 0..=5 {
        let over = EpochOver { epoch: LeaderEpoch(epoch), newest: LeaderEpoch(5) };
        assert_eq!(history.begin(LeaderEpoch(epoch), Offset(20)), Err(over));
        if epoch < 5 {
            assert_eq!(history.observe(LeaderEpoch(epoch)), Err(over));
        }
    }
    assert_eq!(history, before);
    history.truncate(Offset(0));
    assert!(history.observe(LeaderEpoch(4)).is_err(), "a truncation forgets no epoch");
    // Its leader may have records of earlier epochs that the copy lost.
    history.begin(LeaderEpoch(3), Offset(0)).unwrap();
    assert_eq!((history.newest(), history.highest()), (Some(LeaderEpoch(3)), LeaderEpoch(5)));
}
