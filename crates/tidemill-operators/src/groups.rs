//! Keys to group numbers: the hash table of one slice, and the keys of its groups.
//!
//! ```text
//! row ── key, hash ──▶ table ──▶ group 0, 1, 2 … in order of first appearance
//! ```
//!
//! Groups are numbered by first appearance, and read in that order: hash order never shows. The
//! hash is the one that routed the row; it is turned by half before it is used, because all rows
//! of a slice share its top bits. Nulls are one key, as SQL groups them.

use crate::transform::arrow_error;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, RecordBatch,
    builder::{BinaryBuilder, Int64Builder},
    cast::AsArray,
    types::UInt64Type,
};
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, FieldRef, SchemaRef};
use std::{ops::Range, sync::Arc};
use tidemill_flow::{
    Block, OperatorError,
    partition::{hash_bytes, hash_columns, hash_number},
};
use tidemill_sql::with_one_zero;
use tidemill_state::{KEYS_AHEAD, KeyTable, SLOTS_AHEAD, prefetch};

use crate::aggregate::ArgColumn;

mod checkpoint;
mod int_table;
#[cfg(test)]
mod tests;

pub(crate) use checkpoint::with_room;
use int_table::IntTable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    /// No key: one group.
    Unit,
    /// One column that fits 64 bits.
    Int,
    /// One column of text.
    Text,
    /// Anything else, as comparable bytes.
    Rows,
}

/// The columns of a key, and their encoding.
#[derive(Debug)]
pub(crate) struct KeyPlan {
    pub(crate) columns: Vec<usize>,
    pub(crate) fields: Vec<FieldRef>,
    form: KeyForm,
    converter: Option<RowConverter>,
}

/// The keys of one block, by row.
#[derive(Debug)]
pub(crate) enum BlockKeys {
    Unit,
    Int(Int64Array),
    Text(BinaryArray),
    Rows(Rows),
}

fn is_int(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean | DataType::Date64 | DataType::Date32 | DataType::Timestamp(_, _)
        )
}

impl KeyPlan {
    /// A key of these columns.
    ///
    /// # Errors
    /// A column cannot be compared.
    pub(crate) fn new(input: &SchemaRef, columns: Vec<usize>) -> Result<Self, OperatorError> {
        let fields: Vec<FieldRef> =
            columns.iter().map(|index| Arc::clone(&input.fields()[*index])).collect();
        let form = match fields.as_slice() {
            [] => KeyForm::Unit,
            [one] if is_int(one.data_type()) => KeyForm::Int,
            [one] if *one.data_type() == DataType::Utf8 => KeyForm::Text,
            _ => KeyForm::Rows,
        };
        let converter = match form {
            KeyForm::Rows => {
                let sort = fields.iter().map(|it| SortField::new(it.data_type().clone()));
                Some(RowConverter::new(sort.collect()).map_err(arrow_error)?)
            }
            _ => None,
        };
        Ok(Self { columns, fields, form, converter })
    }

    /// Reads the keys of a block.
    ///
    /// # Errors
    /// A column is not of the type it was compiled for.
    pub(crate) fn read(&self, batch: &RecordBatch) -> Result<BlockKeys, OperatorError> {
        let first = || batch.column(self.columns[0]);
        Ok(match self.form {
            KeyForm::Unit => BlockKeys::Unit,
            // By their bits: the largest are beyond the signed ones.
            KeyForm::Int if *first().data_type() == DataType::UInt64 => {
                BlockKeys::Int(first().as_primitive::<UInt64Type>().unary(u64::cast_signed))
            }
            KeyForm::Int => match ArgColumn::new(first(), crate::aggregate::NumberKind::Int)? {
                ArgColumn::Int(ints) => BlockKeys::Int(ints),
                _ => unreachable!("held as integers"),
            },
            KeyForm::Text => BlockKeys::Text(BinaryArray::from(first().as_string::<i32>().clone())),
            KeyForm::Rows => {
                let columns: Vec<ArrayRef> = self
                    .columns
                    .iter()
                    .map(|it| with_one_zero(Arc::clone(batch.column(*it))))
                    .collect();
                let converter = self.converter.as_ref().expect("made for this form");
                BlockKeys::Rows(converter.convert_columns(&columns).map_err(arrow_error)?)
            }
        })
    }

