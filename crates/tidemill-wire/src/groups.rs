//! Records of the coordinator of consumer groups, and the part of a member's metadata that it
//! reads.
//!
//! ```text
//! group:     version │ generation │ protocol type, protocol │ leader │ since │ members
//!            under the group's id
//! offset:    version │ offset │ leader epoch │ topic id │ since │ metadata
//!            under  length u16 of the group's id │ group │ topic │ partition u32
//! pending:   an offset that an open transaction holds
//!            under  producer id u64 │ the offset's key
//! ```
//!
//! Keys are big endian, so that the offsets of a group stand together, and those that a producer
//! holds. Entries are postcard; fields are only ever added at the end.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// The version of the group records written by this code.
pub const GROUP_VERSION: u8 = 1;
/// The version of the offset records written by this code.
pub const OFFSET_VERSION: u8 = 1;

/// A group with its members, as of a generation that has its assignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// [`GROUP_VERSION`].
    pub version: u8,
    /// The generation: it grows with each assignment of partitions, and when the group becomes
    /// empty.
    pub generation: i32,
    /// The kind of its members; none: it never had any.
    pub protocol_type: Option<String>,
    /// The assignment protocol.
    pub protocol: Option<String>,
    /// The member that assigns.
    pub leader: Option<String>,
    /// Since when it is as it is: milliseconds of the node's running time.
    pub since_ms: u64,
    /// Its members, in the order in which they joined.
    pub members: Vec<MemberRecord>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The id that the coordinator gave.
    pub id: String,
    /// The id that the member's own configuration gives, if it is a static one. (KIP-345.)
    pub instance: Option<String>,
    /// The name the client gives itself.
    pub client_id: String,
    /// Where from.
    pub client_host: String,
    /// The longest silence before it is removed, in milliseconds.
    pub session_ms: u32,
    /// The time it has to rejoin, in milliseconds.
    pub rebalance_ms: u32,
    /// Protocols that it knows, best first, with its metadata for each.
    pub protocols: Vec<(String, Vec<u8>)>,
    /// Its assignment.
    pub assignment: Vec<u8>,
}

/// An offset that was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetRecord {
    /// [`OFFSET_VERSION`].
    pub version: u8,
    /// The offset of the next record to read.
    pub offset: i64,
    /// The epoch of the leader that the last record was read from; -1 if not known.
    pub leader_epoch: i32,
    /// The topic: another one that was given its name later has other offsets.
    pub topic_id: [u8; 16],
    /// When it was committed: milliseconds of the node's running time.
    pub since_ms: u64,
    /// The client's own text.
    pub metadata: String,
}

