//! ValueBuffer that are read one behind the other, into memory that is used again.
//!
//! ```text
//! head key value₀            head key value₁
//!          └──────┐                   └──┐
//! ┌────────┬──────┴───────────┬──────────┴───────┐
//! │ unused │ value₀           │ value₁           │   the head of an entry stands for a moment where
//! └────────┴──────────────────┴──────────────────┘   the value before it ends
//! ```
//!
//! A state of gigabytes is read by the slice, and each takes a few megabytes: new memory for each of
//! them costs as much as reading it.

/// ValueBuffer without anything between them.
#[derive(Debug, Default)]
pub struct ValueBuffer {
    /// Longer than what is in it: room that was written once need not be written again.
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// What stands where the head of an entry is to be.
    aside: Vec<u8>,
}

impl ValueBuffer {
    /// Forgets what is there; memory is kept.
    pub fn clear(&mut self) {
        (self.from, self.to) = (0, 0);
    }

    /// All values that were added.
    #[must_use]
    pub fn get(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Adds a value.
    pub fn add(&mut self, value: &[u8]) {
        self.room_for(value.len()).copy_from_slice(value);
        self.to += value.len();
    }

    /// Adds the value of an entry, which `read` reads and checks: `head_bytes`, which are not part
    /// of the value, and `value_bytes`.
    ///
    /// # Errors
    /// That of `read`; nothing is added then.
    pub(crate) fn add_entry<E>(
        &mut self,
        (head_bytes, value_bytes): (usize, usize),
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.to < head_bytes {
            // Nothing is there, or less than the head of an entry: it moves to make room.
            self.room_for(head_bytes);
            self.bytes.copy_within(self.from..self.to, self.from + head_bytes);
            (self.from, self.to) = (self.from + head_bytes, self.to + head_bytes);
        }
        self.room_for(value_bytes);
        let entry = &mut self.bytes[self.to - head_bytes..self.to + value_bytes];
        self.aside.clear();
        self.aside.extend_from_slice(&entry[..head_bytes]);
        let outcome = read(entry);
        entry[..head_bytes].copy_from_slice(&self.aside);
        outcome?;
        self.to += value_bytes;
        Ok(())
    }

    /// Adds the values of entries that stand one behind the other, which `read` reads and checks: of
    /// each the bytes before its value, and those of its value.
    ///
    /// # Errors
    /// That of `read`; nothing is added then.
    pub(crate) fn add_entries<E>(
        &mut self,
        entries: &[(usize, usize)],
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        read(self.room_for(entries.iter().map(|(head, value)| head + value).sum()))?;
        let mut from = self.to;
        for (head_bytes, value_bytes) in entries {
            from += head_bytes;
            self.bytes.copy_within(from..from + value_bytes, self.to);
            (from, self.to) = (from + value_bytes, self.to + value_bytes);
        }
        Ok(())
    }

    /// Room for so many bytes behind what is there; what is in it is anything.
    fn room_for(&mut self, count: usize) -> &mut [u8] {
        let end = self.to + count;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.to..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, bool)> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        (bytes(9), bytes(12), any::<bool>())
    }

    proptest! {
        #[test]
        fn values_stand_one_behind_the_other(
            rounds in proptest::collection::vec(proptest::collection::vec(entry(), 0..6), 1..4),
        ) {
            let mut values = ValueBuffer::default();
            for entries in rounds {
                values.clear();
                let mut expected = Vec::new();
                for (head, value, is_good) in entries {
                    let whole = [&head[..], &value].concat();
                    let added = values.add_entry((head.len(), value.len()), |into| {
                        into.copy_from_slice(&whole);
                        if is_good { Ok(()) } else { Err("damaged") }
                    });
                    prop_assert_eq!(added.is_ok(), is_good);
                    if is_good {
                        expected.extend_from_slice(&value);
                    }
                    prop_assert_eq!(values.get(), &expected);
                    values.add(&head);
                    expected.extend_from_slice(&head);
                    prop_assert_eq!(values.get(), &expected);
                    let sizes = [(head.len(), value.len()), (value.len(), head.len())];
                    let added = values.add_entries(&sizes, |into| {
                        into.copy_from_slice(&[&whole[..], &value, &head].concat());
                        if is_good { Ok(()) } else { Err("damaged") }
                    });
                    prop_assert_eq!(added.is_ok(), is_good);
                    if is_good {
                        expected.extend_from_slice(&value);
                        expected.extend_from_slice(&head);
                    }
                    prop_assert_eq!(values.get(), &expected);
                }
            }
        }
    }
}
