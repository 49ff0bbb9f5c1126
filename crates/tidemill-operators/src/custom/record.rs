//! One record, as a function of the program sees it.
//!
//! Columns are looked up by name once a batch: after that, a name is recognised by where its text
//! lies in the program, which is why getters take names that are `'static`.

use crate::lane::Times;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, cast::AsArray,
};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use std::cell::Cell;
use tidemill_flow::{ErrorKind, OperatorError};
use tidemill_types::Micros;

/// Names that are remembered by place; a program that reads more columns of one record looks some
/// of them up again.
const PLACES: usize = 64;

/// A column, by the type that functions mostly read.
enum RecordColumn<'a> {
    I64(&'a Int64Array),
    F64(&'a Float64Array),
    Str(&'a StringArray),
    Bytes(&'a BinaryArray),
    Other(&'a ArrayRef),
}

/// The columns of a batch.
pub(super) struct RecordColumns<'a> {
    schema: SchemaRef,
    columns: Vec<RecordColumn<'a>>,
    times: Times<'a>,
    /// Address and length of a name, and its column.
    places: [Cell<(usize, usize, usize)>; PLACES],
}

/// One record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    columns: &'a RecordColumns<'a>,
    row: usize,
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("row", &self.row).finish_non_exhaustive()
    }
}

impl<'a> RecordColumns<'a> {
    pub(super) fn new(batch: &'a RecordBatch) -> Self {
        let column = |array: &'a ArrayRef| match array.data_type() {
            DataType::Int64 => RecordColumn::I64(array.as_primitive()),
            DataType::Float64 => RecordColumn::F64(array.as_primitive()),
            DataType::Utf8 => RecordColumn::Str(array.as_string()),
            DataType::Binary => RecordColumn::Bytes(array.as_binary()),
            _ => RecordColumn::Other(array),
        };
        Self {
            schema: batch.schema(),
            columns: batch.columns().iter().map(column).collect(),
            times: Times::of(batch),
            places: [const { Cell::new((0, 0, 0)) }; PLACES],
        }
    }

    pub(super) fn record(&'a self, row: usize) -> Record<'a> {
        Record { columns: self, row }
    }

    #[inline]
    fn find(&self, name: &'static str) -> Result<usize, OperatorError> {
        let (start, length) = (name.as_ptr() as usize, name.len());
        let place = &self.places[(start ^ (start >> 6) ^ length) % PLACES];
        let (known_start, known_length, column) = place.get();
        if (known_start, known_length) == (start, length) && length > 0 {
            return Ok(column);
        }
        let column = self.find_by_name(name)?;
        place.set((start, length, column));
        Ok(column)
    }

    #[cold]
    fn find_by_name(&self, name: &str) -> Result<usize, OperatorError> {
        crate::keys::column(&self.schema, name)
            .map_err(|error| OperatorError::of_kind(ErrorKind::Invalid, error.to_string()))
    }

    #[cold]
    fn misread(&self, column: usize, wanted: &str) -> OperatorError {
        let field = self.schema.field(column);
        let (name, data_type) = (field.name(), field.data_type());
        OperatorError::of_kind(
            ErrorKind::Invalid,
            format!("the column `{name}` of type {data_type} is not {wanted}"),
        )
    }
}

/// Calls `each` with every record of a batch, in order, and collects the results: for programs
/// that read the results of a job.
///
/// # Errors
/// The first error of `each`, such as that of a column that is not there.
pub fn read_records<T>(
    batch: &RecordBatch,
    mut each: impl FnMut(&Record<'_>) -> Result<T, OperatorError>,
) -> Result<Vec<T>, OperatorError> {
    let columns = RecordColumns::new(batch);
    (0..batch.num_rows()).map(|row| each(&columns.record(row))).collect()
}

impl<'a> Record<'a> {
    /// A whole number of any width.
    ///
    /// # Errors
    /// The column does not exist, has another type, or the number is too large.
    #[inline]
    pub fn i64(&self, name: &'static str) -> Result<Option<i64>, OperatorError> {
        let index = self.columns.find(name)?;
        match &self.columns.columns[index] {
            RecordColumn::I64(array) => Ok(array.is_valid(self.row).then(|| array.value(self.row))),
            RecordColumn::Other(array) => self.other_i64(array, index),
            _ => Err(self.columns.misread(index, "a whole number")),
        }
    }

    /// A number: a float or a whole number.
    ///
    /// # Errors
    /// The column does not exist or has another type.
    #[inline]
    pub fn f64(&self, name: &'static str) -> Result<Option<f64>, OperatorError> {
        let index = self.columns.find(name)?;
        match &self.columns.columns[index] {
            RecordColumn::F64(array) => Ok(array.is_valid(self.row).then(|| array.value(self.row))),
            RecordColumn::Other(array) if array.data_type() == &DataType::Float32 => {
                let array = array.as_primitive::<Float32Type>();
                Ok(array.is_valid(self.row).then(|| f64::from(array.value(self.row))))
            }
            _ => {
                let whole = self.i64(name).map_err(|_| self.columns.misread(index, "a number"))?;
                Ok(whole.map(|whole| whole as f64))
            }
        }
    }

    /// Text, in a dictionary or not; bytes that are UTF-8 count.
    ///
    /// # Errors
    /// The column does not exist, has another type, or the bytes are not UTF-8.
    #[inline]
    pub fn str(&self, name: &'static str) -> Result<Option<&'a str>, OperatorError> {
        let index = self.columns.find(name)?;
        match &self.columns.columns[index] {
            RecordColumn::Str(array) => Ok(array.is_valid(self.row).then(|| array.value(self.row))),
            RecordColumn::Other(array) if array.data_type() == &DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Ok(array.is_valid(self.row).then(|| array.value(self.row)))
            }
            RecordColumn::Other(array) if array.data_type() == &DataType::Utf8View => {
                let array = array.as_string_view();
                Ok(array.is_valid(self.row).then(|| array.value(self.row)))
            }
            RecordColumn::Other(array) if matches!(array.data_type(), DataType::Dictionary(..)) => {
                self.of_dictionary(array.as_any_dictionary(), index)
            }
            RecordColumn::Bytes(array) if array.is_null(self.row) => Ok(None),
            RecordColumn::Bytes(array) => {
                std::str::from_utf8(array.value(self.row)).map(Some).map_err(|_| {
                    self.columns.misread(index, "text: it holds bytes that are not UTF-8")
                })
            }
            _ => Err(self.columns.misread(index, "text")),
        }
    }

    /// Bytes; text counts.
    ///
    /// # Errors
    /// The column does not exist or has another type.
    #[inline]
    pub fn bytes(&self, name: &'static str) -> Result<Option<&'a [u8]>, OperatorError> {
        let index = self.columns.find(name)?;
        match &self.columns.columns[index] {
            RecordColumn::Bytes(array) => {
                Ok(array.is_valid(self.row).then(|| array.value(self.row)))
            }
            RecordColumn::Other(array) if array.data_type() == &DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Ok(array.is_valid(self.row).then(|| array.value(self.row)))
            }
            _ => {
                let text = self.str(name).map_err(|_| self.columns.misread(index, "bytes"))?;
                Ok(text.map(str::as_bytes))
            }
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// The column does not exist or has another type.
    pub fn bool(&self, name: &'static str) -> Result<Option<bool>, OperatorError> {
        let index = self.columns.find(name)?;
        match &self.columns.columns[index] {
            RecordColumn::Other(array) if array.data_type() == &DataType::Boolean => {
                let array = array.as_boolean();
                Ok(array.is_valid(self.row).then(|| array.value(self.row)))
            }
            _ => Err(self.columns.misread(index, "a boolean")),
        }
    }

    /// A moment, from a timestamp column of any unit; of a date, the beginning of that day in UTC.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or the moment cannot be told in
    /// microseconds.
    pub fn timestamp(&self, name: &'static str) -> Result<Option<Micros>, OperatorError> {
        let index = self.columns.find(name)?;
        let far = || self.columns.misread(index, "a moment that microseconds can tell");
        let RecordColumn::Other(array) = &self.columns.columns[index] else {
            return Err(self.columns.misread(index, "a moment"));
        };
        macro_rules! value {
            ($kind:ty) => {
                array.as_primitive::<$kind>().value(self.row).into()
            };
        }
        let (value, unit_us): (i64, i64) = match array.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => (value!(TimestampSecondType), 1_000_000),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                (value!(TimestampMillisecondType), 1_000)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => (value!(TimestampMicrosecondType), 1),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let nanos: i64 = value!(TimestampNanosecondType);
                (nanos.div_euclid(1_000), 1)
            }
            DataType::Date32 => (value!(Date32Type), 86_400_000_000),
            DataType::Date64 => (value!(Date64Type), 1_000),
            _ => return Err(self.columns.misread(index, "a moment")),
        };
        if array.is_null(self.row) {
            return Ok(None);
        }
        let micros = value.checked_mul(unit_us).ok_or_else(far)?;
        Ok(Some(Micros(micros)))
    }

    /// The event time of the record, if its source tells times.
    #[inline]
    #[must_use]
    pub fn time(&self) -> Option<Micros> {
        self.columns.times.get(self.row)
    }

    /// The schema of the record.
    #[must_use]
    pub fn schema(&self) -> &'a SchemaRef {
        &self.columns.schema
    }

    /// Text that stands in a dictionary.
    fn of_dictionary(
        &self,
        dictionary: &'a dyn AnyDictionaryArray,
        index: usize,
    ) -> Result<Option<&'a str>, OperatorError> {
        let Some(key) = self.other_i64(dictionary.keys(), index)? else { return Ok(None) };
        let (values, key) = (dictionary.values(), key as usize);
        match (values.as_string_opt::<i32>(), values.as_string_opt::<i64>()) {
            (Some(values), _) => Ok(values.is_valid(key).then(|| values.value(key))),
            (_, Some(values)) => Ok(values.is_valid(key).then(|| values.value(key))),
            _ => Err(self.columns.misread(index, "text")),
        }
    }

    fn other_i64(&self, array: &dyn Array, index: usize) -> Result<Option<i64>, OperatorError> {
        macro_rules! widen {
            ($kind:ty) => {
                array.as_primitive::<$kind>().value(self.row).into()
            };
        }
        if array.is_null(self.row) && array.data_type().is_integer() {
            return Ok(None);
        }
        Ok(Some(match array.data_type() {
            DataType::Int8 => widen!(Int8Type),
            DataType::Int16 => widen!(Int16Type),
            DataType::Int32 => widen!(Int32Type),
            DataType::Int64 => widen!(Int64Type),
            DataType::UInt8 => widen!(UInt8Type),
            DataType::UInt16 => widen!(UInt16Type),
            DataType::UInt32 => widen!(UInt32Type),
            DataType::UInt64 => i64::try_from(array.as_primitive::<UInt64Type>().value(self.row))
                .map_err(|_| {
                self.columns.misread(index, "small enough for 64 bits with sign")
            })?,
            _ => return Err(self.columns.misread(index, "a whole number")),
        }))
    }
}
