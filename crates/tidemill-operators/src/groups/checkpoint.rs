//! Groups as checkpoints have them.

use super::{BlockKeys, Groups, KeyForm, KeyPlan};
use arrow_array::Array as _;
use std::sync::Arc;
use tidemill_flow::partition::hash_number;
use tidemill_state::{ByteReader, HashOfEntry, SLOTS_AHEAD, SavedError, put_bytes};

/// The hash under which a key that is null is looked for where it is saved.
const NULL: u64 = 0;

/// Room for `count` restored keys and some new ones, so that the first new key does not double the
/// table.
pub(crate) fn with_room(count: usize) -> usize {
    count + count / 8
}

impl KeyPlan {
    /// The hash of the key that a saved group begins with, as [`BlockKeys::saved_hash`] has it; none
    /// where there is one group.
    pub(crate) fn hash_of_entry(&self) -> Option<HashOfEntry> {
        let form = self.form;
        let hash_of = move |value: &[u8]| {
            let mut from = ByteReader::new(value);
            match (from.bytes(1).ok()?, form) {
                ([1], _) => Some(NULL),
                (_, KeyForm::Int) => from.u64().ok().map(hash_number),
                _ => from.u64().ok(),
            }
        };
        (form != KeyForm::Unit).then(|| Arc::new(hash_of) as HashOfEntry)
    }
}

impl BlockKeys {
    /// The hash under which the key of a row is looked for where it is saved.
    pub(crate) fn saved_hash(&self, hashes: &[u64], row: usize) -> u64 {
        match self {
            Self::Unit => NULL,
            Self::Int(ints) if ints.is_null(row) => NULL,
            Self::Text(text) if text.is_null(row) => NULL,
            Self::Int(_) | Self::Text(_) | Self::Rows(_) => hashes[row],
        }
    }
}

impl Groups {
    /// Writes the key of a group, for a checkpoint.
    #[inline]
    pub(crate) fn save(&self, group: usize, out: &mut Vec<u8>) {
        let is_null = u8::from(self.null == Some(group as u32));
        match self.form {
            KeyForm::Unit => out.push(is_null),
            KeyForm::Int => {
                let mut bytes = [is_null; 9];
                bytes[1..].copy_from_slice(&self.int_keys[group].to_le_bytes());
                out.extend_from_slice(&bytes);
            }
            KeyForm::Text | KeyForm::Rows => {
                out.push(is_null);
                out.extend_from_slice(&self.bytes.hash(group).to_le_bytes());
                put_bytes(out, self.bytes.key(group));
            }
        }
    }

    /// About so many keys are taken back, or fewer.
    pub(crate) fn expect(&mut self, groups: usize) {
        match self.form {
            KeyForm::Unit => {}
            KeyForm::Int => self.int_keys.reserve_exact(with_room(groups)),
            KeyForm::Text | KeyForm::Rows => self.bytes.reserve(with_room(groups)),
        }
    }

    /// Takes back the key of a group: that of the next number, or the one that it has. A new one can
    /// be looked up once all are there: see [`Self::restored`].
    pub(crate) fn restore(
        &mut self,
        group: usize,
        from: &mut ByteReader<'_>,
    ) -> Result<(), SavedError> {
        let is_null = from.bytes(1)? == [1];
        let is_new = group == self.len();
        let is_right = match self.form {
            KeyForm::Unit => {
                self.count = 1;
                group == 0
            }
            KeyForm::Int => {
                let key = from.i64()?;
                if is_new && !is_null {
                    self.int_keys.push(key);
                    self.count += 1;
                }
                is_null || self.int_keys.get(group) == Some(&key)
            }
            KeyForm::Text | KeyForm::Rows => {
                let (hash, key) = (from.u64()?, from.sized()?);
                if is_new && !is_null {
                    self.bytes.push(key, hash);
                }
                is_null || (group < self.len() && self.bytes.key(group) == key)
            }
        };
        let is_right = match is_null && self.form != KeyForm::Unit {
            true => self.null_group() as usize == group,
            false => is_right && self.null != Some(group as u32),
        };
        if is_right { Ok(()) } else { Err(not_each_once()) }
    }

    /// All keys were taken back: from now on they are found. The table has its size from the start.
    pub(crate) fn restored(&mut self) -> Result<(), SavedError> {
        // Where fewer came than were expected.
        let room = with_room(self.len());
        self.int_keys.shrink_to(room);
        self.bytes.shrink_to(room);
        let is_each_once = match self.form {
            KeyForm::Unit => true,
            KeyForm::Int => self.index_ints(),
            KeyForm::Text | KeyForm::Rows => self.bytes.index(self.null),
        };
        if is_each_once { Ok(()) } else { Err(not_each_once()) }
    }

    fn index_ints(&mut self) -> bool {
        let Self { ints, int_keys, null, .. } = self;
        let hash_of = |key: i64| hash_number(key as u64);
        ints.reserve(int_keys.len(), hash_of);
        int_keys.iter().enumerate().all(|(group, key)| {
            if let Some(ahead) = int_keys.get(group + SLOTS_AHEAD) {
                ints.prefetch(hash_of(*ahead));
            }
            let next = group as u32;
            *null == Some(next) || ints.get_or_insert((*key, hash_of(*key)), next, hash_of) == next
        })
    }
}

#[cold]
fn not_each_once() -> SavedError {
    SavedError::new("a key of the saved state is missing, or is there twice")
}
