//! The takeover of a transactional id.
//!
//! ```text
//! how has the last one ended? ─▶ nothing open in streamlets, ─▶ InitProducerId ─▶ the same again ─▶ ready
//!     ▲                          the group's offsets stable
//!     │                                  │ something is undecided
//!     └── all streamlets and the group, ─┘
//!         ended as the last one was
//! ```
//!
//! A coordinator answers `InitProducerId` when it takes every earlier transaction of the id for
//! ended, so rows and offsets that are undecided after that have lost their end. Kafka 4.3 loses
//! it: a coordinator takes a partition that has no leader for deleted, as when its broker was
//! killed, and does not write the end of a transaction to it. Then neither the rows nor the offset
//! there count, and readers of the partition wait, until the next transaction ends, and get that
//! end. The coordinator returns its decision until the id is taken over; so it is asked before, and
//! a transaction that touches everything is ended in the same way. One that was not decided yet is
//! aborted by the take-over. For the same reason an id is taken over anew when the connection to
//! its coordinator was lost, or a streamlet is led anew, even if no transaction was open.
//!
//! # Kills and lost requests
//!
//! *T* is a committed transaction whose end did not come through everywhere, *R* the one that
//! repeats the end. Only the coordinator has a memory (`transactions/decision.rs`).
//!
//! | the process is killed, or a request lost | the coordinator says | the next one |
//! | --- | --- | --- |
//! | before the end of *T* has come | ongoing | takes over: *T* is aborted, and its late requests have an old epoch |
//! | after it has come, its answer lost | prepared, then complete: committed | waits for it, and looks for streamlets without the end |
//! | before the id is taken over for *R* | complete: committed | looks again |
//! | after that | empty, for a commit | looks, and begins *R* under this epoch: a late request of the first *R* does no harm to it |
//! | in *R* | ongoing, for a commit | commits *R*: to take over would abort it, and with it the undecided rows of *T* |
//! | after the end of *R* has come | prepared, then complete: committed, for a commit | waits, and looks again: *R* may lose its end, too |
//! | before the id is taken over to write | the same | takes over |
//!
//! With *T* aborted it is the same, with an abort. A transaction that is taken over is aborted by
//! the take-over and never by an end under its own epoch: that would leave the epoch open to a
//! chunk that is late, and the next transaction would end it, too.
//!
//! Not repaired: an *R* that stays without its end for as long as a transaction may be open, as
//! this process was killed between two requests and has not come back. The cluster aborts it then.
//! The rows that had the end of *T* count, others do not; the next owner gets an error that says so
//! and writes nothing. With the last epoch of a producer id *R* cannot be told from others, and the
//! next owner aborts it. A broker before Kafka 3.0 does not return the decision: nothing is written
//! while a transaction is open.

use super::{
    Transactions, call,
    decision::{self, LastTransaction, NextStep, TakeoverPurpose},
    open_transactions::Epochs,
};
use crate::{
    AdminError, CallError, Refusal,
    admin::{GroupOffset, about},
    connection::Connection,
    producer::ProducerIdentity,
};
use std::{collections::BTreeMap, time::Duration};
use tidemill_types::ProducerId;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode,
    message::{DescribeTransactionsRequestData, InitProducerIdRequestData},
    text,
};

/// The offsets of a group, by stream and streamlet.
type OffsetsByStream = BTreeMap<String, BTreeMap<i32, GroupOffset>>;

/// True if a node reports an open transaction.
fn is_undecided(error: &AdminError) -> bool {
    let codes = [ErrorCode::UnstableOffsetCommit, ErrorCode::ConcurrentTransactions];
    error.code().is_some_and(|it| codes.contains(&it))
}

impl Transactions {
    /// Takes the id over: earlier owners are fenced, and their open transactions have ended,
    /// committed or aborted, when this returns. Returns the offsets of `group`, by stream and
    /// streamlet. `stream` is the one that is written to.
    ///
    /// # Errors
    /// No node answers, or a coordinator refuses: then nothing can be committed.
    pub fn take_over(&mut self, stream: &str, group: &str) -> Result<OffsetsByStream, AdminError> {
        self.identity = None;
        self.sequences.clear();
        // What is ended now comes to all of them, and each time that this is tried takes an epoch.
        self.leaders(stream)?;
        let mut committed = self.last_committed;
        let taken = self.again(|| {
            self.end_what_is_left((stream, group), &mut committed)?;
            self.init(TakeoverPurpose::Write)
        });
        self.last_committed = committed;
        let (identity, coordinator) = taken?;
        let (epochs, offsets) = self.settled((stream, group), identity.id)?;
        (self.last_committed, self.epochs) = (None, epochs);
        (self.identity, self.coordinator) = (Some(identity), Some(coordinator));
        Ok(offsets)
    }

