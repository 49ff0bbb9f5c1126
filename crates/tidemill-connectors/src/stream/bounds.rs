//! Where reading a stream begins and ends.

use super::node::StreamGroup;
use super::reader::View;
use super::source::StreamSourceSpec;
use tidemill_types::job::{StartSpec, UntilSpec};

/// By streamlet: the first offset that is read and, if reading ends, the one after the last. The
/// latest is the last stable offset: a job that ends there never waits for a transaction. `group` is
/// that of the start, if it names one.
pub(super) fn bounds(
    views: &[View],
    spec: &StreamSourceSpec,
    group: Option<&dyn StreamGroup>,
) -> Result<Vec<(i64, Option<i64>)>, String> {
    let count = u32::try_from(views.len()).unwrap_or(u32::MAX);
    let mut committed = group.map_or(Ok(Vec::new()), |it| it.offsets(count))?.into_iter();
    views.iter().map(|view| of_one(view, spec, committed.next().flatten())).collect()
}

fn of_one(
    view: &View,
    spec: &StreamSourceSpec,
    committed: Option<i64>,
) -> Result<(i64, Option<i64>), String> {
    let streamlet = &view.streamlet;
    let (first, end) = (streamlet.start_offset(), view.end_offset()?);
    let start = match &spec.start {
        StartSpec::Earliest => first,
        StartSpec::Latest => end,
        // The chunk that has the first such record; records before it are read too.
        StartSpec::Time(time) => {
            let found = streamlet.offset_for_time(time.0.div_euclid(1000));
            let found = found.map_err(|error| error.to_string())?;
            found.map_or(end, |it| it.offset)
        }
        StartSpec::Group(group) => {
            let start = committed.map_or(first, |it| it.max(first));
            if start > streamlet.high_watermark() {
                let (index, end) = (streamlet.index(), streamlet.high_watermark());
                return Err(format!(
                    "the group `{group}` stands at offset {start} of streamlet {index}, which \
                     ends at {end}: reset the group's offsets, or begin elsewhere"
                ));
            }
            start
        }
    };
    let until = match spec.until {
        UntilSpec::Never => None,
        UntilSpec::Latest => Some(end.max(start)),
    };
    Ok((start, until))
}
