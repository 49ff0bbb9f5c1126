//! The way of one request: its version is checked, its handler called, its answer written.

use crate::{
    Broker,
    answer::{Begun, ResponseFrame},
    connection::Caller,
    frame::MemoryCharge,
    handler::{self, fetch::ConnectionFetches},
    requests::{REQUESTS, RequestKind, dispatch},
};
use bytes::Bytes;
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_wire::kafka::{
    ApiKey, ErrorCode, MessageError, Request, RequestHead,
    message::{ApiVersion, ApiVersionsResponseData, FinalizedFeatureKey, SupportedFeatureKey},
    text,
};

/// The surroundings of a request, for its handler.
pub(crate) struct Context<'a> {
    pub(crate) broker: &'a Arc<Broker>,
    pub(crate) caller: &'a Caller,
    pub(crate) head: &'a RequestHead,
    /// The charge for the request's memory.
    charge: &'a Mutex<MemoryCharge>,
}

impl Context<'_> {
    pub(crate) fn version(&self) -> i16 {
        self.head.version
    }

    /// Lowers the request's charge to this many bytes: the memory it was read into is free again. A
    /// handler that waits for other clients calls this, so that their requests find room.
    pub(crate) fn holds(&self, bytes: usize) {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner).shrink(bytes);
    }
}

/// The feature by which clients know that each transaction's end makes a new epoch (KIP-890).
const TRANSACTION_FEATURE: &str = "transaction.version";
const TRANSACTION_LEVEL: i16 = 2;
/// The version of ApiVersions from which on a feature may be known from level 0: Java clients that
/// ask in an older one read no answer in which one is (KAFKA-17011).
const ZERO_FROM_VERSION: i16 = 4;
/// Produce is listed from here on, and its oldest versions are refused all the same, as Kafka does it
/// (KAFKA-18659): librdkafka before 2.11.0 compresses nothing where version 0 is not listed.
const PRODUCE_LISTED_FROM: i16 = 0;

/// The reason for closing a connection without an answer, as the node's log gives it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] MessageError),
    #[error("is not answered: versions {0} to {1} of it are")]
    Version(i16, i16),
    #[error("is not answered, in no version")]
    Request,
}

/// Begins a request that is charged with this.
///
/// # Errors
/// It has no answer: the connection is closed.
pub(crate) async fn begin(
    broker: &Arc<Broker>,
    caller: &Caller,
    fetching: &mut ConnectionFetches,
    head: &RequestHead,
    charge: &Mutex<MemoryCharge>,
    body: Bytes,
) -> Result<Begun, Unanswered> {
    let context = Context { broker, caller, head, charge };
    let context = &context;
    let kind = RequestKind::of(head.key).ok_or(Unanswered::Request)?;
    let (from, to) = kind.versions();
    if !(from..=to).contains(&head.version) {
        return unsupported(head, from, to);
    }
    match kind.key {
        ApiKey::Produce => Ok(handler::produce::begin(context, body).await?),
        ApiKey::Fetch => Ok(handler::fetch::begin(context, fetching, body).await?),
        ApiKey::ApiVersions => {
            let answer = versions(head.version, ErrorCode::None);
            Ok(Begun::Now(ResponseFrame::of(head, &answer)?))
        }
        key => dispatch(key, context, body).await,
    }
}

/// A request that one function answers.
pub(crate) async fn plain<'a, R, F>(
    context: &'a Context<'a>,
    mut body: Bytes,
    answer: impl FnOnce(&'a Context<'a>, R) -> F,
) -> Result<Begun, Unanswered>
where
    R: Request,
    F: Future<Output = R::Response>,
{
    let request = R::read(&mut body, context.version())?;
    let response = answer(context, request).await;
    Ok(Begun::Now(ResponseFrame::of(context.head, &response)?))
}

/// The answer to ApiVersions in the given version of the request.
fn versions(asked: i16, error: ErrorCode) -> ApiVersionsResponseData {
    let version = |kind: &RequestKind| {
        let (from, to) = kind.versions();
        ApiVersion {
            api_key: kind.key as i16,
            min_version: if kind.key == ApiKey::Produce { PRODUCE_LISTED_FROM } else { from },
            max_version: to,
            ..ApiVersion::default()
        }
    };
    let supported_features = vec![SupportedFeatureKey {
        name: text(TRANSACTION_FEATURE),
        min_version: 0,
        max_version: TRANSACTION_LEVEL,
        ..SupportedFeatureKey::default()
    }];
    ApiVersionsResponseData {
        error_code: error.code(),
        api_keys: REQUESTS.iter().map(version).collect(),
        supported_features: if asked < ZERO_FROM_VERSION { Vec::new() } else { supported_features },
        finalized_features_epoch: 0,
        finalized_features: vec![FinalizedFeatureKey {
            name: text(TRANSACTION_FEATURE),
            max_version_level: TRANSACTION_LEVEL,
            min_version_level: TRANSACTION_LEVEL,
            ..FinalizedFeatureKey::default()
        }],
        ..ApiVersionsResponseData::default()
    }
}

/// A question for versions in a version that is not known is answered in the oldest one (KIP-511);
/// any other request that is not supported has no answer that its client could read, so its
/// connection is closed, as Kafka does it.
fn unsupported(head: &RequestHead, from: i16, to: i16) -> Result<Begun, Unanswered> {
    if head.key == ApiKey::ApiVersions as i16 {
        let oldest = RequestHead { version: 0, ..head.clone() };
        let answer = versions(oldest.version, ErrorCode::UnsupportedVersion);
        return Ok(Begun::Now(ResponseFrame::of(&oldest, &answer)?));
    }
    Err(Unanswered::Version(from, to))
}
