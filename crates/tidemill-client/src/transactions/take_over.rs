//! Taking an id over, and what is held since.
//!
//! ```text
//! how was the last one decided? ─▶ InitProducerId ─▶ nothing open in streamlets,
//!             │                                      the group's offsets stable ─▶ ready
//!             │                                              │ something stays undecided
//!             └──▶ all streamlets and the group, ended alike ◀┘
//! ```
//!
//! A coordinator answers `InitProducerId` when it takes every earlier transaction of the id for
//! ended, so rows and offsets that are undecided after that have lost their end. Kafka 4.3 loses it: a
//! coordinator takes a partition that has no leader for deleted, as when its broker was killed, and
//! does not write to it how a transaction ended. Then neither the rows nor the offset there count, and
//! readers of the partition wait, until the next transaction ends: they share its fate. What the
//! coordinator had decided it says itself, until the id is taken over; so it is asked before, and
//! a transaction that touches everything is ended in the same way. One that was not decided yet is
//! aborted by the take-over. For the same reason an id is taken over anew when the connection to its
//! coordinator was lost, or a streamlet is led anew, even if no transaction was open.
//!
//! Not made up for: a node that is killed while this transaction is being ended, or this process. It
//! is aborted then, and partitions that had the end of the first keep that. If this process is killed
//! before it begins, how the first was decided is forgotten, and nothing is written before somebody
//! else has ended what is open.

use super::{Transactions, call, open::Epochs};
use crate::{
    AdminError, Refusal,
    admin::{GroupOffset, about},
};
use std::{collections::BTreeMap, time::Duration};
use tidemill_wire::kafka::{
    ApiKey, ErrorCode,
    message::{DescribeTransactionsRequestData, InitProducerIdRequestData},
    text,
};

/// The offsets of a group, by stream and streamlet.
type Offsets = BTreeMap<String, BTreeMap<i32, GroupOffset>>;

/// Whether somebody says that a transaction is open.
fn is_undecided(error: &AdminError) -> bool {
    let codes = [ErrorCode::UnstableOffsetCommit, ErrorCode::ConcurrentTransactions];
    error.code().is_some_and(|it| codes.contains(&it))
}

impl Transactions {
    /// Makes the id this one's: whoever had it before can do nothing under it any more, and what was
    /// open has ended, one way or the other, when this returns. Gives back the offsets that `group`
    /// holds since, by stream and streamlet. `stream` is the one that is written to.
    ///
    /// # Errors
    /// No node answers, or a coordinator refuses: then nothing can be committed.
    pub fn take_over(&mut self, stream: &str, group: &str) -> Result<Offsets, AdminError> {
        self.identity = None;
        self.sequences.clear();
        // What is ended now comes to all of them, and each time that this is tried takes an epoch.
        self.leaders(stream)?;
        if let Some(committed) = self.decided()? {
            self.last_committed = Some(committed);
        }
        let request = InitProducerIdRequestData::default()
            .with_transactional_id(Some(text(&self.id)))
            .with_transaction_timeout_ms(i32::try_from(self.timeout.as_millis()).unwrap_or(60_000))
            .with_producer_id(-1)
            .with_producer_epoch(-1);
        let (identity, coordinator) = self.again(|| {
            let connection = self.admin.transaction_coordinator(&self.id)?;
            let answer = call(&connection, &request)?;
            Refusal::check(answer.error_code, None).map_err(about(self.what()))?;
            Ok(((answer.producer_id, answer.producer_epoch), connection))
        })?;
        let settled = |it: &Self| it.settled((stream, group), identity.0);
        let (epochs, offsets) = match (settled(self), self.last_committed) {
            (Err(error), Some(committed)) if is_undecided(&error) => {
                tracing::warn!(
                    transactional_id = %self.id, committed,
                    "the cluster has lost how a transaction ended; it is ended again"
                );
                self.end_again(identity, (stream, group), committed)?;
                self.again(|| settled(self))?
            }
            (found, _) => found?,
        };
        (self.last_committed, self.epochs) = (None, epochs);
        (self.identity, self.coordinator) = (Some(identity), Some(coordinator));
        Ok(offsets)
    }

    /// By whom the stream is led, and the group's offsets, if nothing of either is undecided.
    fn settled(
        &self,
        (stream, group): (&str, &str),
        producer_id: i64,
    ) -> Result<(Epochs, Offsets), AdminError> {
        let epochs = self.nothing_is_open(stream, producer_id)?;
        Ok((epochs, self.admin.group_offsets(group)?))
    }

    /// Whether the last transaction was committed, as the coordinator has decided it, or will when
    /// the id is taken over; none if there was none, or if it cannot say.
    fn decided(&self) -> Result<Option<bool>, AdminError> {
        let request =
            DescribeTransactionsRequestData::default().with_transactional_ids(vec![text(&self.id)]);
        self.again(|| {
            let connection = self.admin.transaction_coordinator(&self.id)?;
            if connection.version(ApiKey::DescribeTransactions).is_err() {
                return Ok(None);
            }
            let answer = connection.call(&request, Duration::ZERO)?;
            let Some(row) = answer.transaction_states.first() else { return Ok(None) };
            match ErrorCode::from(row.error_code) {
                // It may not ask, or nothing was begun yet.
                ErrorCode::TransactionalIdNotFound
                | ErrorCode::TransactionalIdAuthorizationFailed => return Ok(None),
                _ => Refusal::check(row.error_code, None).map_err(about(self.what()))?,
            }
            Ok(match row.transaction_state.as_str() {
                "PrepareCommit" | "CompleteCommit" => Some(true),
                "Ongoing" | "PrepareAbort" | "CompleteAbort" | "PrepareEpochFence" => Some(false),
                _ => None,
            })
        })
    }

    /// Ends a transaction that touches all streamlets and the group.
    fn end_again(
        &self,
        identity: (i64, i16),
        (stream, group): (&str, &str),
        committed: bool,
    ) -> Result<(), AdminError> {
        let metadata = self.admin.metadata(Some(&[stream]))?;
        let streamlets = metadata.streams.get(stream).map(|it| it.streamlets.keys().copied());
        let indexes: Vec<i32> = streamlets.into_iter().flatten().collect();
        self.add_streamlets(identity, stream, &indexes)?;
        self.add_group(identity, group)?;
        self.end(identity, committed)
    }
}
