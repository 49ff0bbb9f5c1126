//! Where reading a streamlet begins and ends.

use super::reader::View;
use super::source::StreamSourceSpec;
use tidemill_types::job::{StartSpec, UntilSpec};

/// The first offset that is read and, if reading ends, the one after the last. The latest is the
/// last stable offset: a job that ends there never waits for a transaction.
pub(super) fn bounds(view: &View, spec: &StreamSourceSpec) -> Result<(i64, Option<i64>), String> {
    let streamlet = &view.streamlet;
    let end = view.end_offset()?;
    let start = match spec.start {
        StartSpec::Earliest => streamlet.start_offset(),
        StartSpec::Latest => end,
        // The chunk that has the first such record; records before it are read too.
        StartSpec::Time(time) => {
            let found = streamlet.offset_for_time(time.0.div_euclid(1000));
            let found = found.map_err(|error| error.to_string())?;
            found.map_or(end, |(offset, _)| offset)
        }
    };
    let until = match spec.until {
        UntilSpec::Never => None,
        UntilSpec::Latest => Some(end.max(start)),
    };
    Ok((start, until))
}
