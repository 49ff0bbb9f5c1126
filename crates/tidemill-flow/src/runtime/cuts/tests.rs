//! An entry is whole when every slice that is still there has cut it.

use super::*;

/// The only slice of a source.
fn slice(source: u32) -> SliceKey {
    SliceKey::new(StageIx(source), SliceId(0))
}

fn add(cuts: &mut Cuts, source: u32, cycle: u64, ended: bool) -> String {
    let cut = Cut { source, slice: 0, position: cycle * 10, ended, idle: false };
    cuts.add((Cycle(cycle), Micros(0)), cut, Micros(7));
    let whole = cuts.take().into_iter().map(|entry| match entry {
        LedgerEntry::Cycle { cycle, cuts, .. } => format!("{cycle}x{}", cuts.len()),
        LedgerEntry::Marked { cycle, watermarks, .. } => format!("{cycle}m{watermarks:?}"),
        LedgerEntry::Head(_) | LedgerEntry::Later { .. } | LedgerEntry::Life(_) => {
            "head".to_owned()
        }
    });
    whole.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_entry_waits_for_the_slowest_slice() {
    let mut cuts = Cuts::new([0, 1].map(slice), Cycle::NONE, |_| false);
    assert_eq!(add(&mut cuts, 0, 1, false), "");
    assert_eq!(add(&mut cuts, 0, 2, false), "");
    assert_eq!(add(&mut cuts, 1, 1, false), "1x2");
    assert_eq!(add(&mut cuts, 1, 2, true), "2x2");
    assert_eq!(cuts.complete(), Cycle(2));
}

#[test]
fn a_slice_that_ended_is_not_waited_for() {
    let mut cuts = Cuts::new([0, 1].map(slice), Cycle::NONE, |_| false);
    assert_eq!(add(&mut cuts, 0, 1, false), "");
    assert_eq!(add(&mut cuts, 0, 2, false), "");
    assert_eq!(add(&mut cuts, 1, 1, true), "1x2 2x1");
    assert_eq!(add(&mut cuts, 0, 3, true), "3x1");
}

#[test]
fn an_entry_may_say_how_far_event_time_was() {
    let mut cuts = Cuts::new([0, 1].map(slice), Cycle::NONE, |_| false).marked(true);
    assert_eq!(add(&mut cuts, 1, 1, false), "");
    assert_eq!(add(&mut cuts, 0, 1, false), "1m[Micros(7), Micros(7)]");
}

#[test]
#[should_panic(expected = "in order")]
fn a_slice_may_not_skip_a_cycle() {
    let mut cuts = Cuts::new([0].map(slice), Cycle::NONE, |_| false);
    add(&mut cuts, 0, 2, false);
}

#[test]
fn without_a_ledger_only_the_numbers_are_kept() {
    let mut cuts = Cuts::new([0, 1].map(slice), Cycle::NONE, |_| false);
    let cut = |source, ended| Cut { source, slice: 0, position: 0, ended, idle: false };
    cuts.note(Cycle(1), cut(0, false));
    assert_eq!(cuts.complete(), Cycle::NONE);
    cuts.note(Cycle(1), cut(1, true));
    cuts.note(Cycle(2), cut(0, false));
    assert_eq!(cuts.complete(), Cycle(2), "a slice that ended is not waited for");
    assert!(cuts.take().is_empty());
}
