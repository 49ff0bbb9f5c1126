//! The entries of a run, one after the other.
//!
//! ```text
//! word    whose highest bit is set    a row, whose number the others are: a value
//!         otherwise                   a length of a key, length of a value, key, value
//!                                      └ bit 30: rows behind it may have its form
//! ```
//!
//! Nearly all keys are numbers of rows behind one prefix, and nearly all of their values are as long as
//! each other: lengths and prefix stand once before many of them, where each is four bytes longer than
//! its value. Entries that are looked for by the hashes of their keys have no such form, as each is read
//! by itself.

use super::{DELETED, LENGTH_BYTES, Reader, SavedError};

/// In the first word of an entry: it is a row of the form that was last told.
const ROW: u32 = 1 << 31;
/// In the first word of an entry: it tells a form, a prefix and the length of a value.
pub(super) const FORM: u32 = 1 << 30;
/// No key is so long, in bytes.
pub(super) const KEY_BYTES_END: usize = FORM as usize;
/// Bytes of the number of a row, which ends its key.
pub(super) const ROW_BYTES: usize = size_of::<u32>();
/// Values that are shorter have no form: so each entry takes eight bytes and more.
const FORM_BYTES_MIN: usize = 4;

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    /// All of it, or what stands before the number of a row.
    pub(super) bytes: &'a [u8],
    /// The number of a row, of which all else was told before.
    pub(super) row: Option<u32>,
}

impl Key<'_> {
    /// Its bytes.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> {
        let row = self.row.map(u32::to_be_bytes);
        self.bytes.iter().copied().chain(row.into_iter().flatten())
    }

    /// Whether it is before another: a prefix, and what is behind it.
    #[inline]
    pub(super) fn is_before(&self, (prefix, rest): (&[u8], &[u8])) -> bool {
        // Most are rows behind the same prefix.
        if let (Some(row), Ok(other)) = (self.row, rest.try_into())
            && self.bytes == prefix
        {
            return row < u32::from_be_bytes(other);
        }
        self.iter().lt(prefix.iter().chain(rest).copied())
    }

    /// Appends it.
    #[inline]
    pub(super) fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.bytes);
        self.row.into_iter().for_each(|row| to.extend_from_slice(&row.to_be_bytes()));
    }

    /// How long it is, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.row.map_or(0, |_| ROW_BYTES)
    }
}

/// A form: what stands before its rows, and the length of their values.
pub(crate) type Form<'a> = (&'a [u8], usize);

/// Entries that were not read yet.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    from: Reader<'a>,
    /// That was told last.
    form: Option<Form<'a>>,
}

impl<'a> Entries<'a> {
    /// Reads these, the first of which may be of that form.
    pub(crate) fn new(from: Reader<'a>, form: Option<Form<'a>>) -> Self {
        Self { from, form }
    }

    /// The form that was told last.
    pub(crate) fn form(&self) -> Option<Form<'a>> {
        self.form
    }

    /// The bytes of those that are left.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.from.rest()
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// Something is.
    pub(crate) fn end(&self) -> Result<(), SavedError> {
        self.from.end()
    }

    /// The next: its key, and its value unless the key is deleted.
    ///
    /// # Errors
    /// The bytes end before it does, or it is of a form that was not told.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<(Key<'a>, Option<&'a [u8]>), SavedError> {
        let word = self.from.u32()?;
        if word & ROW != 0 {
            let (bytes, value_bytes) = self.form.ok_or_else(no_form)?;
            let value = self.from.bytes(value_bytes)?;
            return Ok((Key { bytes, row: Some(word & !ROW) }, Some(value)));
        }
        let value_bytes = self.from.u32()?;
        let bytes = self.from.bytes((word & !FORM) as usize)?;
        let value = match value_bytes {
            DELETED => None,
            count => Some(self.from.bytes(count as usize)?),
        };
        if word & FORM != 0 {
            let (before, _) = bytes.split_last_chunk::<ROW_BYTES>().ok_or_else(no_form)?;
            let value = value.filter(|it| it.len() >= FORM_BYTES_MIN).ok_or_else(no_form)?;
            self.form = Some((before, value.len()));
        }
        Ok((Key { bytes, row: None }, value))
    }
}

#[cold]
fn no_form() -> SavedError {
    SavedError::new("a row of saved state has a form that was not told")
}

/// An entry of a run whose entries have no form: its key, and its value unless the key is deleted.
///
/// # Errors
/// The bytes end before it does, or there are forms.
#[inline]
pub(crate) fn entry<'a>(from: &mut Reader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), SavedError> {
    let mut entries = Entries::new(from.clone(), None);
    let (key, value) = entries.next()?;
    if entries.form.is_some() {
        return Err(SavedError::new("an entry that is to be read by itself has a form"));
    }
    *from = entries.from;
    Ok((key.bytes, value))
}

/// What stands before the key of an entry: the lengths of the key and of its value, or that it is
/// deleted; and whether it tells a form.
#[inline]
pub(super) fn lengths(key_bytes: usize, value_bytes: u32, form: u32) -> [u8; 2 * LENGTH_BYTES] {
    (u64::from(value_bytes) << 32 | u64::from(key_bytes as u32 | form)).to_le_bytes()
}

/// What stands before the value of a row of the form that was told last.
#[inline]
pub(super) fn row_word(row: u32) -> [u8; ROW_BYTES] {
    (ROW | row).to_le_bytes()
}

/// Whether a row, and a value of so many bytes, can be of a form.
#[inline]
pub(super) fn has_form(row: u32, value_bytes: usize) -> bool {
    row < ROW && value_bytes >= FORM_BYTES_MIN
}
