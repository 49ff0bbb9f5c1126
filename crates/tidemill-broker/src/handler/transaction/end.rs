//! EndTxn: a transaction is committed or aborted.

use crate::{
    api::Context,
    transaction::{
        coordinator::TransactionSender,
        state::{ProducerIdentity, Protocol},
    },
};
use tidemill_wire::kafka::{
    ErrorCode,
    message::{EndTxnRequestData, EndTxnResponseData},
};

/// The first version that has `PRODUCER_FENCED`, the first with `TRANSACTION_ABORTABLE`, and the
/// first of protocol 2.
const FENCED_FROM_VERSION: i16 = 2;
const ABORTABLE_FROM_VERSION: i16 = 4;
const TWO_FROM_VERSION: i16 = 5;

/// Answers when it is decided and, in most cases, visible.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: EndTxnRequestData,
) -> EndTxnResponseData {
    let version = context.version();
    let two = version >= TWO_FROM_VERSION;
    let asker = TransactionSender {
        producer: ProducerIdentity { id: request.producer_id, epoch: request.producer_epoch },
        protocol: if two { Protocol::Two } else { Protocol::One },
        connection: context.caller.id,
    };
    let id = request.transactional_id.as_str();
    let outcome = if id.is_empty() {
        Err(ErrorCode::InvalidRequest)
    } else {
        let coordinator = &context.broker.transactions;
        let ended = coordinator.end(context.broker, id, asker, request.committed).await;
        ended.map_err(|it| {
            it.code(version >= FENCED_FROM_VERSION, version >= ABORTABLE_FROM_VERSION)
        })
    };
    let successor = outcome.ok().filter(|_| two);
    EndTxnResponseData {
        error_code: outcome.err().unwrap_or(ErrorCode::None).code(),
        producer_id: successor.map_or(-1, |it| it.id),
        producer_epoch: successor.map_or(-1, |it| it.epoch),
        ..EndTxnResponseData::default()
    }
}
