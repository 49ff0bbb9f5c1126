//! Keys, revisions and leases: the names of the table.

use crate::error::CoordinatorError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest value, in bytes. etcd refuses requests above 1.5 MiB.
pub const VALUE_BYTES_MAX: usize = 512 * 1024;

/// A name in the table, such as `nodes/3`: text of 1 to [`KEY_BYTES_MAX`] bytes without control
/// characters. Parts are separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

impl Key {
    /// A key of this text.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] for an empty or too long text, or one with control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, CoordinatorError> {
        let text = text.into();
        let refuse = |why: &str| Err(CoordinatorError::Invalid(format!("key {text:?}: {why}")));
        match text.len() {
            0 => return refuse("it is empty"),
            length if length > KEY_BYTES_MAX => {
                return refuse(&format!("{length} bytes, {KEY_BYTES_MAX} at most"));
            }
            _ => {}
        }
        if text.chars().any(char::is_control) {
            return refuse("it has a control character");
        }
        Ok(Self(text))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Key {
    type Error = CoordinatorError;

    fn try_from(text: String) -> Result<Self, CoordinatorError> {
        Self::new(text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

/// A moment of the table: the number of commits that changed it. It never goes back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first commit. As the revision of a key it means that the key is absent.
    pub const NONE: Self = Self(0);

    /// The revision of the next commit.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A lease: keys bound to it disappear when it expires or is revoked. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}
