//! A reader of numbers and bytes, in the encoding of runs and saved values.

use super::SavedError;

/// Reads numbers and bytes from the front of a slice of bytes.
#[derive(Clone, Debug)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Starts at the first byte.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes not read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    /// There are not so many.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], SavedError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(too_few)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// There are not so many.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, SavedError> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// There are not so many.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, SavedError> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// There are not so many.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, SavedError> {
        self.u64().map(|it| it as i64)
    }

    /// Reads bytes with their length before them, as [`put_bytes`] writes them.
    ///
    /// # Errors
    /// There are not so many.
    #[inline]
    pub fn sized(&mut self) -> Result<&'a [u8], SavedError> {
        let count = self.u32()? as usize;
        self.bytes(count)
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// Something is.
    #[inline]
    pub fn end(&self) -> Result<(), SavedError> {
        match self.0 {
            [] => Ok(()),
            more => Err(too_many(more.len())),
        }
    }
}

#[cold]
fn too_few() -> SavedError {
    SavedError::new("saved state ends too early")
}

#[cold]
fn too_many(bytes: usize) -> SavedError {
    SavedError::new(format!("saved state has {bytes} bytes too many"))
}

/// Appends bytes with their length before them.
///
/// # Panics
/// Panics if they are 4 GiB or more: no value of a state is.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let count = u32::try_from(bytes.len()).expect("nothing that is held is so long");
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(bytes);
}
