//! Comparison of the metadata with which a member joins: would the leader assign the same again?
//!
//! A consumer's metadata holds two things: the subscription, on which an assignment depends, and the
//! consumer's account of its own past, that is the partitions it owned and their generation. A
//! consumer that was restarted has no past, so its bytes differ though its subscription is the same.
//!
//! Invariant: two lists are the same only if every protocol has the same name, the same rank and the
//! same subscription. Metadata that does not read as a consumer's is compared byte for byte.

use super::machine::CONSUMER;
use bytes::Bytes;
use tidemill_wire::groups::Subscription;

/// Assignors of Kafka's clients whose user data is an account of the past, too: the partitions that
/// the consumer owned, and their generation.
const STICKY_ASSIGNORS: [&str; 2] = ["sticky", "cooperative-sticky"];

/// True if the leader of a group would assign by `after` as it did by `before`. Both are lists of
/// protocols with their metadata, best first.
pub(super) fn same_protocols(
    protocol_type: &str,
    before: &[(String, Bytes)],
    after: &[(String, Bytes)],
) -> bool {
    let same = |((name, before), (other, after)): (&(String, Bytes), &(String, Bytes))| {
        name == other && same_metadata(protocol_type, name, before, after)
    };
    before.len() == after.len() && before.iter().zip(after).all(same)
}

fn same_metadata(protocol_type: &str, protocol: &str, before: &[u8], after: &[u8]) -> bool {
    if before == after || protocol_type != CONSUMER {
        return before == after;
    }
    let read = |metadata| {
        let mut subscription = Subscription::read(metadata)?;
        if STICKY_ASSIGNORS.contains(&protocol) {
            subscription.user_data = None;
        }
        Some(subscription)
    };
    match (read(before), read(after)) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod tests;
