//! Key → slice: a stable hash of the key's values, and the rows of a block in order of slice.
//!
//! - The hash is of *values*: an `Int32` 5 and an `Int64` 5 are the same key, so that two inputs
//!   of a join meet in one slice, and a text is, wherever in a dictionary it stands. Its output never
//!   changes (rapidhash v3): state is stored by it.
//! - A slice is a range of the hash: slice `s` of `n` holds the hashes from `s/n` to `(s+1)/n`.

use crate::block::Block;
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericByteArray, PrimitiveArray, RecordBatch,
    cast::AsArray,
    types::{
        ArrowPrimitiveType, ByteArrayType, Date32Type, Date64Type, Decimal128Type, Decimal256Type,
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
        DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use tidemill_types::SliceId;

mod router;

pub use router::Router;

#[cfg(test)]
mod tests;

/// The way of rows to the slices of the stage that reads them (Neptune 3.1.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partition {
    /// By the hash of these columns; of byte records, by the whole record.
    Key(Vec<usize>),
    /// All to slice 0.
    One,
    /// A copy to each slice.
    All,
    /// Evenly, by a seed that replays: the rows of a block go round the slices. Rows of a stage
    /// with several slices go by a hash of all their columns and the seed of the cycle.
    Random,
    /// To the slice with the number of the sending slice.
    Local,
}

impl Partition {
    /// The slice of the other stage, which has `slices`, that takes all rows of a slice;
    /// [`Block::EVERY`] for each of them; none if rows go different ways.
    pub(crate) fn whole(&self, from: SliceId, slices: u32) -> Option<SliceId> {
        match self {
            Self::One => Some(SliceId(0)),
            Self::All => Some(Block::EVERY),
            Self::Local => Some(SliceId(from.0 % slices)),
            Self::Key(_) | Self::Random => None,
        }
    }
}

const SECRETS: RapidSecrets = RapidSecrets::seed(0x7469_6465_6d69_6c6c);
const NULL_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of bytes as a key.
#[inline]
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    rapidhash_v3_inline::<true, false, false>(bytes, &SECRETS)
}

