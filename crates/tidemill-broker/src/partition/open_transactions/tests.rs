//! Stability against a plain model of the same history.

use super::*;
use proptest::prelude::*;

#[test]
fn readers_are_held_back_until_the_marker_is_visible() {
    let mut stable = OpenTransactions::default();
    stable.begin(ProducerId(1), Offset(10));
    stable.begin(ProducerId(2), Offset(15));
    assert_eq!(stable.first_unstable(), Some(10));
    stable.end(10, 20, true);
    assert_eq!(stable.first_unstable(), Some(10), "the marker is not visible");
    stable.pass(20);
    assert_eq!(stable.first_unstable(), Some(10));
    stable.pass(21);
    assert_eq!(stable.first_unstable(), Some(15));
    stable.end(15, 30, false);
    stable.pass(31);
    assert_eq!(stable.first_unstable(), None);
    assert!(!stable.is_busy());
}

#[test]
fn r12_an_aborted_range_reaches_from_its_first_record_to_its_marker() {
    let mut stable = OpenTransactions::default();
    stable.begin(ProducerId(1), Offset(10));
    stable.end(10, 20, false);
    let found = vec![Aborted { producer_id: 1, first_offset: 10 }];
    assert_eq!(stable.aborted(20, 21), found, "the marker itself");
    assert_eq!(stable.aborted(0, 11), found);
    assert_eq!(stable.aborted(0, 10), []);
    assert_eq!(stable.aborted(21, 99), []);
    assert_eq!(stable.prune(20), Vec::<i64>::new());
    assert_eq!(stable.prune(21), [20]);
    assert_eq!(stable.aborted(0, 99), []);
}

#[derive(Clone, Debug)]
enum ChunkStep {
    Record(i64),
    End(i64, bool),
    Plain,
    Pass(u8),
}

fn steps() -> impl Strategy<Value = Vec<ChunkStep>> {
    let step = prop_oneof![
        4 => (0i64..4).prop_map(ChunkStep::Record),
        3 => (0i64..4, any::<bool>()).prop_map(|(id, commit)| ChunkStep::End(id, commit)),
        1 => Just(ChunkStep::Plain),
        2 => any::<u8>().prop_map(ChunkStep::Pass),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn every_reader_of_an_aborted_record_is_told_and_stability_never_goes_back(
        steps in steps(), queries in prop::collection::vec((0i64..80, 0i64..30), 8),
    ) {
        let mut stable = OpenTransactions::default();
        let mut open: BTreeMap<i64, i64> = BTreeMap::new();
        // First, marker, producer, commit.
        let mut ended: Vec<(i64, i64, i64, bool)> = Vec::new();
        let (mut next, mut watermark, mut before) = (0i64, 0i64, 0i64);
        for step in steps {
            match step {
                ChunkStep::Record(id) => {
                    if let std::collections::btree_map::Entry::Vacant(entry) = open.entry(id) {
                        entry.insert(next);
                        stable.begin(ProducerId(id), Offset(next));
                    }
                    next += 1;
                }
                ChunkStep::End(id, commit) => {
                    if let Some(first) = open.remove(&id) {
                        stable.end(first, next, commit);
                        ended.push((first, next, id, commit));
                        next += 1;
                    }
                }
                ChunkStep::Plain => next += 1,
                ChunkStep::Pass(part) => {
                    watermark += (next - watermark) * i64::from(part) / 255;
                    stable.pass(watermark);
                }
            }
            let held = ended.iter().filter(|it| it.1 >= watermark).map(|it| it.0);
            let expected = open.values().copied().chain(held).min();
            prop_assert_eq!(stable.first_unstable(), expected);
            let now = expected.unwrap_or(watermark).min(watermark);
            prop_assert!(now >= before, "the last stable offset went from {} to {}", before, now);
            before = now;
            for (from, length) in &queries {
                let to = from + length;
                let mut expected: Vec<_> = ended
                    .iter()
                    .filter(|it| !it.3 && it.1 >= *from && it.0 < to)
                    .map(|it| (it.2, it.0))
                    .collect();
                let said = stable.aborted(*from, to);
                let mut said: Vec<_> = said.iter().map(|it| (it.producer_id, it.first_offset)).collect();
                expected.sort_unstable();
                said.sort_unstable();
                prop_assert_eq!(said, expected);
            }
        }
    }
}