    /// The hashes of a block's rows, by row: those it was routed by, or new ones.
    ///
    /// # Errors
    /// A column cannot be a key.
    pub(crate) fn hashes(&self, block: &Block) -> Result<Option<Vec<u64>>, OperatorError> {
        let routed = block.routing.as_ref().is_some_and(|it| !it.hashes.is_empty());
        if routed || self.form == KeyForm::Unit {
            return Ok(None);
        }
        let hashes = hash_columns(&block.batch(), &self.columns);
        hashes.map(Some).map_err(|error| OperatorError::new(error.to_string()))
    }
}

/// The groups of one slice (in one window).
#[derive(Debug)]
pub(crate) struct Groups {
    form: KeyForm,
    ints: IntTable,
    /// Keys by group.
    int_keys: Vec<i64>,
    /// Keys that are bytes, by group.
    bytes: KeyTable,
    /// The group whose key is null, for forms with one column.
    null: Option<u32>,
    /// Groups of all forms but those whose keys are bytes, which number them.
    count: u32,
}

impl Groups {
    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.ints.memory() + self.bytes.memory() + self.int_keys.capacity() * size_of::<i64>()
    }

    pub(crate) fn new(plan: &KeyPlan) -> Self {
        Self {
            form: plan.form,
            ints: IntTable::new(),
            int_keys: Vec::new(),
            bytes: KeyTable::new(),
            null: None,
            count: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.form {
            KeyForm::Unit | KeyForm::Int => self.count as usize,
            KeyForm::Text | KeyForm::Rows => self.bytes.len(),
        }
    }

    /// Removes all groups; keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.ints.clear();
        self.int_keys.clear();
        self.bytes.clear();
        (self.null, self.count) = (None, 0);
    }

    fn null_group(&mut self) -> u32 {
        match self.null {
            Some(group) => group,
            None => {
                let group = match self.form {
                    KeyForm::Unit | KeyForm::Int => {
                        self.int_keys.push(0);
                        self.count += 1;
                        self.count - 1
                    }
                    KeyForm::Text | KeyForm::Rows => self.bytes.push(&[], 0),
                };
                self.null = Some(group);
                group
            }
        }
    }

    #[inline]
    fn int_group(&mut self, key: i64, hash: u64) -> u32 {
        let Self { ints, int_keys, count, .. } = self;
        // All rows of a slice share the top bits; the table looks at the others.
        let group = ints.get_or_insert((key, hash), *count, |held| hash_number(held as u64));
        if group == *count {
            int_keys.push(key);
            *count += 1;
        }
        group
    }

    /// The group of one row.
    #[inline]
    pub(crate) fn group(&mut self, keys: &BlockKeys, hashes: &[u64], row: usize) -> u32 {
        match keys {
            BlockKeys::Unit => {
                self.count = 1;
                0
            }
            BlockKeys::Int(ints) if ints.is_null(row) => self.null_group(),
            BlockKeys::Int(ints) => self.int_group(ints.value(row), hashes[row]),
            BlockKeys::Text(text) if text.is_null(row) => self.null_group(),
            BlockKeys::Text(text) => self.bytes.find_or_add(text.value(row), hashes[row]),
            BlockKeys::Rows(rows) => self.bytes.find_or_add(rows.row(row).data(), hashes[row]),
        }
    }

    /// The group of one row, if there is one.
    pub(crate) fn find(&self, keys: &BlockKeys, hashes: &[u64], row: usize) -> Option<u32> {
        match keys {
            BlockKeys::Unit => (self.count > 0).then_some(0),
            BlockKeys::Int(ints) if ints.is_null(row) => self.null,
            BlockKeys::Int(ints) => self.ints.get(ints.value(row), hashes[row]),
            BlockKeys::Text(text) if text.is_null(row) => self.null,
            BlockKeys::Text(text) => self.bytes.find(text.value(row), hashes[row]),
            BlockKeys::Rows(rows) => self.bytes.find(rows.row(row).data(), hashes[row]),
        }
    }

    /// Prefetches the slot of a hash.
    #[inline]
    fn prefetch_slot(&self, hash: u64) {
        match self.form {
            KeyForm::Unit => {}
            KeyForm::Int => self.ints.prefetch(hash),
            KeyForm::Text | KeyForm::Rows => self.bytes.prefetch(hash),
        }
    }

    /// Prefetches the slots of the first of these rows.
    pub(crate) fn look_ahead(&self, hashes: &[u64], rows: &[u32]) {
        if self.form != KeyForm::Unit {
            rows.iter().take(SLOTS_AHEAD).for_each(|row| self.prefetch_slot(hashes[*row as usize]));
        }
    }

    /// The groups of `some` of these rows, in order. [`Self::look_ahead`] came before the first, and each
    /// group is told to `found` at once, while others are still looked up.
    pub(crate) fn resolve(
        &mut self,
        (keys, hashes): (&BlockKeys, &[u64]),
        (rows, some): (&[u32], Range<usize>),
        groups: &mut Vec<u32>,
        found: impl Fn(u32),
    ) {
        groups.clear();
        groups.reserve(some.len());
        let mut told = |group| {
            found(group);
            groups.push(group);
        };
        match keys {
            BlockKeys::Unit => {
                self.count = 1;
                some.for_each(|_| told(0));
            }
            BlockKeys::Int(ints) if ints.null_count() == 0 => {
                let values = ints.values();
                for at in some {
                    self.look_up_ahead(hashes, rows, at);
                    let row = rows[at] as usize;
                    told(self.int_group(values[row], hashes[row]));
                }
            }
            BlockKeys::Int(_) => {
                for row in &rows[some] {
                    told(self.group(keys, hashes, *row as usize));
                }
            }
            BlockKeys::Text(text) if text.null_count() == 0 => {
                self.resolve_bytes(|row| Some(text.value(row)), (hashes, rows, some), told);
            }
            BlockKeys::Text(text) => {
                let key = |row| text.is_valid(row).then(|| text.value(row));
                self.resolve_bytes(key, (hashes, rows, some), told);
            }
            BlockKeys::Rows(all) => {
                self.resolve_bytes(|row| Some(all.row(row).data()), (hashes, rows, some), told);
            }
        }
    }

    /// The groups of `some` of these rows, by the bytes of their keys.
    #[inline]
    fn resolve_bytes<'a>(
        &mut self,
        key: impl Fn(usize) -> Option<&'a [u8]>,
        (hashes, rows, some): (&[u64], &[u32], Range<usize>),
        mut told: impl FnMut(u32),
    ) {
        for at in some {
            if let Some(row) = self.look_up_ahead(hashes, rows, at) {
                prefetch(key(row).unwrap_or(&[]), 0);
            }
            if let Some(next) = rows.get(at + KEYS_AHEAD)
                && let Some(key) = key(*next as usize)
            {
                self.bytes.prefetch_long(key, hashes[*next as usize]);
            }
            let row = rows[at] as usize;
            told(match key(row) {
                Some(key) => self.bytes.find_or_add(key, hashes[row]),
                None => self.null_group(),
            });
        }
    }

    /// Prefetches the slot of a later row, and the hash of one later still. Returns the former.
    #[inline]
    fn look_up_ahead(&self, hashes: &[u64], rows: &[u32], at: usize) -> Option<usize> {
        if let Some(later) = rows.get(at + 2 * SLOTS_AHEAD) {
            prefetch(hashes, *later as usize);
        }
        let row = *rows.get(at + SLOTS_AHEAD)? as usize;
        self.prefetch_slot(hashes[row]);
        Some(row)
    }

    /// Asks for the key of a group.
    #[inline]
    pub(crate) fn prefetch(&self, group: usize) {
        match self.form {
            KeyForm::Unit => {}
            KeyForm::Int => prefetch(&self.int_keys, group),
            KeyForm::Text | KeyForm::Rows => self.bytes.prefetch_number(group),
        }
    }

    /// The group with the key of group `group` of `other`, which takes the place of this: rows are
    /// looked up by the hashes that they were in `other`.
    pub(crate) fn moved(&mut self, other: &Self, group: usize) -> u32 {
        match self.form {
            KeyForm::Text | KeyForm::Rows if other.null != Some(group as u32) => {
                self.bytes.find_or_add(other.bytes.key(group), other.bytes.hash(group))
            }
            _ => self.group_of(other, group),
        }
    }

    /// The group with the key of group `group` of `other`.
    pub(crate) fn group_of(&mut self, other: &Self, group: usize) -> u32 {
        if other.null == Some(group as u32) {
            return self.null_group();
        }
        match self.form {
            KeyForm::Unit => {
                self.count = 1;
                0
            }
            KeyForm::Int => {
                let key = other.int_keys[group];
                self.int_group(key, hash_number(key as u64))
            }
            KeyForm::Text | KeyForm::Rows => {
                // Any stable hash will do inside one table; all of its entries come this way.
                let key = other.bytes.key(group);
                self.bytes.find_or_add(key, hash_bytes(key))
            }
        }
    }

    /// Writes the keys of all groups, in their order.
    pub(crate) fn write_all(&self, out: &mut KeyOut) {
        match (out, self.null) {
            (KeyOut::Int(to), None) => to.append_slice(&self.int_keys),
            (out, _) => self.write(0..self.len(), out),
        }
    }

    /// Writes the keys of these groups, in this order.
    pub(crate) fn write(&self, groups: impl Iterator<Item = usize>, out: &mut KeyOut) {
        for group in groups {
            let is_null = self.null == Some(group as u32);
            match out {
                KeyOut::Unit => {}
                KeyOut::Int(to) => to.append_option((!is_null).then(|| self.int_keys[group])),
                KeyOut::Text(to) | KeyOut::Rows(to) => {
                    to.append_option((!is_null).then(|| self.bytes.key(group)));
                }
            }
        }
    }
}

