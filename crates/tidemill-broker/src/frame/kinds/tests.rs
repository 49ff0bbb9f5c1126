//! What small things become, from the sizes of their types.

use super::*;
use std::mem::size_of;
use tidemill_wire::kafka::{
    KafkaString,
    message::{
        Coordinator, DeletableGroupResult, OffsetCommitRequestTopic,
        describe_groups_response::DescribedGroup, describe_transactions_response::TransactionState,
        fetch_request::FetchTopic,
    },
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
        let kind = Kind(key as i16);
        let most = (GROWING * name).max((GROWING - 1) * name + answer + written);
        let charged = kind.reading_bytes(CHEAP_BYTES + 1) / (CHEAP_BYTES + 1);
        assert!(most <= charged, "{key:?}: {most} bytes for each, and {charged} are charged");
    }
    // Three bytes: no name, no partitions, no tags.
    let fetched = GROWING * size_of::<FetchTopic>() / 3;
    let committed = GROWING * size_of::<OffsetCommitRequestTopic>() / 3;
    assert!(fetched.max(committed) <= PLAIN_FACTOR, "{fetched} and {committed}");
}

#[test]
fn lists_of_names_have_a_bound_of_their_own() {
    let max = |key: ApiKey| Kind(key as i16).bytes_max();
    assert_eq!(max(ApiKey::Produce), None);
    assert_eq!(max(ApiKey::Fetch), Some(PLAIN_BYTES_MAX));
    for key in [ApiKey::FindCoordinator, ApiKey::DescribeGroups, ApiKey::DescribeTransactions] {
        assert_eq!(max(key), Some(NAMES_BYTES_MAX), "{key:?}");
    }
    assert_eq!(Kind(i16::MAX).bytes_max(), Some(PLAIN_BYTES_MAX), "whatever it is");
}
