//! Small batches of a source, put together before they are routed.
//!
//! A live source may return a few rows at each read. Each batch would be routed by itself, and
//! scanned for every slice of every stage behind it.
//!
//! Invariant: rows keep their order, and leave in the cycle in which they came.

use crate::block::Payload;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;

/// A batch with fewer rows is put together with others.
const SMALL_ROWS: usize = 256;
/// Merged rows are sent from this number on.
const TOGETHER_ROWS: usize = 1_024;

/// Batches that wait for others of their cycle.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Coalescer {
    /// Takes a payload; returns the payloads to send now, in order.
    ///
    /// # Errors
    /// Batches of one source have different columns.
    pub(crate) fn take(
        &mut self,
        payload: Payload,
    ) -> Result<impl Iterator<Item = Payload>, ArrowError> {
        let given = match payload {
            Payload::Arrow(batch) if batch.num_rows() < SMALL_ROWS => {
                self.rows += batch.num_rows();
                self.batches.push(batch);
                if self.rows >= TOGETHER_ROWS { [self.rest()?, None] } else { [None, None] }
            }
            other => [self.rest()?, Some(other)],
        };
        Ok(given.into_iter().flatten())
    }

    /// Takes the remaining rows at the end of a cycle.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn rest(&mut self) -> Result<Option<Payload>, ArrowError> {
        self.rows = 0;
        let all = match self.batches.as_slice() {
            [] => return Ok(None),
            [one] => one.clone(),
            all @ [first, ..] => concat_batches(first.schema_ref(), all)?,
        };
        self.batches.clear();
        Ok(Some(Payload::Arrow(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(from: i64, rows: usize) -> Payload {
        let column = Int64Array::from_iter_values(from..from + rows as i64);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(column) as _)]);
        Payload::Arrow(batch.expect("one column"))
    }

    proptest! {
        #[test]
        fn rows_keep_their_order_and_none_is_left(
            sizes in prop::collection::vec(
                prop_oneof![8 => 0_usize..40, 1 => 200_usize..300, 1 => 900_usize..1_100], 0..200
            ),
        ) {
            let (mut small, mut given, mut next) = (Coalescer::default(), Vec::new(), 0_i64);
            for rows in &sizes {
                given.extend(small.take(batch(next, *rows)).unwrap());
                next += *rows as i64;
            }
            given.extend(small.rest().unwrap());
            prop_assert!(small.rest().unwrap().is_none());
            let mut found = Vec::new();
            for payload in &given {
                let Payload::Arrow(batch) = payload else { panic!("columns") };
                found.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            }
            prop_assert_eq!(found, (0..next).collect::<Vec<_>>());
            // Two small ones never follow each other but at the bound.
            let long = sizes.iter().filter(|rows| **rows >= SMALL_ROWS).count();
            prop_assert!(given.len() <= 2 * long + next as usize / TOGETHER_ROWS + 1);
        }
    }

    #[test]
    fn other_columns_are_an_error() {
        let mut small = Coalescer::default();
        let text = arrow_array::StringArray::from(vec!["a"]);
        let other = RecordBatch::try_from_iter([("n", Arc::new(text) as _)]).unwrap();
        assert_eq!(small.take(batch(0, 1)).unwrap().count(), 0);
        assert_eq!(small.take(Payload::Arrow(other)).unwrap().count(), 0);
        assert!(small.rest().is_err());
    }
}