/// Keys on their way out.
#[derive(Debug)]
pub(crate) enum KeyOut {
    Unit,
    Int(Int64Builder),
    Text(BinaryBuilder),
    Rows(BinaryBuilder),
}

impl KeyOut {
    pub(crate) fn new(plan: &KeyPlan) -> Self {
        match plan.form {
            KeyForm::Unit => Self::Unit,
            KeyForm::Int => Self::Int(Int64Builder::new()),
            KeyForm::Text => Self::Text(BinaryBuilder::new()),
            KeyForm::Rows => Self::Rows(BinaryBuilder::new()),
        }
    }

    /// The key columns of all groups written.
    ///
    /// # Errors
    /// A key does not decode as it was encoded: an error of the engine.
    pub(crate) fn finish(&mut self, plan: &KeyPlan) -> Result<Vec<ArrayRef>, OperatorError> {
        match self {
            Self::Unit => Ok(Vec::new()),
            Self::Int(it) => Ok(vec![match plan.fields[0].data_type() {
                DataType::UInt64 => {
                    Arc::new(it.finish().unary::<_, UInt64Type>(i64::cast_unsigned))
                }
                data_type => crate::aggregate::from_ints(it.finish(), data_type)?,
            }]),
            Self::Text(it) => {
                let bytes: ArrayRef = Arc::new(it.finish());
                Ok(vec![cast(&bytes, &DataType::Utf8).map_err(arrow_error)?])
            }
            Self::Rows(it) => {
                let converter = plan.converter.as_ref().expect("made for this form");
                let parser = converter.parser();
                let bytes = it.finish();
                let rows = bytes.iter().flatten().map(|row| parser.parse(row));
                let columns = converter.convert_rows(rows).map_err(arrow_error)?;
                let of_field = |(column, field): (ArrayRef, &FieldRef)| {
                    match column.data_type() == field.data_type() {
                        true => Ok(column),
                        // The values of a dictionary come back as they are.
                        false => cast(&column, field.data_type()),
                    }
                };
                let columns = columns.into_iter().zip(&plan.fields).map(of_field);
                columns.collect::<Result<_, _>>().map_err(arrow_error)
            }
        }
    }
}
