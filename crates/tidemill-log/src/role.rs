//! The part that a node plays for a streamlet: it leads it, or has a copy of it.
//!
//! ```text
//!            become_leader(5)                       become_copy(6)
//! Copy(4) ─────────────────────▶ Leader(5) ──────────────────────────▶ Copy(6)
//!   append_replica                 append                               append_replica
//! ```
//!
//! Every append of any kind comes through the streamlet, which refuses it unless this node leads,
//! and stamps its epoch: broker, jobs and HTTP alike. Recovery makes nothing visible by itself;
//! the role does (see `offset_tracker`).
//!
//! Invariants: an epoch is durable before the first chunk of it is appended; no epoch below the
//! newest known one leads, or is followed; a copy shows nothing that its leader has not said to be
//! on enough copies.

use crate::{
    epoch_journal::{EpochChange, EpochRecord},
    epochs::{EpochEnd, EpochOver, EpochStart},
    error::LogError,
    offset_tracker::Notifications,
    streamlet::Streamlet,
};
use std::sync::Arc;
use tidemill_env::sync::atomic::Ordering;
use tidemill_types::{LeaderEpoch, Offset};

/// The part that a node plays for a streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamletRole {
    /// It appends, under this epoch.
    Leader(LeaderEpoch),
    /// It takes the chunks of a leader elsewhere, whose epoch is this one or a later one.
    Copy(LeaderEpoch),
}

impl StreamletRole {
    /// The leader's epoch, as far as this node knows.
    #[must_use]
    pub fn epoch(self) -> LeaderEpoch {
        match self {
            Self::Leader(epoch) | Self::Copy(epoch) => epoch,
        }
    }

    /// True for a leader.
    #[must_use]
    pub fn leads(self) -> bool {
        matches!(self, Self::Leader(_))
    }
}

/// The copies that a chunk needs before it is acknowledged and visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Landing {
    /// To be as durable here as the stream's [`crate::Fsync`] asks: there are no copies.
    #[default]
    Local,
    /// That, and to be on enough copies, up to the offset of [`Streamlet::set_replicated`].
    Replicated,
}

/// The roles of all streamlets when a log is opened, and of new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartRole {
    /// This node is alone: it leads every streamlet, and publishes all that it recovered. A
    /// streamlet goes on under its epoch if the log was closed, and begins a new one if it was
    /// not: a crash may have lost records whose offsets a client has seen.
    #[default]
    Alone,
    /// Every streamlet is a copy until [`Streamlet::become_leader`]: it takes no appends, and
    /// nothing that was recovered is visible.
    Copy,
}

impl Streamlet {
    /// The role of this node for the streamlet.
    #[must_use]
    pub fn role(&self) -> StreamletRole {
        self.offsets().role()
    }

    /// The leader's epoch, as far as this node knows.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.role().epoch()
    }

    /// The epochs that have records here, oldest first.
    #[must_use]
    pub fn epochs(&self) -> Vec<EpochStart> {
        self.epochs.lock().history.starts().to_vec()
    }

    /// The epoch of the record at `offset`; of an offset without a record, the newest epoch.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        self.epochs.lock().history.epoch_at(offset)
    }

    /// The largest epoch that is not above `asked`, and the offset after its last record; the last
    /// epoch ends at `end`, which is the high watermark for a client, and the end offset for a
    /// copy. None if `asked` is above all that are known (KIP-279, KIP-320).
    #[must_use]
    pub fn end_of_epoch(&self, asked: LeaderEpoch, end: Offset) -> Option<EpochEnd> {
        self.epochs.lock().history.end_of(asked, end)
    }

    /// Begins to lead under a new epoch. The epoch is durable when this returns, so no later
    /// opening takes a lower one. What was recovered becomes visible as `landing` says.
    ///
    /// # Errors
    /// The epoch is not above all that were seen, the streamlet failed, or the disk did: then it
    /// does not lead.
    pub fn become_leader(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        landing: Landing,
    ) -> Result<(), LogError> {
        let mut notices = Vec::new();
        let outcome = self.lead(epoch, landing, &mut notices);
        notices.into_iter().for_each(Notifications::send);
        outcome
    }

    fn lead(
        &self,
        epoch: LeaderEpoch,
        landing: Landing,
        notices: &mut Vec<Notifications>,
    ) -> Result<(), LogError> {
        let mut epochs = self.epochs.lock();
        let known = epochs.history.highest();
        if epoch <= known {
            return Err(EpochOver { epoch, newest: known }.into());
        }
        notices.push(self.step_back(known));
        let start = Offset(self.end_offset());
        self.note(EpochChange::Begins(epoch, start), notices)?;
        epochs.history.begin(epoch, start)?;
        notices.push(self.set_role(StreamletRole::Leader(epoch), landing));
        Ok(())
    }

    /// Follows the leader of this epoch: takes no appends, and shows no more than it does now,
    /// until [`Self::set_replicated`]. The epoch is durable when this returns.
    ///
    /// # Errors
    /// A later epoch was seen, or the disk failed.
    pub fn become_copy(self: &Arc<Self>, epoch: LeaderEpoch) -> Result<(), LogError> {
        let mut notices = Vec::new();
        let outcome = self.follow(epoch, &mut notices);
        notices.into_iter().for_each(Notifications::send);
        outcome
    }

    fn follow(&self, epoch: LeaderEpoch, notices: &mut Vec<Notifications>) -> Result<(), LogError> {
        let mut epochs = self.epochs.lock();
        let known = epochs.history.highest();
        if epoch < known || self.role() == StreamletRole::Leader(epoch) {
            return Err(EpochOver { epoch, newest: known }.into());
        }
        notices.push(self.step_back(known));
        if epoch > known {
            self.note(EpochChange::Observed(epoch), notices)?;
            epochs.history.observe(epoch)?;
        }
        notices.push(self.set_role(StreamletRole::Copy(epoch), Landing::Replicated));
        Ok(())
    }

    /// Enough copies have all records below `end`: the high watermark may move up to it, as far as
    /// they have landed here. A leader knows that from its copies, a copy from its leader.
    pub fn set_replicated(&self, end: Offset) {
        let notices = self.offsets().set_replicated(end);
        notices.send();
    }

    /// Takes no more appends of its own: those that are under way have their offsets, and either
    /// keep them or have given them back, when this returns.
    pub(crate) fn step_back(&self, epoch: LeaderEpoch) -> Notifications {
        let notices = match self.role() {
            StreamletRole::Leader(_) => {
                self.set_role(StreamletRole::Copy(epoch), Landing::Replicated)
            }
            StreamletRole::Copy(_) => Notifications::default(),
        };
        let active_groups = self.active_groups.read().clone();
        active_groups.iter().for_each(|active| drop(active.lock()));
        notices
    }

    fn set_role(&self, role: StreamletRole, landing: Landing) -> Notifications {
        let mut offsets = self.offsets();
        self.leads.store(role.leads(), Ordering::SeqCst);
        offsets.set_role(role, landing)
    }

    /// Makes a change of the epochs durable. If that fails, nobody knows what the disk has, and the
    /// streamlet takes nothing until a restart.
    pub(crate) fn note(
        &self,
        change: EpochChange,
        notices: &mut Vec<Notifications>,
    ) -> Result<(), LogError> {
        let record = EpochRecord { stream: self.stream.id, streamlet: self.index, change };
        let noted = self.shared.note_epochs(&[record]);
        if let Err(error) = &noted {
            notices.push(self.mark_failed(&format!("its epoch could not be written: {error}")));
        }
        noted
    }
}

#[cfg(test)]
mod tests;
