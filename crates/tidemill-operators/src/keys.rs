//! Keys of rows: bytes that are equal where the keys are, and the hash by which rows were routed.
//!
//! Invariant: two rows have equal keys exactly if their bytes are equal. Nulls are equal to nulls
//! here; for SQL's `=` there is [`Keys::has_null`]. `0.0` equals `-0.0`, and NaN equals NaN.

use crate::lane::{PickedRows, failed};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::take::take;
use std::ops::Range;
use tidemill_flow::{Block, OperatorError, TIME_COLUMN, partition::hash_columns};
use tidemill_sql::with_one_zero;
use tidemill_state::{KEYS_AHEAD, KeyTable, SLOTS_AHEAD};
use tidemill_types::signs;

/// A name without a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown column `{name}`{}", signs::hint(name, .nearest.as_deref()))]
pub struct UnknownColumn {
    /// The name.
    pub name: String,
    /// The column whose name is most like it, if any is.
    pub nearest: Option<String>,
}

/// The index of a column.
pub(crate) fn column(schema: &SchemaRef, name: &str) -> Result<usize, UnknownColumn> {
    schema.index_of(name).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name());
        let likeness = |other: &String| strsim::jaro_winkler(name, other);
        let nearest = names
            .filter(|other| *other != TIME_COLUMN && likeness(other) > 0.6)
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
            .cloned();
        UnknownColumn { name: name.to_owned(), nearest }
    })
}

/// The indices of columns.
pub(crate) fn columns(schema: &SchemaRef, names: &[String]) -> Result<Vec<usize>, UnknownColumn> {
    names.iter().map(|name| column(schema, name)).collect()
}

/// Reads keys of some columns.
#[derive(Debug)]
pub(crate) struct KeyCodec {
    columns: Vec<usize>,
    /// The type as which each column is compared.
    types: Vec<DataType>,
    converter: RowConverter,
}

/// The keys of a block, by number in the lane.
#[derive(Debug)]
pub(crate) struct Keys {
    rows: Rows,
    hashes: Vec<u64>,
    nulls: Option<NullBuffer>,
}

impl KeyCodec {
    /// Keys of these columns, compared as these types.
    ///
    /// # Errors
    /// A type cannot be compared.
    pub(crate) fn new(columns: Vec<usize>, types: Vec<DataType>) -> Result<Self, ArrowError> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        Ok(Self { columns, types, converter: RowConverter::new(fields)? })
    }

    /// The keys of the lane's rows of a block.
    pub(crate) fn read(
        &self,
        block: &Block,
        picked: &PickedRows<'_>,
    ) -> Result<Keys, OperatorError> {
        let mut nulls = None;
        let mut columns = Vec::with_capacity(self.columns.len());
        for (index, data_type) in self.columns.iter().zip(&self.types) {
            let column = picked.take(picked.batch.column(*index))?;
            let column = if column.data_type() == data_type {
                column
            } else {
                cast(&column, data_type).map_err(failed)?
            };
            nulls = NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref());
            columns.push(with_one_zero(column));
        }
        let rows = self.converter.convert_columns(&columns).map_err(failed)?;
        Ok(Keys { rows, hashes: self.hashes(block, picked)?, nulls })
    }

    /// The columns of keys that were read as bytes; a key that is none is null.
    ///
    /// # Errors
    /// A key does not decode as it was encoded: an error of the engine.
    pub(crate) fn columns<'a>(
        &self,
        keys: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<Vec<ArrayRef>, OperatorError> {
        let parser = self.converter.parser();
        let (mut found, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            places.push(key.map(|_| found.len() as u64));
            found.extend(key.map(|key| parser.parse(key)));
        }
        let is_whole = found.len() == places.len();
        let columns = self.converter.convert_rows(found).map_err(failed)?;
        let places = UInt64Array::from(places);
        let of_type = |(column, data_type): (ArrayRef, &DataType)| {
            let column = if is_whole { column } else { take(&column, &places, None)? };
            // The values of a dictionary come back as they are.
            if column.data_type() == data_type { Ok(column) } else { cast(&column, data_type) }
        };
        let columns = columns.into_iter().zip(&self.types).map(of_type);
        columns.collect::<Result<_, ArrowError>>().map_err(failed)
    }

    fn hashes(&self, block: &Block, picked: &PickedRows<'_>) -> Result<Vec<u64>, OperatorError> {
        let computed;
        let routed = block.routing.as_ref().map_or(&[][..], |routing| &routing.hashes);
        let all = if routed.is_empty() {
            computed = self.computed(&picked.batch)?;
            &computed
        } else {
            routed
        };
        Ok((0..picked.len()).map(|number| all[picked.row(number)]).collect())
    }

    fn computed(&self, batch: &RecordBatch) -> Result<Vec<u64>, OperatorError> {
        hash_columns(batch, &self.columns).map_err(|error| OperatorError::new(error.to_string()))
    }
}

impl Keys {
    /// The key of a row, as bytes.
    #[inline]
    pub(crate) fn bytes(&self, number: usize) -> &[u8] {
        self.rows.row(number).data()
    }

    /// The hash of a row's key.
    #[inline]
    pub(crate) fn hash(&self, number: usize) -> u64 {
        self.hashes[number]
    }

    /// Prefetches the slots of the first of these keys.
    pub(crate) fn look_ahead(&self, table: &KeyTable, numbers: Range<usize>) {
        let first = &self.hashes[numbers];
        first.iter().take(SLOTS_AHEAD).for_each(|hash| table.prefetch(*hash));
    }

    /// Prefetches the slots of the keys after this one and before `end`.
    #[inline]
    pub(crate) fn look_further(&self, table: &KeyTable, number: usize, end: usize) {
        if number + SLOTS_AHEAD < end {
            table.prefetch(self.hashes[number + SLOTS_AHEAD]);
        }
        if number + KEYS_AHEAD < end {
            let soon = number + KEYS_AHEAD;
            table.prefetch_long(self.bytes(soon), self.hashes[soon]);
        }
    }

    /// Returns true if a column of a row's key is null.
    #[inline]
    pub(crate) fn has_null(&self, number: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(number))
    }
}

#[cfg(test)]
mod tests;
