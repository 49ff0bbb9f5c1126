//! The id of a cluster, as text that is safe in messages, keys and file names.
//!
//! ```text
//! q1pXk0mBT7Wc3nRzVw5uYg      made by a cluster: 128 bits in base64url, as Kafka's ids
//! orders.eu-1                 chosen by a person: 1 to 64 of a-z A-Z 0-9 . _ -
//! ```
//!
//! Invariant: a value has 1 to [`CLUSTER_ID_BYTES_MAX`] bytes of that alphabet.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

#[cfg(test)]
mod tests;

/// Most bytes of a cluster's id.
pub const CLUSTER_ID_BYTES_MAX: usize = 64;

/// Characters of an id that a cluster made itself: 128 bits, six a character.
const MADE_CHARS: usize = 22;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The id of a cluster: all nodes of it have the same, and no node of another has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(String);

/// A text that is no id of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster id {0:?} is refused: write 1 to 64 of a-z A-Z 0-9 . _ -")]
pub struct ClusterIdError(String);

impl ClusterId {
    /// The id of these 128 bits, which should be random.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        // The last character has two bits too many. They are zero.
        let digit = |index: usize| {
            let end = 6 * (index + 1);
            let value = if end <= 128 { bits >> (128 - end) } else { bits << (end - 128) };
            char::from(DIGITS[(value & 63) as usize])
        };
        Self((0..MADE_CHARS).map(digit).collect())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClusterId {
    type Error = ClusterIdError;

    fn try_from(text: String) -> Result<Self, ClusterIdError> {
        let is_allowed = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
        let has_length = (1..=CLUSTER_ID_BYTES_MAX).contains(&text.len());
        if has_length && text.bytes().all(is_allowed) {
            return Ok(Self(text));
        }
        // An outside text may be long: a message shows the part that a person recognises.
        Err(ClusterIdError(text.chars().take(CLUSTER_ID_BYTES_MAX).collect()))
    }
}

impl FromStr for ClusterId {
    type Err = ClusterIdError;

    fn from_str(text: &str) -> Result<Self, ClusterIdError> {
        Self::try_from(text.to_owned())
    }
}

impl From<ClusterId> for String {
    fn from(id: ClusterId) -> Self {
        id.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
