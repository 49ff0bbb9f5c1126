//! A source slice whose records are checked against the schema of its factory. Downstream stages
//! were planned for exactly those columns.

use crate::block::{Payload, rows_schema};
use crate::error::ErrorKind;
use crate::operator::DeadLetter;
use crate::source::{Position, Read, ReadRequest, Source, SourceError, SourceWaker};
use arrow_schema::{Field, Schema, SchemaRef};
use std::sync::Arc;
use tidemill_types::Micros;

/// A source slice, and the schema of its records.
pub(crate) struct CheckedSource {
    source: Box<dyn Source>,
    schema: SchemaRef,
}

impl CheckedSource {
    pub(crate) fn new(source: Box<dyn Source>, schema: SchemaRef) -> Self {
        Self { source, schema }
    }

    /// Reads some records.
    ///
    /// # Errors
    /// The source's, or its records have other columns.
    pub(crate) fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let read = self.source.read(request, letters)?;
        match &read {
            Read::Rows { payload: Payload::Arrow(batch), .. } if batch.num_rows() > 0 => {
                fits(&self.schema, batch.schema_ref())?;
            }
            Read::Rows { payload: Payload::Rows(rows), .. } if !rows.is_empty() => {
                fits(&self.schema, &rows_schema())?;
            }
            Read::Rows { .. } | Read::Idle { .. } | Read::End => {}
        }
        Ok(read)
    }

    pub(crate) fn position(&self) -> Position {
        self.source.position()
    }

    pub(crate) fn watermark(&self) -> Micros {
        self.source.watermark()
    }

    pub(crate) fn wake_by(&mut self, waker: SourceWaker) {
        self.source.wake_by(waker);
    }
}

/// Checks that records have the declared columns, by name and type.
fn fits(said: &SchemaRef, given: &SchemaRef) -> Result<(), SourceError> {
    if Arc::ptr_eq(said, given) {
        return Ok(());
    }
    let differs = |(said, given): &(&Arc<Field>, &Arc<Field>)| {
        !Arc::ptr_eq(said, given)
            && (said.name() != given.name() || !said.data_type().equals_datatype(given.data_type()))
    };
    let is_as_said = said.fields().len() == given.fields().len()
        && !said.fields().iter().zip(given.fields()).any(|pair| differs(&pair));
    if is_as_said {
        return Ok(());
    }
    let (said, given) = (columns(said), columns(given));
    let message = format!("it gave records with {given}, where its schema says {said}");
    Err(SourceError::of_kind(ErrorKind::Invalid, message))
}

fn columns(schema: &Schema) -> String {
    let column = |it: &Arc<Field>| format!("`{}` of type {}", it.name(), it.data_type());
    match schema.fields().is_empty() {
        true => "no column".to_owned(),
        false => schema.fields().iter().map(column).collect::<Vec<_>>().join(", "),
    }
}
