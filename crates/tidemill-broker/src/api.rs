//! Which requests are answered, in which versions, and by whom.

use crate::{
    Broker,
    answer::{Answer, Begun},
    connection::Caller,
    frame::Charge,
    handler::{self, fetch::Fetching},
};
use bytes::Bytes;
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_wire::kafka::{
    ApiKey, ErrorCode, MessageError, Request, RequestHead, known_versions,
    message::{ApiVersion, ApiVersionsResponseData, FinalizedFeatureKey, SupportedFeatureKey},
    text,
};

/// What a handler knows beside its request.
pub(crate) struct Context<'a> {
    pub(crate) broker: &'a Arc<Broker>,
    pub(crate) caller: &'a Caller,
    pub(crate) head: &'a RequestHead,
    /// What the request is charged with.
    charge: &'a Mutex<Charge>,
}

impl Context<'_> {
    pub(crate) fn version(&self) -> i16 {
        self.head.version
    }

    /// From now on the request has no more than so many bytes of memory: what it was read as is
    /// gone. For those that may wait for other clients, so that these need not stand back for it.
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

/// Requests that are answered: key, oldest and newest version.
pub(crate) fn supported() -> impl Iterator<Item = (ApiKey, i16, i16)> {
    SUPPORTED.iter().map(|(key, newest)| {
        let known = known_versions(*key);
        (*key, *known.start(), newest.unwrap_or(*known.end()))
    })
}

/// With the newest version that is answered, if that is not the newest one known.
const SUPPORTED: &[(ApiKey, Option<i16>)] = &[
    (ApiKey::Produce, None),
    (ApiKey::Fetch, None),
    (ApiKey::ListOffsets, Some(9)),
    (ApiKey::Metadata, None),
    (ApiKey::ApiVersions, Some(4)),
    (ApiKey::OffsetCommit, None),
    (ApiKey::OffsetFetch, None),
    (ApiKey::FindCoordinator, None),
    (ApiKey::JoinGroup, None),
    (ApiKey::Heartbeat, None),
    (ApiKey::LeaveGroup, None),
    (ApiKey::SyncGroup, None),
    (ApiKey::DescribeGroups, None),
    (ApiKey::ListGroups, None),
    (ApiKey::DeleteGroups, None),
    (ApiKey::OffsetDelete, None),
    (ApiKey::CreateTopics, None),
    (ApiKey::DeleteTopics, None),
    (ApiKey::DeleteRecords, None),
    (ApiKey::InitProducerId, None),
    (ApiKey::OffsetForLeaderEpoch, None),
    (ApiKey::AddPartitionsToTxn, None),
    (ApiKey::AddOffsetsToTxn, None),
    (ApiKey::EndTxn, None),
    (ApiKey::TxnOffsetCommit, None),
    (ApiKey::DescribeAcls, None),
    (ApiKey::CreateAcls, None),
    (ApiKey::DeleteAcls, None),
    (ApiKey::DescribeConfigs, None),
    (ApiKey::AlterConfigs, None),
    (ApiKey::DescribeLogDirs, None),
    (ApiKey::CreatePartitions, None),
    (ApiKey::ElectLeaders, None),
    (ApiKey::IncrementalAlterConfigs, None),
    (ApiKey::AlterPartitionReassignments, None),
    (ApiKey::ListPartitionReassignments, None),
    (ApiKey::DescribeClientQuotas, None),
    (ApiKey::DescribeCluster, None),
    (ApiKey::DescribeProducers, None),
    (ApiKey::DescribeTransactions, None),
    (ApiKey::ListTransactions, None),
    (ApiKey::ConsumerGroupHeartbeat, None),
    (ApiKey::ListConfigResources, None),
    (ApiKey::DescribeTopicPartitions, None),
];

/// Whether requests of this kind change nothing, but for topics that Metadata makes: to answer one
/// again does no harm.
pub(crate) fn only_looks(key: i16) -> bool {
    const LOOK: [ApiKey; 21] = [
        ApiKey::ListOffsets,
        ApiKey::Metadata,
        ApiKey::OffsetFetch,
        ApiKey::FindCoordinator,
        ApiKey::DescribeGroups,
        ApiKey::ListGroups,
        ApiKey::OffsetForLeaderEpoch,
        ApiKey::DescribeAcls,
        ApiKey::CreateAcls,
        ApiKey::DeleteAcls,
        ApiKey::DescribeConfigs,
        ApiKey::DescribeLogDirs,
        ApiKey::ElectLeaders,
        ApiKey::AlterPartitionReassignments,
        ApiKey::ListPartitionReassignments,
        ApiKey::DescribeClientQuotas,
        ApiKey::DescribeProducers,
        ApiKey::DescribeTransactions,
        ApiKey::ListTransactions,
        ApiKey::ListConfigResources,
        ApiKey::DescribeTopicPartitions,
    ];
    LOOK.iter().any(|it| *it as i16 == key)
}