    /// Requests the id once. Its open transaction is aborted; other calls wait for that.
    fn init(&self, purpose: TakeoverPurpose) -> Result<(ProducerIdentity, Connection), AdminError> {
        let request = InitProducerIdRequestData::default()
            .with_transactional_id(Some(text(&self.id)))
            .with_transaction_timeout_ms(purpose.timeout_ms(self.timeout))
            .with_producer_id(-1)
            .with_producer_epoch(-1);
        let connection = self.admin.transaction_coordinator(&self.id)?;
        let answer = call(&connection, &request)?;
        Refusal::check(answer.error_code, None).map_err(about(self.subject()))?;
        Ok((ProducerIdentity::of(answer.producer_id, answer.producer_epoch), connection))
    }

    /// Sees to it that the last transaction has its end everywhere. `committed` is how it was
    /// decided, as it was learnt before.
    fn end_what_is_left(
        &self,
        (stream, group): (&str, &str),
        committed: &mut Option<bool>,
    ) -> Result<(), AdminError> {
        let busy = || {
            let code = ErrorCode::ConcurrentTransactions;
            Err(about(self.subject())(Refusal { code, message: None }))
        };
        let Some(last) = self.last()? else { return Ok(()) };
        match decision::decide(&last) {
            NextStep::Wait => busy(),
            NextStep::End(committed) => {
                self.end(last.identity, committed)?;
                busy()
            }
            NextStep::TakeOver => {
                *committed = None;
                Ok(())
            }
            NextStep::Look(found) => {
                *committed = found.or(*committed);
                match (self.settled((stream, group), last.identity.id), *committed) {
                    (Err(error), Some(committed)) if is_undecided(&error) => {
                        tracing::warn!(
                            transactional_id = %self.id, committed,
                            "the cluster has lost how a transaction ended; it is ended again"
                        );
                        let identity = match last.may_end_again(committed) {
                            true => last.identity,
                            false => self.init(TakeoverPurpose::EndAgain(committed))?.0,
                        };
                        self.end_again(identity, (stream, group), committed)?;
                        // That may have lost its end, too.
                        self.again(|| match self.last()?.as_ref().map(decision::decide) {
                            Some(NextStep::Wait) => busy(),
                            _ => self.settled((stream, group), identity.id).map(drop),
                        })
                    }
                    (found, _) => found.map(drop),
                }
            }
            NextStep::Refuse => {
                let why = "the cluster has lost the end of a transaction in some partitions, and \
                           has aborted what was to commit it there: the others have their rows, \
                           these have not; start the job anew";
                Err(CallError::BadRequest(why.to_owned()).into())
            }
        }
    }

    /// By whom the stream is led, and the group's offsets, if nothing of either is undecided.
    fn settled(
        &self,
        (stream, group): (&str, &str),
        producer_id: ProducerId,
    ) -> Result<(Epochs, OffsetsByStream), AdminError> {
        let epochs = self.nothing_is_open(stream, producer_id)?;
        Ok((epochs, self.admin.group_offsets(group)?))
    }

    /// The last transaction, as the coordinator knows it; none if there was none, or if it cannot
    /// say.
    fn last(&self) -> Result<Option<LastTransaction>, AdminError> {
        let request =
            DescribeTransactionsRequestData::default().with_transactional_ids(vec![text(&self.id)]);
        let connection = self.admin.transaction_coordinator(&self.id)?;
        if connection.version(ApiKey::DescribeTransactions).is_err() {
            return Ok(None);
        }
        let answer = connection.call(&request, Duration::ZERO)?;
        let Some(row) = answer.transaction_states.first() else { return Ok(None) };
        match ErrorCode::from(row.error_code) {
            // It may not ask, or nothing was begun yet.
            ErrorCode::TransactionalIdNotFound | ErrorCode::TransactionalIdAuthorizationFailed => {
                return Ok(None);
            }
            _ => Refusal::check(row.error_code, None).map_err(about(self.subject()))?,
        }
        Ok(Some(LastTransaction {
            identity: ProducerIdentity::of(row.producer_id, row.producer_epoch),
            state: row.transaction_state.to_string(),
            timeout_ms: row.transaction_timeout_ms,
        }))
    }

    /// Ends a transaction that touches all streamlets and the group.
    fn end_again(
        &self,
        identity: ProducerIdentity,
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
