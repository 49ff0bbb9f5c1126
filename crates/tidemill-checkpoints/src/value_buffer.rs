//! A buffer of values that are read one behind the other, and whose memory is reused.
//!
//! ```text
//! head key value₀            head key value₁
//!          └──────┐                   └──┐
//! ┌────────┬──────┴───────────┬──────────┴───────┐
//! │ unused │ value₀           │ value₁           │   the head of an entry stands for a moment where
//! └────────┴──────────────────┴──────────────────┘   the value before it ends
//! ```
//!
//! A state of gigabytes is read slice by slice, a few megabytes each. New memory for each slice
//! would cost as much as reading it.

/// Values without gaps between them.
#[derive(Debug, Default)]
pub struct ValueBuffer {
    /// The memory. It may be longer than the content, so that old memory is not zeroed again.
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// A copy of the bytes that the head of an entry overwrites.
    aside: Vec<u8>,
}

impl ValueBuffer {
    /// Removes all values and keeps the memory.
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

    /// Adds the value of an entry, which `read` reads and checks: `head_bytes`, which are not kept,
    /// then `value_bytes`.
    ///
    /// # Errors
    /// The error of `read`. Nothing is added then.
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

    /// Adds the values of neighbouring entries, which `read` reads and checks. Each entry has the
    /// bytes before its value, and those of its value.
    ///
    /// # Errors
    /// The error of `read`. Nothing is added then.
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

    /// Makes room behind the values. Its content is undefined.
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
