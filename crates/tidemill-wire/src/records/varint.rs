//! Numbers of one to ten bytes: zigzag, then seven bits a byte, lowest first.
//!
//! A number that is longer than it need be is read; one with bits beyond its type is not.

#[cfg(test)]
mod tests;

/// Most bytes of a number of 32 bits.
const I32_BYTES_MAX: usize = 5;
/// Most bytes of a number of 64 bits.
const I64_BYTES_MAX: usize = 10;

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVarint {
    /// The bytes end within it.
    Cut,
    /// It has more bits than its type.
    Long,
}

/// Takes a number of 32 bits off the front of `bytes`.
#[inline(always)]
pub(super) fn take_i32(bytes: &mut &[u8]) -> Result<i32, NoVarint> {
    let raw = match **bytes {
        [first, ref rest @ ..] if first < 0x80 => {
            *bytes = rest;
            u32::from(first)
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *bytes = rest;
            u32::from(first & 0x7f) | u32::from(second) << 7
        }
        _ => u32::try_from(take_long(bytes, I32_BYTES_MAX)?).map_err(|_| NoVarint::Long)?,
    };
    Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
}

/// Takes a number of 64 bits off the front of `bytes`.
#[inline(always)]
pub(super) fn take_i64(bytes: &mut &[u8]) -> Result<i64, NoVarint> {
    let raw = match **bytes {
        [first, ref rest @ ..] if first < 0x80 => {
            *bytes = rest;
            u64::from(first)
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *bytes = rest;
            u64::from(first & 0x7f) | u64::from(second) << 7
        }
        _ => take_long(bytes, I64_BYTES_MAX)?,
    };
    Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
}

#[inline(never)]
fn take_long(bytes: &mut &[u8], bytes_max: usize) -> Result<u64, NoVarint> {
    let mut raw = 0;
    for (index, byte) in bytes.iter().enumerate().take(bytes_max) {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        if bits << shift >> shift != bits {
            return Err(NoVarint::Long);
        }
        raw |= bits << shift;
        if *byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(raw);
        }
    }
    Err(if bytes.len() < bytes_max { NoVarint::Cut } else { NoVarint::Long })
}

/// Bytes that a number has as varint.
#[inline]
pub(super) fn bytes_of(number: i64) -> usize {
    let raw = (number << 1) ^ (number >> 63);
    // One byte for every seven bits that are begun; zero has one too.
    (70 - (raw | 1).leading_zeros() as usize) / 7
}

/// Appends a number.
#[inline]
pub(super) fn put(into: &mut Vec<u8>, number: i64) {
    let mut raw = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while raw >= 0x80 {
        into.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    into.push(raw as u8);
}
