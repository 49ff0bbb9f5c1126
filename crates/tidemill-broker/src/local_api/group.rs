//! Consumer groups, for readers of this process that are no members: where a group stands, and
//! where it is put.

use crate::{
    Broker,
    group::registry::{NewOffset, RequestSender},
};
use std::collections::BTreeMap;
use tidemill_log::Stream;
use tidemill_types::{Offset, StreamletIx};
use tidemill_wire::kafka::ErrorCode;

#[cfg(test)]
mod tests;

/// Why a group's offsets are not to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The group has members, which commit offsets of their own.
    #[error("it has members that are alive ({0}): stop them first, or use a group of its own")]
    Members(usize),
    /// An open transaction may commit another offset.
    #[error("an open transaction holds an offset of it: try again when that has ended")]
    Transaction,
    /// The offsets are not committed.
    #[error("its offsets cannot be committed ({0:?})")]
    Refused(ErrorCode),
}

impl Broker {
    /// The offsets that a group has committed for a stream, by streamlet. A group that is not there
    /// has none.
    ///
    /// # Errors
    /// The group has members, or one of the offsets is about to change.
    pub fn group_offsets(
        &self,
        group: &str,
        stream: &Stream,
    ) -> Result<BTreeMap<StreamletIx, Offset>, GroupError> {
        let members = self.groups.describe(group).map_or(0, |it| it.members.len());
        if members > 0 {
            return Err(GroupError::Members(members));
        }
        let found = self.groups.offsets(group, |offsets| {
            let of_stream = |index: u32| {
                let place = (stream.name().to_owned(), index);
                if offsets.is_pending(&place) {
                    return Err(GroupError::Transaction);
                }
                // An offset of a stream that was deleted is none of the one with its name now.
                let record = offsets.get(&place).filter(|it| it.topic_id == stream.id().0);
                Ok(record.map(|it| (StreamletIx(index), Offset(it.offset))))
            };
            (0..stream.spec().streamlets).filter_map(|it| of_stream(it).transpose()).collect()
        });
        found.unwrap_or_else(|| Ok(BTreeMap::new()))
    }

    /// Commits offsets of a stream to a group, by streamlet; the group is made if it is not there.
    /// Blocks until they are durable, and must not be called by an asynchronous task.
    ///
    /// # Errors
    /// None of them is committed: the group has members, or the store failed.
    pub fn commit_group_offsets(
        &self,
        group: &str,
        stream: &Stream,
        offsets: &BTreeMap<StreamletIx, Offset>,
    ) -> Result<(), GroupError> {
        let sender = RequestSender {
            group: group.to_owned(),
            member_id: String::new(),
            instance: None,
            generation: -1,
        };
        let new = |(streamlet, offset): (&StreamletIx, &Offset)| {
            let (topic_id, metadata) = (stream.id().0, String::new());
            let new = NewOffset { offset: offset.0, leader_epoch: -1, topic_id, metadata };
            ((stream.name().to_owned(), streamlet.0), new)
        };
        let outcome = self.groups.commit_blocking(&sender, offsets.iter().map(new).collect());
        outcome.map_err(|error| {
            let members = self.groups.describe(group).map_or(0, |it| it.members.len());
            if members > 0 { GroupError::Members(members) } else { GroupError::Refused(error) }
        })
    }
}
