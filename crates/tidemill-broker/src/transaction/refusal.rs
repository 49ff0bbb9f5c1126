//! Error codes of the coordinator's refusals, by the version of the request.

use super::{coordinator::Failure, state::TransactionError};
use crate::{partition::ADDS_FROM_VERSION, refusal::RequestRefusal, store::StoreError};
use tidemill_wire::kafka::ErrorCode;

/// The first version of produce requests whose clients can give up a transaction and go on.
const ABORTABLE_FROM_VERSION: i16 = 11;

impl TransactionError {
    /// As the coordinator's requests say it. `fenced` and `abortable` tell whether the request's
    /// version has `PRODUCER_FENCED` and `TRANSACTION_ABORTABLE`.
    pub(crate) fn code(&self, fenced: bool, abortable: bool) -> ErrorCode {
        match self {
            Self::UnknownProducer => ErrorCode::InvalidProducerIdMapping,
            Self::Fenced if fenced => ErrorCode::ProducerFenced,
            Self::Fenced => ErrorCode::InvalidProducerEpoch,
            Self::Busy => ErrorCode::ConcurrentTransactions,
            Self::NotAdded | Self::Aborted if abortable => ErrorCode::TransactionAbortable,
            Self::Phase(_) | Self::NotAdded | Self::Aborted => ErrorCode::InvalidTxnState,
        }
    }

    /// As a produce request of this version is told.
    pub(crate) fn of_produce(self, version: i16) -> RequestRefusal {
        let code = match self {
            // Older clients do not know what to make of it; this they try again.
            Self::Busy if version < ADDS_FROM_VERSION => ErrorCode::NotEnoughReplicas,
            other => other.code(false, version >= ABORTABLE_FROM_VERSION),
        };
        RequestRefusal::with(code, &self)
    }
}

impl Failure {
    /// See [`TransactionError::code`].
    pub(crate) fn code(&self, fenced: bool, abortable: bool) -> ErrorCode {
        match self {
            Self::Refused(error) => error.code(fenced, abortable),
            Self::Store(error) => {
                said(error);
                ErrorCode::CoordinatorNotAvailable
            }
            Self::TooMany(what) => {
                tracing::warn!(what, "a bound of transactions is reached");
                ErrorCode::CoordinatorNotAvailable
            }
        }
    }

    /// As a request to commit offsets is told. `abortable` and `busy` tell whether its version has
    /// `TRANSACTION_ABORTABLE` and `CONCURRENT_TRANSACTIONS`.
    pub(crate) fn of_offsets(&self, abortable: bool, busy: bool) -> ErrorCode {
        match self {
            // Older clients do not know what to make of it; this they try again.
            Self::Refused(TransactionError::Busy) if !busy => ErrorCode::CoordinatorLoadInProgress,
            other => other.code(false, abortable),
        }
    }

    /// As a produce request of this version is told.
    pub(crate) fn of_produce(&self, version: i16) -> RequestRefusal {
        match self {
            Self::Refused(error) => error.of_produce(version),
            other => {
                let _said = other.code(false, true);
                RequestRefusal::with(ErrorCode::NotEnoughReplicas, other)
            }
        }
    }
}

fn said(error: &StoreError) {
    if *error != StoreError::Closed {
        tracing::warn!(%error, "the coordinator cannot store a decision");
    }
}
