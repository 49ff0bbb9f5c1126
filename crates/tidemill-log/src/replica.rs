//! The operations of a copy: chunks are appended as the leader has them, and an end that the leader
//! does not have is cut off.
//!
//! ```text
//! leader  0 … 4 │ epoch 7 from 5: 5 6 7          "epoch 6 ends at 5"
//! copy    0 … 4   5' 6'  (of epoch 6)            truncate to (6, 5) ─▶ aside, then append 5 6 7
//! ```
//!
//! A copy is cut where its epochs part from the leader's, never at its high watermark (KIP-101,
//! KIP-279): the watermark that a copy knows is older than what the leader has promised.
//!
//! A truncation is durable in `epochs` before a byte is touched. Then the streamlet is recovered
//! anew, which carries it out; a crash in between leaves that to the next opening of the log.
//!
//! Invariants: a copy has its leader's chunks byte for byte; nothing that was visible is cut; bytes
//! that are cut off are in `aside` first.

use crate::{
    append::{Append, ChunkInput, ChunkOrigin},
    epoch_journal::{EpochChange, StreamletEpochs, Truncation},
    epochs::{EpochEnd, EpochOver},
    error::{AppendError, LogError, ReplicaRefusal},
    format::DATA_START,
    log::Log,
    log_core::at,
    offset_tracker::{Notifications, TakenOffsets},
    role::StreamletRole,
    segment::Segment,
    stream::Stream,
    streamlet::Streamlet,
    walk::Walker,
};
use std::{io, sync::Arc};
use tidemill_types::{LeaderEpoch, Offset};
use tidemill_wire::chunk::ChunkHead;

#[cfg(test)]
mod tests;

impl Streamlet {
    /// Appends a chunk of the leader's, with the offsets and the epoch that are in its head. It
    /// lands as any other, and becomes visible by [`Self::set_replicated`].
    ///
    /// # Errors
    /// The chunk is damaged or not the next one, this node leads, or the disk failed.
    pub fn append_replica(self: &Arc<Self>, chunk: &[u8]) -> Result<Append, AppendError> {
        let head = ChunkHead::check(chunk)?;
        let epoch = LeaderEpoch(head.leader_epoch);
        let sent = TakenOffsets { base: head.base_offset, epoch };
        let mut notices = Vec::new();
        let begun = self.begin_epoch_of(sent, &mut notices);
        notices.into_iter().for_each(Notifications::send);
        begun?;
        self.append_entry(&head, ChunkInput::Lent(chunk), ChunkOrigin::Leader(sent))
    }

    /// Takes down the epoch of a leader's chunk if it is the first of it.
    fn begin_epoch_of(
        &self,
        sent: TakenOffsets,
        notices: &mut Vec<Notifications>,
    ) -> Result<(), AppendError> {
        let mut epochs = self.epochs.lock();
        let (role, expected) = {
            let offsets = self.offsets();
            (offsets.role(), Offset(offsets.next()))
        };
        let StreamletRole::Copy(known) = role else {
            return Err(ReplicaRefusal::Leads { epoch: role.epoch() }.into());
        };
        let newest = epochs.history.newest();
        if newest == Some(sent.epoch) {
            return Ok(());
        }
        let is_behind = newest.is_some_and(|newest| sent.epoch < newest);
        if sent.epoch > known || is_behind || sent.epoch < LeaderEpoch(0) {
            let known = if sent.epoch > known { known } else { newest.unwrap_or(known) };
            return Err(ReplicaRefusal::Epoch { sent: sent.epoch, known }.into());
        }
        if Offset(sent.base) != expected {
            return Err(ReplicaRefusal::Offset { sent: Offset(sent.base), expected }.into());
        }
        let begins = EpochChange::Begins(sent.epoch, expected);
        let failed = |error: LogError| AppendError::Failed(Arc::from(error.to_string()));
        self.note(begins, notices).map_err(failed)?;
        epochs.apply(begins);
        Ok(())
    }
}

