//! The encoding of the entries of a run.
//!
//! ```text
//! word    whose highest bit is set    a row, whose number the others are: a value
//!         otherwise                   a length of a key, length of a value, key, value
//!                                      └ bit 30: rows behind it may have its form
//! ```
//!
//! Nearly all keys are row numbers behind one prefix, and nearly all their values have the same
//! length. So lengths and prefix are written once, as a *form*, and each following row takes four
//! bytes more than its value. Entries that are looked up by the hashes of their keys have no form,
//! because each is read by itself.

use super::{ByteReader, DELETED, LENGTH_BYTES, SavedError};

/// A bit of an entry's first word: the entry is a row of the last form.
const ROW: u32 = 1 << 31;
/// A bit of an entry's first word: the entry sets the form, a prefix and the length of a value.
pub(super) const FORM: u32 = 1 << 30;
/// Every key is shorter, in bytes.
pub(super) const KEY_BYTES_END: usize = FORM as usize;
/// The bytes of a row number, which ends a row's key.
pub(super) const ROW_BYTES: usize = size_of::<u32>();
/// Shorter values have no form, so each entry takes at least eight bytes.
const FORM_BYTES_MIN: usize = 4;

/// The key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunKey<'a> {
    /// The whole key, or the prefix before the row number.
    pub(super) bytes: &'a [u8],
    /// The row number, if the prefix comes from the form.
    pub(super) row: Option<u32>,
}

impl RunKey<'_> {
    /// The bytes of the key.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let row = self.row.map(u32::to_be_bytes);
        self.bytes.iter().copied().chain(row.into_iter().flatten())
    }

    /// Returns true if it sorts before another key, which is given as a prefix and the rest.
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

    /// Appends the key.
    #[inline]
    pub(super) fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.bytes);
        self.row.into_iter().for_each(|row| to.extend_from_slice(&row.to_be_bytes()));
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.row.map_or(0, |_| ROW_BYTES)
    }
}

/// A form: the prefix of its rows, and the length of their values in bytes.
pub type RowForm<'a> = (&'a [u8], usize);

/// The entries of a run that were not read yet.
#[derive(Clone, Debug)]
pub struct RunEntries<'a> {
    from: ByteReader<'a>,
    /// The last form.
    form: Option<RowForm<'a>>,
}

impl<'a> RunEntries<'a> {
    /// Starts at the first entry, which may be of the given form.
    pub fn new(from: ByteReader<'a>, form: Option<RowForm<'a>>) -> Self {
        Self { from, form }
    }

    /// The last form.
    pub fn form(&self) -> Option<RowForm<'a>> {
        self.form
    }

    /// The bytes of the entries not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.from.rest()
    }

    /// Checks that all entries were read.
    ///
    /// # Errors
    /// There are more bytes.
    pub fn end(&self) -> Result<(), SavedError> {
        self.from.end()
    }

    /// Reads the next entry: its key, and its value unless the key is deleted.
    ///
    /// # Errors
    /// The bytes end within the entry, or the entry is of a form and there is none.
    #[inline]
    pub fn next_entry(&mut self) -> Result<(RunKey<'a>, Option<&'a [u8]>), SavedError> {
        let word = self.from.u32()?;
        if word & ROW != 0 {
            let (bytes, value_bytes) = self.form.ok_or_else(no_form)?;
            let value = self.from.bytes(value_bytes)?;
            return Ok((RunKey { bytes, row: Some(word & !ROW) }, Some(value)));
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
        Ok((RunKey { bytes, row: None }, value))
    }
}

#[cold]
fn no_form() -> SavedError {
    SavedError::new("a row of saved state has a form that was not told")
}

/// Reads an entry of a run without forms: its key, and its value unless the key is deleted.
///
/// # Errors
/// The bytes end within the entry, or the entry has a form.
#[inline]
pub fn entry<'a>(from: &mut ByteReader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), SavedError> {
    let mut entries = RunEntries::new(from.clone(), None);
    let (key, value) = entries.next_entry()?;
    if entries.form.is_some() {
        return Err(SavedError::new("an entry that is to be read by itself has a form"));
    }
    *from = entries.from;
    Ok((key.bytes, value))
}

/// The head of an entry: the lengths of its key and its value, or [`DELETED`], and [`FORM`] if the
/// entry sets a form.
#[inline]
pub(super) fn lengths(key_bytes: usize, value_bytes: u32, form: u32) -> [u8; 2 * LENGTH_BYTES] {
    (u64::from(value_bytes) << 32 | u64::from(key_bytes as u32 | form)).to_le_bytes()
}

/// The head of a row of the last form.
#[inline]
pub(super) fn row_word(row: u32) -> [u8; ROW_BYTES] {
    (ROW | row).to_le_bytes()
}

/// Returns true if a row with a value of this length can be of a form.
#[inline]
pub(super) fn has_form(row: u32, value_bytes: usize) -> bool {
    row < ROW && value_bytes >= FORM_BYTES_MIN
}
