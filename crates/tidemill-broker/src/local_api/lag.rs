//! The lags of consumer groups in the streams that they read.

use crate::{Broker, group::offsets::GroupOffsets};
use std::sync::Arc;
use tidemill_log::Stream;

#[cfg(test)]
mod tests;

/// The lag of a group in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLag {
    /// The group.
    pub group: String,
    /// The stream.
    pub stream: String,
    /// Offsets from the committed ones to the end, over the streamlets that the group has committed
    /// an offset for.
    pub offsets: u64,
}

/// The lags of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLags {
    /// By group and stream, in the order of their names.
    pub lags: Vec<GroupLag>,
    /// Lags that did not fit.
    pub left_out: usize,
    /// Groups, those without offsets counted.
    pub groups: usize,
}

impl Broker {
    /// The lags of groups in the streams for which they have committed offsets, up to the given
    /// count.
    #[must_use]
    pub fn group_lags(&self, most: usize) -> GroupLags {
        let listed = self.groups.list();
        let mut all = GroupLags { groups: listed.len(), ..GroupLags::default() };
        for listed in listed {
            let look = |offsets: &GroupOffsets| self.add_lags(&listed.id, offsets, most, &mut all);
            // One that is gone by now has none.
            let _gone = self.groups.offsets(&listed.id, look);
        }
        all
    }

    fn add_lags(&self, group: &str, offsets: &GroupOffsets, most: usize, all: &mut GroupLags) {
        // Offsets are in the order of their streams.
        let mut stream: Option<Arc<Stream>> = None;
        let mut is_new = true;
        for ((name, index), record) in offsets.all() {
            if stream.as_ref().is_none_or(|it| it.name() != name) {
                stream = self.log.get(name);
                is_new = true;
            }
            // An offset of a stream that was deleted is none of the one with its name now.
            let of_it = stream.as_ref().filter(|it| it.id().0 == record.topic_id);
            let Some(streamlet) = of_it.and_then(|it| it.streamlet(*index)) else { continue };
            let behind = streamlet.high_watermark().saturating_sub(record.offset);
            let behind = u64::try_from(behind).unwrap_or(0);
            let has_room = all.lags.len() < most;
            match all.lags.last_mut() {
                Some(last) if !is_new && last.group == group && last.stream == *name => {
                    last.offsets = last.offsets.saturating_add(behind);
                }
                _ if is_new && has_room => all.lags.push(GroupLag {
                    group: group.to_owned(),
                    stream: name.clone(),
                    offsets: behind,
                }),
                _ => all.left_out += usize::from(is_new),
            }
            is_new = false;
        }
    }
}
