//! What small things become, from the sizes of their types.

use super::*;
use std::mem::size_of;
use tidemill_wire::kafka::{
    ApiKey, FRAME_HEAD_BYTES, KafkaString, RawTaggedField,
    message::{
        AclCreation, AclCreationResult, Coordinator, DeletableGroupResult, DeleteAclsFilter,
        DeleteAclsFilterResult, OffsetCommitRequestTopic, PartitionProduceData,
        PartitionProduceResponse, ProduceRequestData, ReassignableTopic, ReassignableTopicResponse,
        ReplicaElectionResult, TopicProduceData, TopicProduceResponse,
        describe_groups_response::DescribedGroup, describe_transactions_response::TransactionState,
        elect_leaders_request::TopicPartitions, fetch_request::FetchTopic,
    },
    request_frame, text,
};

/// A list that grows by one is there twice as long, and once as it was.
const GROWING: usize = 3;

#[test]
fn what_a_byte_becomes_is_charged() {
    // An empty name is a byte of a request; what is asked for is gone once the answer is made, but
    // for the list that it stood in.
    let name = size_of::<KafkaString>();
    let answers = [
        (ApiKey::FindCoordinator, size_of::<Coordinator>(), 23),
        (ApiKey::DescribeGroups, size_of::<DescribedGroup>(), 34),
        (ApiKey::DescribeTransactions, size_of::<TransactionState>(), 28),
        (ApiKey::DeleteGroups, size_of::<DeletableGroupResult>(), 4),
    ];
    for (key, answer, written) in answers {
        let kind = FrameKind(key as i16);
        let most = (GROWING * name).max((GROWING - 1) * name + answer + written);
        let charged = kind.reading_bytes(&[0; CHEAP_BYTES + 1], usize::MAX).unwrap();
        let charged = charged / (CHEAP_BYTES + 1);
        assert!(most <= charged, "{key:?}: {most} bytes for each, and {charged} are charged");
    }
    // Three bytes: no name, no partitions, no tags.
    let fetched = GROWING * size_of::<FetchTopic>() / 3;
    let committed = GROWING * size_of::<OffsetCommitRequestTopic>() / 3;
    assert!(fetched.max(committed) <= PLAIN_FACTOR, "{fetched} and {committed}");
    // The same, with an answer of its own.
    let topic = size_of::<ReassignableTopic>().max(size_of::<TopicPartitions>());
    let answer = size_of::<ReassignableTopicResponse>().max(size_of::<ReplicaElectionResult>());
    let moved = ((GROWING - 1) * topic + answer) / 3 + GROWING;
    assert!(moved <= PLAIN_FACTOR, "{moved}");
    // Eight bytes: five numbers, three names; each is refused with a reason.
    let reason = 64;
    let (create, delete) = (size_of::<AclCreation>(), size_of::<DeleteAclsFilter>());
    let refused = size_of::<AclCreationResult>().max(size_of::<DeleteAclsFilterResult>());
    let rules = (2 * create.max(delete) + refused + GROWING * reason) / 8;
    assert!(rules <= PLAIN_FACTOR, "{rules}");
}

#[test]
fn lists_of_names_have_a_bound_of_their_own() {
    let max = |key: ApiKey| FrameKind(key as i16).bytes_max(256 << 20);
    assert_eq!(max(ApiKey::Produce), None);
    assert_eq!(max(ApiKey::Fetch), Some(PLAIN_BYTES_MAX));
    for key in [ApiKey::FindCoordinator, ApiKey::DescribeGroups, ApiKey::DescribeTransactions] {
        assert_eq!(max(key), Some(NAMES_BYTES_MAX), "{key:?}");
    }
    assert_eq!(FrameKind(i16::MAX).bytes_max(256 << 20), Some(PLAIN_BYTES_MAX), "whatever it is");
}

#[test]
fn no_request_becomes_more_than_eight_budgets() {
    for key in [ApiKey::Fetch, ApiKey::OffsetCommit, ApiKey::DescribeGroups] {
        let kind = FrameKind(key as i16);
        for budget in [4 << 20, 64 << 20, 256 << 20] {
            let max = kind.bytes_max(budget).unwrap();
            assert!(max * kind.factor() <= (8 * budget).max(CHEAP_BYTES * kind.factor()));
        }
        assert_eq!(kind.bytes_max(1), Some(CHEAP_BYTES), "short ones are always taken");
    }
}

#[test]
fn what_things_of_a_produce_request_become_is_charged() {
    let written = |bytes: usize| GROWING * bytes;
    // An empty name, no partitions, no tags, and where a copy of the name is.
    let topic = GROWING * size_of::<TopicProduceData>()
        + size_of::<TopicProduceResponse>()
        + written(16 + 2)
        + 16;
    assert!(topic <= TOPIC_BYTES, "{topic}");
    // With a reason why it is refused; what it was appended as is less than what it was asked as.
    let reason = 60;
    let partition = GROWING * size_of::<PartitionProduceData>()
        + size_of::<PartitionProduceResponse>()
        + reason
        + written(36 + reason);
    assert!(partition <= PARTITION_BYTES, "{partition}");
    // A list begins with room for four.
    let tag = 5 * size_of::<RawTaggedField>();
    assert!(tag <= TAG_BYTES, "{tag}");
}

#[test]
fn a_produce_request_of_much_that_is_small_is_not_read() {
    let kind = FrameKind(ApiKey::Produce as i16);
    let frame = |topics: usize, partitions: usize| {
        let topic = TopicProduceData::default()
            .with_partition_data(vec![PartitionProduceData::default(); partitions]);
        let request = ProduceRequestData::default().with_topic_data(vec![topic; topics]);
        request_frame(&request, 9, 1, &text("test")).unwrap().split_off(FRAME_HEAD_BYTES)
    };
    let budget = 1 << 20;
    for content in [frame(2_049, 0), frame(1, 1_024)] {
        let unread = kind.reading_bytes(&content, budget).unwrap_err();
        assert!(matches!(unread, Unread::TooMuch(_)), "{unread:?}");
    }
    let content = frame(2_048, 0);
    assert_eq!(kind.reading_bytes(&content, budget), Ok(content.len() + budget));
    let cut = &frame(40_000, 0)[..CHEAP_BYTES + 1];
    assert_eq!(kind.reading_bytes(cut, budget), Err(Unread::Nothing));
    assert_eq!(kind.reading_bytes(&cut[..100], budget), Ok(100), "who reads it says what it is");
}

#[test]
fn a_usual_produce_request_is_charged_little_more_than_its_bytes() {
    let partition = PartitionProduceData::default().with_records(Some(vec![1; 16 << 10].into()));
    let topic = TopicProduceData::default()
        .with_name(text("topic"))
        .with_partition_data(vec![partition; 1_000]);
    let request = ProduceRequestData::default().with_topic_data(vec![topic]);
    let content =
        request_frame(&request, 12, 1, &text("test")).unwrap().split_off(FRAME_HEAD_BYTES);
    let charged = FrameKind(ApiKey::Produce as i16).reading_bytes(&content, 256 << 20).unwrap();
    assert!(charged < content.len() / 100 * 107, "{charged} for {}", content.len());
}