impl Log {
    /// Cuts a copy where its epochs part from its leader's: `leader` is the leader's answer to the
    /// question where the copy's last epoch ends ([`Streamlet::end_of_epoch`]). Records of later
    /// epochs go, and those from that end on; they are in the folder `aside` before. Returns the
    /// streamlet that takes the place of this one, which is closed. Ask again with its last epoch
    /// if that is not the leader's.
    ///
    /// # Errors
    /// This node leads the streamlet, records that were visible would go, or the disk failed: then
    /// the streamlet takes nothing until the log is opened again.
    pub fn truncate_to(
        &self,
        stream: &Stream,
        streamlet: &Streamlet,
        leader: EpochEnd,
    ) -> Result<Arc<Streamlet>, LogError> {
        let _one = self.lock_changes();
        let mut notices = Vec::new();
        let truncated = self.truncate_one(stream, streamlet, leader, &mut notices);
        notices.into_iter().for_each(Notifications::send);
        truncated
    }

    fn truncate_one(
        &self,
        stream: &Stream,
        streamlet: &Streamlet,
        leader: EpochEnd,
        notices: &mut Vec<Notifications>,
    ) -> Result<Arc<Streamlet>, LogError> {
        let current = stream.streamlet(streamlet.index.0).ok_or(LogError::Closed)?;
        if !std::ptr::eq(&*current, streamlet) || streamlet.is_failed() {
            return Err(LogError::Closed);
        }
        let mut epochs = streamlet.epochs.lock();
        let role = streamlet.role();
        let kept = |end, why| LogError::Kept { end, why };
        let StreamletRole::Copy(epoch) = role else {
            return Err(kept(leader.end, "this node leads the streamlet"));
        };
        if leader.epoch > epoch {
            return Err(EpochOver { epoch, newest: leader.epoch }.into());
        }
        notices.push(streamlet.step_back(epoch));
        let log_end = Offset(streamlet.end_offset());
        let end = epochs.common_end(leader, log_end);
        if end >= log_end {
            // An epoch of which nothing came is none that the leader's records have to follow.
            if epochs.history.newest() > Some(leader.epoch) && epochs.history.begins_from(end) {
                let forgotten = EpochChange::Truncated(Truncation::of_epochs(end));
                streamlet.note(forgotten, notices)?;
                epochs.apply(forgotten);
            }
            drop(epochs);
            return Ok(current);
        }
        let end = streamlet.chunk_start(end)?;
        let watermark = streamlet.high_watermark();
        if end.0 < watermark {
            return Err(kept(end, "they were visible, so enough copies have them"));
        }
        let before = streamlet.shared.next_epoch();
        let truncated = EpochChange::Truncated(Truncation { end, before });
        streamlet.note(truncated, notices)?;
        epochs.apply(truncated);
        notices.push(streamlet.end(AppendError::Closed));
        streamlet.segments().values().for_each(|it| it.retire());
        let remade = self.recover_one(stream, streamlet, &epochs)?;
        remade.set_replicated(Offset(watermark));
        stream.replace(&remade);
        Ok(remade)
    }
}

impl StreamletEpochs {
    /// The end of what this log and the leader's have in common, by the leader's answer.
    fn common_end(&self, leader: EpochEnd, log_end: Offset) -> Offset {
        let first = self.history.starts().first();
        let own = match self.history.end_of(leader.epoch, log_end) {
            // All epochs here are later ones.
            Some(_) if first.is_none_or(|it| it.epoch > leader.epoch) => {
                first.map_or(Offset(0), |it| it.start)
            }
            Some(own) => own.end,
            None => log_end,
        };
        own.min(leader.end)
    }
}

impl Streamlet {
    /// The first offset of the chunk that has this one; itself if a chunk begins there, or none has
    /// it.
    fn chunk_start(&self, offset: Offset) -> Result<Offset, LogError> {
        let segments: Vec<Arc<Segment>> = self.segments().values().cloned().collect();
        for segment in segments {
            let (first, end) = segment.range();
            if first < offset.0
                && offset.0 < end
                && let Some(base) = self.base_in(&segment, offset).map_err(at(&segment.path))?
            {
                return Ok(base);
            }
        }
        Ok(offset)
    }

    fn base_in(&self, segment: &Segment, offset: Offset) -> io::Result<Option<Offset>> {
        let written = segment.state().written;
        let file = segment.reader(&*self.shared.world.disk)?;
        let mut walker = Walker::new(file, segment.key, 4096)?;
        let mut position = DATA_START;
        while position < written {
            let Some(reference) = walker.reference(position)? else { break };
            if (reference.base..=reference.last).contains(&offset.0) {
                return Ok(Some(Offset(reference.base)));
            }
            position += reference.entry_bytes();
        }
        Ok(None)
    }
}