/// Hash of a number as a key.
#[inline]
#[must_use]
pub fn hash_number(number: u64) -> u64 {
    let wide = u128::from(number ^ 0x2d35_8dcc_aa6c_78a5) * 0x8bb8_4b93_962e_acc9_u128;
    let folded = (wide as u64) ^ ((wide >> 64) as u64);
    let wide = u128::from(folded ^ NULL_HASH) * 0x4b33_a62e_d433_d4a3_u128;
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// The slice of a hash.
#[inline]
#[must_use]
pub fn slice_of(hash: u64, slices: u32) -> u32 {
    (((hash >> 32) * u64::from(slices)) >> 32) as u32
}

/// A column whose type cannot be a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a column of type {0} cannot be a key")]
pub struct KeyTypeError(pub DataType);

/// Checks that a column of this type can be a key.
///
/// # Errors
/// It cannot.
pub fn check_key_type(data_type: &DataType) -> Result<(), KeyTypeError> {
    let mut probe = Vec::new();
    hash_column(&arrow_array::new_empty_array(data_type), true, &mut probe)
}

/// Key hashes of all rows of a batch, by row number.
///
/// # Errors
/// A column cannot be a key.
pub fn hash_columns(batch: &RecordBatch, columns: &[usize]) -> Result<Vec<u64>, KeyTypeError> {
    let mut hashes = Vec::new();
    hash_columns_into(batch, columns, &mut hashes)?;
    Ok(hashes)
}

/// As [`hash_columns`], in used memory.
fn hash_columns_into(
    batch: &RecordBatch,
    columns: &[usize],
    hashes: &mut Vec<u64>,
) -> Result<(), KeyTypeError> {
    hashes.clear();
    hashes.resize(batch.num_rows(), NULL_HASH);
    for (nth, column) in columns.iter().enumerate() {
        hash_column(batch.column(*column), nth == 0, hashes)?;
    }
    Ok(())
}

/// Puts the hash of one value to that of the columns before it.
#[inline]
fn combine(first: bool, slot: &mut u64, hash: u64) {
    *slot = if first { hash } else { hash_number(slot.rotate_left(17) ^ hash) };
}

fn hash_column(column: &ArrayRef, first: bool, hashes: &mut [u64]) -> Result<(), KeyTypeError> {
    macro_rules! numbers {
        ($kind:ty, $widen:expr) => {
            hash_primitive(column.as_primitive::<$kind>(), first, hashes, $widen)
        };
    }
    match column.data_type() {
        DataType::Int8 => numbers!(Int8Type, |v| i64::from(v) as u64),
        DataType::Int16 => numbers!(Int16Type, |v| i64::from(v) as u64),
        DataType::Int32 => numbers!(Int32Type, |v| i64::from(v) as u64),
        DataType::Int64 => numbers!(Int64Type, |v| v as u64),
        DataType::UInt8 => numbers!(UInt8Type, u64::from),
        DataType::UInt16 => numbers!(UInt16Type, u64::from),
        DataType::UInt32 => numbers!(UInt32Type, u64::from),
        DataType::UInt64 => numbers!(UInt64Type, |v| v),
        DataType::Float32 => numbers!(Float32Type, |v| float_bits(f64::from(v))),
        DataType::Float64 => numbers!(Float64Type, float_bits),
        DataType::Date32 => numbers!(Date32Type, |v| i64::from(v) as u64),
        DataType::Date64 => numbers!(Date64Type, |v| v as u64),
        DataType::Timestamp(TimeUnit::Second, _) => numbers!(TimestampSecondType, |v| v as u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            numbers!(TimestampMillisecondType, |v| v as u64);
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            numbers!(TimestampMicrosecondType, |v| v as u64);
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            numbers!(TimestampNanosecondType, |v| v as u64);
        }
        DataType::Time32(TimeUnit::Second) => numbers!(Time32SecondType, |v| i64::from(v) as u64),
        DataType::Time32(_) => numbers!(Time32MillisecondType, |v| i64::from(v) as u64),
        DataType::Time64(TimeUnit::Nanosecond) => numbers!(Time64NanosecondType, |v| v as u64),
        DataType::Time64(_) => numbers!(Time64MicrosecondType, |v| v as u64),
        DataType::Duration(TimeUnit::Second) => numbers!(DurationSecondType, |v| v as u64),
        DataType::Duration(TimeUnit::Millisecond) => {
            numbers!(DurationMillisecondType, |v| v as u64);
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            numbers!(DurationMicrosecondType, |v| v as u64);
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            numbers!(DurationNanosecondType, |v| v as u64);
        }
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>();
            hash_each(values.iter().map(|it| it.map(i128::to_le_bytes)), first, hashes);
        }
        DataType::Decimal256(..) => {
            let values = column.as_primitive::<Decimal256Type>();
            hash_each(values.iter().map(|it| it.map(i256::to_le_bytes)), first, hashes);
        }
        DataType::FixedSizeBinary(_) => {
            hash_each(column.as_fixed_size_binary().iter(), first, hashes);
        }
        DataType::Boolean => hash_booleans(column.as_boolean(), first, hashes),
        DataType::Utf8 => hash_byte_array(column.as_string::<i32>(), first, hashes),
        DataType::LargeUtf8 => hash_byte_array(column.as_string::<i64>(), first, hashes),
        DataType::Binary => hash_byte_array(column.as_binary::<i32>(), first, hashes),
        DataType::LargeBinary => hash_byte_array(column.as_binary::<i64>(), first, hashes),
        DataType::Utf8View => hash_each(column.as_string_view().iter(), first, hashes),
        DataType::BinaryView => hash_each(column.as_binary_view().iter(), first, hashes),
        DataType::Dictionary(_, values) if is_told_by_bytes(values) => {
            let dictionary = column.as_any_dictionary();
            let values = take(dictionary.values(), dictionary.keys(), None);
            hash_column(&values.expect("keys are of its values"), first, hashes)?;
        }
        DataType::Null => hashes.iter_mut().for_each(|slot| combine(first, slot, NULL_HASH)),
        other => return Err(KeyTypeError(other.clone())),
    }
    Ok(())
}

/// Returns true if equal dictionary values have equal hashes. Of floats the two zeros would be two
/// keys.
fn is_told_by_bytes(values: &DataType) -> bool {
    !values.is_floating() && !matches!(values, DataType::Dictionary(..))
}

/// Bits of a float, with one zero and one NaN.
fn float_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

fn hash_primitive<T: ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    first: bool,
    hashes: &mut [u64],
    widen: impl Fn(T::Native) -> u64,
) {
    if column.null_count() == 0 {
        for (slot, value) in hashes.iter_mut().zip(column.values()) {
            combine(first, slot, hash_number(widen(*value)));
        }
    } else {
        for (slot, value) in hashes.iter_mut().zip(column.iter()) {
            combine(first, slot, value.map_or(NULL_HASH, |value| hash_number(widen(value))));
        }
    }
}

fn hash_booleans(column: &BooleanArray, first: bool, hashes: &mut [u64]) {
    for (slot, value) in hashes.iter_mut().zip(column.iter()) {
        combine(first, slot, value.map_or(NULL_HASH, |value| hash_number(u64::from(value))));
    }
}

fn hash_each(
    values: impl Iterator<Item = Option<impl AsRef<[u8]>>>,
    first: bool,
    hashes: &mut [u64],
) {
    for (slot, value) in hashes.iter_mut().zip(values) {
        combine(first, slot, value.map_or(NULL_HASH, |value| hash_bytes(value.as_ref())));
    }
}

fn hash_byte_array<T: ByteArrayType>(column: &GenericByteArray<T>, first: bool, hashes: &mut [u64])
where
    T::Native: AsRef<[u8]>,
{
    for (row, slot) in hashes.iter_mut().enumerate() {
        let null = column.is_null(row);
        let hash = if null { NULL_HASH } else { hash_bytes(column.value(row).as_ref()) };
        combine(first, slot, hash);
    }
}
