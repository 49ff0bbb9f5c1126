//! Columns for the metadata of a record: key, headers, timestamp, offset.

use crate::column_type::moment_type;
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use tidemill_types::{SliceId, job::MetaSpec};

/// Values of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) key: Option<String>,
    /// `None`: the record has no timestamp.
    pub(super) timestamp_us: Option<i64>,
    pub(super) offset: i64,
}

/// Values of the records of a batch, by row.
#[derive(Default)]
pub(super) struct MetaColumns {
    rows: Vec<Meta>,
}

/// The columns that a job names, in this order.
pub(super) fn fields(spec: &MetaSpec) -> Vec<Field> {
    let field = |name: &Option<String>, data_type: DataType| {
        name.as_ref().map(|name| Field::new(name, data_type, true))
    };
    [
        field(&spec.key, DataType::Utf8),
        field(&spec.timestamp, moment_type()),
        field(&spec.streamlet, DataType::Int64),
        field(&spec.offset, DataType::Int64),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl MetaColumns {
    pub(super) fn push(&mut self, meta: Meta) {
        self.rows.push(meta);
    }

    /// Drops rows that turned out bad, by number, in order.
    pub(super) fn drop_rows(&mut self, bad: &[usize]) {
        let mut row = 0;
        self.rows.retain(|_| {
            let keep = bad.binary_search(&row).is_err();
            row += 1;
            keep
        });
    }

    /// Times of the rows, in microseconds.
    pub(super) fn times(&self) -> ArrayRef {
        let times = self.rows.iter().map(|it| it.timestamp_us);
        Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
    }

    /// The columns, as [`fields`] has them; empty afterwards.
    pub(super) fn finish(&mut self, spec: &MetaSpec, slice: SliceId) -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = Vec::new();
        if spec.key.is_some() {
            let keys = self.rows.iter().map(|it| it.key.as_deref());
            arrays.push(Arc::new(StringArray::from_iter(keys)));
        }
        if spec.timestamp.is_some() {
            arrays.push(self.times());
        }
        if spec.streamlet.is_some() {
            let same = std::iter::repeat_n(i64::from(slice.0), self.rows.len());
            arrays.push(Arc::new(Int64Array::from_iter_values(same)));
        }
        if spec.offset.is_some() {
            let offsets = self.rows.iter().map(|it| it.offset);
            arrays.push(Arc::new(Int64Array::from_iter_values(offsets)));
        }
        self.rows.clear();
        arrays
    }
}