/// Why a request has no answer: what is said of it in the log.
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
    fetching: &mut Fetching,
    head: &RequestHead,
    charge: &Mutex<Charge>,
    body: Bytes,
) -> Result<Begun, Unanswered> {
    let context = Context { broker, caller, head, charge };
    let context = &context;
    let Some((key, from, to)) = supported().find(|(key, ..)| *key as i16 == head.key) else {
        return Err(Unanswered::Request);
    };
    if !(from..=to).contains(&head.version) {
        return unsupported(head, from, to);
    }
    match key {
        ApiKey::Produce => Ok(handler::produce::begin(context, body).await?),
        ApiKey::Fetch => Ok(handler::fetch::begin(context, fetching, body).await?),
        ApiKey::ListOffsets => plain(context, body, handler::list_offsets::answer).await,
        ApiKey::Metadata => plain(context, body, handler::metadata::answer).await,
        ApiKey::OffsetCommit => plain(context, body, handler::offsets::commit).await,
        ApiKey::OffsetFetch => plain(context, body, handler::offsets::fetch).await,
        ApiKey::OffsetDelete => plain(context, body, handler::offsets::delete).await,
        ApiKey::FindCoordinator => plain(context, body, handler::group::find).await,
        ApiKey::JoinGroup => plain(context, body, handler::group::join).await,
        ApiKey::SyncGroup => plain(context, body, handler::group::sync).await,
        ApiKey::Heartbeat => plain(context, body, handler::group::heartbeat).await,
        ApiKey::LeaveGroup => plain(context, body, handler::group::leave).await,
        ApiKey::DescribeGroups => plain(context, body, handler::group::describe).await,
        ApiKey::ListGroups => plain(context, body, handler::group::list).await,
        ApiKey::DeleteGroups => plain(context, body, handler::group::delete).await,
        ApiKey::ConsumerGroupHeartbeat => plain(context, body, handler::group::beat_anew).await,
        ApiKey::CreateTopics => plain(context, body, handler::topics::create).await,
        ApiKey::DeleteTopics => plain(context, body, handler::topics::delete).await,
        ApiKey::DeleteRecords => plain(context, body, handler::records::delete).await,
        ApiKey::OffsetForLeaderEpoch => plain(context, body, handler::records::epoch_ends).await,
        ApiKey::DescribeAcls => plain(context, body, handler::acls::describe).await,
        ApiKey::CreateAcls => plain(context, body, handler::acls::create).await,
        ApiKey::DeleteAcls => plain(context, body, handler::acls::delete).await,
        ApiKey::DescribeConfigs => plain(context, body, handler::configs::describe).await,
        ApiKey::AlterConfigs => plain(context, body, handler::configs::alter).await,
        ApiKey::DescribeLogDirs => plain(context, body, handler::log_dirs::describe).await,
        ApiKey::CreatePartitions => plain(context, body, handler::partitions::create).await,
        ApiKey::ElectLeaders => plain(context, body, handler::replicas::elect).await,
        ApiKey::IncrementalAlterConfigs => {
            plain(context, body, handler::configs::alter_incrementally).await
        }
        ApiKey::AlterPartitionReassignments => {
            plain(context, body, handler::replicas::reassign).await
        }
        ApiKey::ListPartitionReassignments => {
            plain(context, body, handler::replicas::list_reassignments).await
        }
        ApiKey::DescribeClientQuotas => plain(context, body, handler::quotas::describe).await,
        ApiKey::DescribeCluster => plain(context, body, handler::cluster::describe).await,
        ApiKey::InitProducerId => plain(context, body, handler::transaction::init::answer).await,
        ApiKey::AddPartitionsToTxn => {
            plain(context, body, handler::transaction::add::partitions).await
        }
        ApiKey::AddOffsetsToTxn => plain(context, body, handler::transaction::add::offsets).await,
        ApiKey::EndTxn => plain(context, body, handler::transaction::end::answer).await,
        ApiKey::TxnOffsetCommit => {
            plain(context, body, handler::transaction::offsets::commit).await
        }
        ApiKey::DescribeProducers => {
            plain(context, body, handler::transaction::describe::producers).await
        }
        ApiKey::DescribeTransactions => {
            plain(context, body, handler::transaction::describe::transactions).await
        }
        ApiKey::ListTransactions => {
            plain(context, body, handler::transaction::describe::list).await
        }
        ApiKey::ListConfigResources => plain(context, body, handler::configs::list).await,
        ApiKey::DescribeTopicPartitions => {
            plain(context, body, handler::partitions::describe).await
        }
        ApiKey::ApiVersions => {
            let answer = versions(head.version, ErrorCode::None);
            Ok(Begun::Now(Answer::of(head, &answer)?))
        }
        _ => Err(Unanswered::Request),
    }
}

/// A request that one function answers.
async fn plain<'a, R, F>(
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
    Ok(Begun::Now(Answer::of(context.head, &response)?))
}

/// What is answered, in the words of this version of the question.
fn versions(asked: i16, error: ErrorCode) -> ApiVersionsResponseData {
    let version = |(key, from, to): (ApiKey, i16, i16)| ApiVersion {
        api_key: key as i16,
        min_version: if key == ApiKey::Produce { PRODUCE_LISTED_FROM } else { from },
        max_version: to,
        ..ApiVersion::default()
    };
    let supported_features = vec![SupportedFeatureKey {
        name: text(TRANSACTION_FEATURE),
        min_version: 0,
        max_version: TRANSACTION_LEVEL,
        ..SupportedFeatureKey::default()
    }];
    ApiVersionsResponseData {
        error_code: error.code(),
        api_keys: supported().map(version).collect(),
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
        return Ok(Begun::Now(Answer::of(&oldest, &answer)?));
    }
    Err(Unanswered::Version(from, to))
}
