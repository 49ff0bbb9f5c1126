//! The event times of the first records of a file, before a job reads it whole.
//!
//! A column whose texts are no times makes dead letters of all records, and one of epoch seconds
//! puts all of them into January 1970: neither is an error of the job, and both are seldom meant.

use arrow_array::{Array, TimestampMicrosecondArray};
use tidemill_flow::{Payload, Read, ReadRequest, SourceFactory, TIME_COLUMN};
use tidemill_types::{Cycle, SliceId};

/// Records that are looked at, at most.
const RECORDS_MAX: usize = 1_000;
/// Bytes of them.
const BYTES_MAX: usize = 1 << 20;
/// Seconds from 1980 to 2100 that were taken for milliseconds, in microseconds since the epoch.
/// Smaller numbers are made-up times of a trial.
const SECONDS_US: std::ops::Range<i64> = 315_532_800_000..4_102_444_800_000;

/// The doubt about the event time of a source; none if it looks right, or if
/// nothing can be seen: the job itself reports unreadable records.
pub(super) fn doubt(source: &dyn SourceFactory) -> Option<String> {
    let request =
        ReadRequest { cycle: Cycle::FIRST, bytes: BYTES_MAX, records: RECORDS_MAX, until: None };
    let mut letters = Vec::new();
    let read = source.open(SliceId(0)).ok()?.read(&request, &mut letters).ok()?;
    let Read::Rows { payload: Payload::Arrow(batch), .. } = read else { return None };
    if batch.num_rows() == 0 {
        let (count, first) = (letters.len(), letters.first()?);
        return Some(format!(
            "its first {count} records would all be dead letters: {}",
            first.reason
        ));
    }
    let times = batch.column_by_name(TIME_COLUMN)?;
    let times = times.as_any().downcast_ref::<TimestampMicrosecondArray>()?;
    times.values().iter().all(|time| SECONDS_US.contains(time)).then(|| {
        format!(
            "the times of its first {} records are all in 1970: numbers are taken for milliseconds, \
             and these look like seconds",
            times.len()
        )
    })
}

#[cfg(test)]
mod tests;
