//! Invariants of the ledger that the lives of a job left.
//!
//! A job with a live source is compared with a replay of its ledger. So the ledger itself is
//! checked against the sources.

use crate::sim_source::SourceFeed;
use std::{collections::BTreeMap, path::PathBuf};
use tidemill_types::{Cycle, Micros, SliceId, SliceKey, StageIx};
use tidemill_wire::{
    journal,
    ledger::{Cut, LedgerEntry},
};

type Cycles = BTreeMap<Cycle, (Micros, Vec<Cut>)>;

/// Checks that the ledger of a finished job records every slice as read to its end, and that the
/// times of its cycles never fall.
///
/// # Errors
/// It does not.
pub(crate) fn check(
    feeds: &[SourceFeed],
    files: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), String> {
    let (mut last_cycle, mut last_time) = (Cycle::NONE, Micros::MIN);
    // By source and slice: where it stands, and whether it has ended.
    let mut slices: BTreeMap<SliceKey, (u64, bool)> = BTreeMap::new();
    for (source, feed) in (0..).zip(feeds) {
        let key = |slice| SliceKey::new(StageIx(source), SliceId(slice));
        slices.extend((0..feed.slices).map(|slice| (key(slice), (0, false))));
    }
    for (cycle, (time, cuts)) in cycles(files)? {
        if cycle != last_cycle.next() {
            return Err(format!("cycle {cycle} of the ledger follows cycle {last_cycle}"));
        }
        if time < last_time {
            return Err(format!(
                "cycle {cycle} was at {time:?}, and the one before at {last_time:?}"
            ));
        }
        (last_cycle, last_time) = (cycle, time);
        for cut in cuts {
            let slice = slices.get_mut(&SliceKey::new(StageIx(cut.source), SliceId(cut.slice)));
            let slice = slice.ok_or_else(|| format!("there is no slice of {cut:?}"))?;
            if slice.1 || cut.position < slice.0 {
                return Err(format!("cycle {cycle} has {cut:?}, and before it was {slice:?}"));
            }
            *slice = (cut.position, cut.ended);
        }
    }
    let all = |slice: &SliceKey| (feeds[slice.stage.index()].count, true);
    match slices.iter().find(|(slice, is)| **is != all(slice)) {
        Some((slice, is)) => Err(format!(
            "slice {slice} is at {is:?} in the ledger, and should be at {:?}",
            all(slice)
        )),
        None => Ok(()),
    }
}

/// All cycles that the files have.
fn cycles(files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Cycles, String> {
    let mut cycles = Cycles::new();
    let is_ledger = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "ledger" || name.starts_with("ledger-")
    };
    for path in files.keys().filter(is_ledger) {
        let (records, ..) = journal::read(&files[path]);
        for record in records {
            let entry = LedgerEntry::decode(record).map_err(|error| error.to_string())?;
            if let LedgerEntry::Cycle { cycle, time, cuts }
            | LedgerEntry::Marked { cycle, time, cuts, .. } = entry
            {
                // What a later file has was written later.
                cycles.insert(cycle, (time, cuts));
            }
        }
    }
    Ok(cycles)
}
