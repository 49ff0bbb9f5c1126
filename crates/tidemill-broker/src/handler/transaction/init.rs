//! InitProducerId: a producer id and epoch, for a transactional id or for none.

use crate::{api::Context, transaction::state::ProducerIdentity};
use tidemill_wire::kafka::{
    ErrorCode,
    message::{InitProducerIdRequestData, InitProducerIdResponseData},
};

/// The first version that has `PRODUCER_FENCED`, and the first with `TRANSACTION_ABORTABLE`.
const FENCED_FROM_VERSION: i16 = 4;
const ABORTABLE_FROM_VERSION: i16 = 5;

/// Bytes of a transactional id: the most that every version of the protocol can carry.
const ID_BYTES_MAX: usize = i16::MAX as usize;

/// Answers with a producer.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: InitProducerIdRequestData,
) -> InitProducerIdResponseData {
    let (error, producer) = match producer(context, &request).await {
        Ok(producer) => (ErrorCode::None, producer),
        Err(error) => (error, ProducerIdentity { id: -1, epoch: -1 }),
    };
    InitProducerIdResponseData {
        error_code: error.code(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        ongoing_txn_producer_id: -1,
        ongoing_txn_producer_epoch: -1,
        ..InitProducerIdResponseData::default()
    }
}

async fn producer(
    context: &Context<'_>,
    request: &InitProducerIdRequestData,
) -> Result<ProducerIdentity, ErrorCode> {
    let coordinator = &context.broker.transactions;
    let version = context.version();
    let expected = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => None,
        (id @ 0.., epoch @ 0..) => Some(ProducerIdentity { id, epoch }),
        _ => return Err(ErrorCode::InvalidRequest),
    };
    let Some(id) = &request.transactional_id else {
        // Idempotent alone: an epoch says nothing there, so each gets an id of its own.
        let id = coordinator.ids.take().await.map_err(|error| {
            tracing::warn!(%error, "no producer id can be reserved");
            ErrorCode::CoordinatorNotAvailable
        })?;
        return Ok(ProducerIdentity { id, epoch: 0 });
    };
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(ErrorCode::InvalidRequest);
    }
    if request.keep_prepared_txn {
        // Transactions in two phases (KIP-939).
        return Err(ErrorCode::UnsupportedVersion);
    }
    let timeout_ms = request.transaction_timeout_ms;
    if timeout_ms <= 0 || timeout_ms > coordinator.limits.timeout_ms_max {
        return Err(ErrorCode::InvalidTransactionTimeout);
    }
    let outcome = coordinator.init(context.broker, id.as_str(), expected, timeout_ms).await;
    outcome.map_err(|it| it.code(version >= FENCED_FROM_VERSION, version >= ABORTABLE_FROM_VERSION))
}
