//! Histories beside logs that keep the epoch of each entry.

use super::EpochHistory;
use proptest::prelude::*;
use tidemill_types::{LogPosition, VirtualLogEpoch};

/// The history of a log that has one epoch for each entry.
fn history(log: &[u32]) -> EpochHistory {
    let mut history = EpochHistory::default();
    for (position, epoch) in log.iter().enumerate() {
        history.begin(VirtualLogEpoch(*epoch), LogPosition(position as u64));
    }
    history
}

/// Logs whose epochs ascend.
fn log() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..2, 0..12).prop_map(|steps| {
        let mut epoch = 0;
        steps
            .into_iter()
            .map(|step| {
                epoch += step;
                epoch
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn knows_the_epoch_of_each_entry(log in log()) {
        let history = history(&log);
        for (position, epoch) in log.iter().enumerate() {
            let found = history.epoch_at(LogPosition(position as u64));
            prop_assert_eq!(found, Some(VirtualLogEpoch(*epoch)));
        }
    }

    #[test]
    fn finds_where_logs_part(a in log(), b in log(), from in 0usize..12) {
        let end = a.len().min(b.len());
        prop_assume!(from <= end);
        let expected = (from..end).find(|p| a[*p] != b[*p]).unwrap_or(end);
        let (from, end) = (LogPosition(from as u64), LogPosition(end as u64));
        let found = history(&a).common_end(&history(&b), from, end);
        prop_assert_eq!(found, LogPosition(expected as u64));
    }

    #[test]
    fn takes_over_the_tail_of_another_log(a in log(), b in log(), at in 0usize..12) {
        prop_assume!(at <= a.len() && at <= b.len());
        let mut joined = a[..at].to_vec();
        joined.extend(&b[at..]);
        prop_assume!(joined.is_sorted());
        let mut taken = history(&a);
        taken.extend(LogPosition(at as u64), &history(&b), LogPosition(b.len() as u64));
        prop_assert_eq!(taken, history(&joined));
    }
}