impl GroupRecord {
    /// The record as bytes.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are no record, or one of a version that is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (record, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let known = record.version == GROUP_VERSION && rest.is_empty();
        if known { Ok(record) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

impl OffsetRecord {
    /// The record as bytes.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are no record, or one of a version that is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (record, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let known = record.version == OFFSET_VERSION && rest.is_empty();
        if known { Ok(record) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

/// The key of a committed offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetKey {
    /// The group's id, at most 65,535 bytes.
    pub group: String,
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: u32,
}

impl OffsetKey {
    /// The key as bytes.
    ///
    /// # Panics
    /// The group's id is longer than an id may be.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.group.len() + self.topic.len() + 6);
        let length = u16::try_from(self.group.len()).expect("ids of groups are shorter");
        key.extend_from_slice(&length.to_be_bytes());
        key.extend_from_slice(self.group.as_bytes());
        key.extend_from_slice(self.topic.as_bytes());
        key.extend_from_slice(&self.partition.to_be_bytes());
        key
    }

    /// Reads a key. None: the bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (rest, partition) = rest.split_last_chunk::<4>()?;
        let (group, topic) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        Some(Self {
            group: String::from_utf8(group.to_vec()).ok()?,
            topic: String::from_utf8(topic.to_vec()).ok()?,
            partition: u32::from_be_bytes(*partition),
        })
    }

    /// The key of an offset that a producer's open transaction holds.
    #[must_use]
    pub fn encode_pending(&self, producer_id: i64) -> Vec<u8> {
        [&producer_id.to_be_bytes()[..], &self.encode()].concat()
    }

    /// Reads the key of an offset that a transaction holds: the producer, and the key.
    #[must_use]
    pub fn decode_pending(bytes: &[u8]) -> Option<(i64, Self)> {
        let (producer, key) = bytes.split_first_chunk::<8>()?;
        Some((i64::from_be_bytes(*producer), Self::decode(key)?))
    }
}

/// The metadata with which a consumer joins a group (`ConsumerProtocolSubscription`), as far as it
/// decides an assignment. A consumer's account of its own past, the partitions it owned and their
/// generation, is left out.
///
/// ```text
/// version i16 │ count i32 │ topics: length i16, name │ user data: length i32 (-1: none), bytes
///      from 1 │ count i32 │ owned partitions: topic, count i32, numbers i32
///      from 2 │ generation i32
///      from 3 │ rack: length i16 (-1: none), name
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// The topics, each once.
    pub topics: BTreeSet<&'a str>,
    /// The bytes that the assignor of the consumer added for the assignor of the leader.
    pub user_data: Option<&'a [u8]>,
    /// The rack of the consumer.
    pub rack: Option<&'a str>,
    /// The fields of versions after 3.
    pub later_fields: &'a [u8],
}

impl<'a> Subscription<'a> {
    /// Reads a consumer's metadata. None: the bytes are no such metadata.
    #[must_use]
    pub fn read(metadata: &'a [u8]) -> Option<Self> {
        let (version, rest) = metadata.split_first_chunk::<2>()?;
        let version = i16::from_be_bytes(*version);
        let (topics, mut rest) = take_topics(version, rest)?;
        let user_data = take_bytes(&mut rest)?;
        if version >= 1 {
            for _ in 0..take_count(&mut rest)? {
                take_text(&mut rest)??;
                let partitions = usize::try_from(take_count(&mut rest)?).ok()?;
                rest = rest.get(partitions.checked_mul(4)?..)?;
            }
        }
        if version >= 2 {
            rest = rest.get(4..)?;
        }
        let rack = if version >= 3 { take_text(&mut rest)? } else { None };
        let topics = topics.into_iter().collect();
        Some(Self { topics, user_data, rack, later_fields: rest })
    }
}

/// The topics of a consumer's metadata (see [`Subscription`]). None: the bytes do not begin as such
/// metadata does.
#[must_use]
pub fn subscribed_topics(metadata: &[u8]) -> Option<Vec<String>> {
    let (version, rest) = metadata.split_first_chunk::<2>()?;
    let (topics, _) = take_topics(i16::from_be_bytes(*version), rest)?;
    Some(topics.into_iter().map(str::to_owned).collect())
}

/// Reads a list of topics, and returns the bytes after it too.
fn take_topics(version: i16, mut rest: &[u8]) -> Option<(Vec<&str>, &[u8])> {
    let count = usize::try_from(take_count(&mut rest)?).ok()?;
    // Each name has at least its length.
    if version < 0 || count > rest.len() / 2 {
        return None;
    }
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        topics.push(take_text(&mut rest)??);
    }
    Some((topics, rest))
}

fn take_count(rest: &mut &[u8]) -> Option<u32> {
    let (count, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    u32::try_from(i32::from_be_bytes(*count)).ok()
}

/// Reads a text with its length. `Some(None)`: it is null.
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a str>> {
    let (length, after) = rest.split_first_chunk::<2>()?;
    *rest = after;
    let Ok(length) = usize::try_from(i16::from_be_bytes(*length)) else { return Some(None) };
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Some(str::from_utf8(text).ok()?))
}

/// Reads bytes with their length. `Some(None)`: they are null.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Some(None) };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Some(bytes))
}
