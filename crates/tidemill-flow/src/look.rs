//! States as tables, for people who look at them.
//!
//! ```text
//! operator ── tables: names, columns ─┐
//! state of a slice, restored ─────────┴▶ rows, batch by batch ─▶ + __slice ─▶ who looks
//! ```
//!
//! An operator says as which tables its states can be looked at, and gives their rows. Slices are
//! looked at one after another, so that memory holds one of them at a time.
//!
//! Invariant: looking changes nothing, and the same state shows the same rows in the same order.

use crate::operator::{OperatorError, OperatorFactory};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{any::Any, ops::ControlFlow, sync::Arc};
use tidemill_state::{CheckpointError, Checkpoints, Manifest, RunsOf, State, structure};
use tidemill_types::{Cycle, Micros, SliceId};

/// The column of every table that says of which slice a row is.
pub const SLICE_COLUMN: &str = "__slice";

/// The name of an operator's table, if it has but one.
pub const STATE_TABLE: &str = "state";

/// A table as which a state can be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
}

impl StateTable {
    /// An operator's only table.
    #[must_use]
    pub fn only(schema: SchemaRef) -> Self {
        Self { name: STATE_TABLE.to_owned(), schema }
    }
}

/// The state of a slice between two cycles.
pub struct StateAt<'a> {
    /// The state.
    pub state: &'a mut dyn State,
    /// How far event time was at the end of the last cycle.
    pub watermark: Micros,
}

impl<'a> StateAt<'a> {
    /// The state as what its factory made.
    ///
    /// # Panics
    /// Panics if the state is of another type: an error of the operator's programmer.
    #[must_use]
    pub fn of<T: 'static>(self) -> &'a mut T {
        let state: &mut dyn Any = self.state;
        state.downcast_mut().expect("the type that the factory made")
    }
}

/// Takes rows of a table; says whether more are wanted.
pub type TakeRows<'a> = dyn FnMut(RecordBatch) -> ControlFlow<()> + 'a;

/// Why a state cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such stage; those that have a state to look at.
    #[error("there is no stage `{name}` with a state; {}", listed(.known))]
    Stage {
        /// What was asked for.
        name: String,
        /// The stages that have one.
        known: Vec<String>,
    },
    /// The checkpoint holds a state of another operator.
    #[error("the stage `{0}` does something else now than when checkpoint {1} was made")]
    Changed(String, u64),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A state cannot be shown.
    #[error("slice {slice}: {message}")]
    Slice {
        /// The slice.
        slice: SliceId,
        /// What is wrong.
        message: String,
    },
}

fn listed(known: &[String]) -> String {
    let all: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
    match all.as_slice() {
        [] => "none has".to_owned(),
        _ => format!("there are {}", all.join(", ")),
    }
}

/// The tables of a stage, each with the column of slices.
#[must_use]
pub fn tables_of(factory: &dyn OperatorFactory) -> Vec<StateTable> {
    let with_slice = |table: StateTable| StateTable { schema: with_slice(&table.schema), ..table };
    factory.tables().into_iter().map(with_slice).collect()
}

fn with_slice(schema: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(SLICE_COLUMN, DataType::UInt32, false)));
    Arc::new(Schema::new(fields))
}

/// Adds the column of slices.
fn of_slice(batch: &RecordBatch, slice: SliceId) -> Result<RecordBatch, OperatorError> {
    let rows = batch.num_rows();
    let mut columns = batch.columns().to_vec();
    let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![slice.0; rows]));
    columns.push(numbers);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(with_slice(&batch.schema()), columns, &options)
        .map_err(|error| OperatorError::new(error.to_string()))
}

/// The rows of one slice in a table, with the column of slices.
fn rows_of(
    factory: &dyn OperatorFactory,
    table: usize,
    (slice, at): (SliceId, StateAt<'_>),
    take: &mut TakeRows<'_>,
) -> Result<ControlFlow<()>, LookError> {
    let (mut wants, mut failed) = (ControlFlow::Continue(()), None);
    let given = factory.rows(table, at, &mut |batch| {
        wants = match of_slice(&batch, slice) {
            Ok(batch) => take(batch),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        wants
    });
    match given.err().or(failed) {
        Some(error) => Err(LookError::Slice { slice, message: error.message }),
        None => Ok(wants),
    }
}

/// The state of a stage as of the end of a cycle.
pub struct StageLook {
    /// The stage.
    pub stage: String,
    /// The cycle.
    pub cycle: Cycle,
    /// The recorded time of that cycle.
    pub time: Micros,
    /// The checkpoint that it is read from.
    pub checkpoint: u64,
    factory: Arc<dyn OperatorFactory>,
    watermark: Micros,
    /// By slice.
    runs: Vec<RunsOf>,
}

impl std::fmt::Debug for StageLook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stage, cycle, checkpoint, .. } = self;
        write!(f, "StageLook({stage}, cycle {cycle}, checkpoint {checkpoint})")
    }
}

impl StageLook {
    /// The state of a stage as a checkpoint has it. `stages` are those of the job, by name.
    ///
    /// # Errors
    /// There is no such stage, it has no state to look at, or it does something else now.
    pub fn of_checkpoint(
        stages: &[(String, Arc<dyn OperatorFactory>)],
        stage: &str,
        (checkpoints, manifest): (&Checkpoints, &Manifest),
    ) -> Result<Self, LookError> {
        let factory = find(stages, stage)?;
        let saved = manifest.stages.iter().find(|it| it.name == stage);
        if saved.is_some_and(|it| it.does != factory.does()) {
            return Err(LookError::Changed(stage.to_owned(), manifest.number));
        }
        let runs = saved.map_or(&[][..], |it| &it.slices).iter();
        Ok(Self {
            stage: stage.to_owned(),
            cycle: manifest.cycle,
            time: manifest.time,
            checkpoint: manifest.number,
            watermark: saved.map_or(Micros::MIN, |it| it.watermark),
            runs: runs.map(|runs| checkpoints.named(runs)).collect(),
            factory,
        })
    }

    /// The tables as which it can be looked at.
    #[must_use]
    pub fn tables(&self) -> Vec<StateTable> {
        tables_of(&*self.factory)
    }

    /// Gives the rows of a table, by slice; a slice is read when the ones before were taken.
    ///
    /// # Errors
    /// A slice cannot be read.
    pub fn rows(&self, table: usize, take: &mut TakeRows<'_>) -> Result<(), LookError> {
        for (slice, runs) in (0..).map(SliceId).zip(&self.runs) {
            let failed = |message: String| LookError::Slice { slice, message };
            let mut state = self.factory.state(slice);
            structure::restore(&mut *state, runs.read()?).map_err(|error| failed(error.0))?;
            let at = StateAt { state: &mut *state, watermark: self.watermark };
            if rows_of(&*self.factory, table, (slice, at), take)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The operator of a stage that has a state to look at.
fn find(
    stages: &[(String, Arc<dyn OperatorFactory>)],
    stage: &str,
) -> Result<Arc<dyn OperatorFactory>, LookError> {
    let shown = || stages.iter().filter(|(_, factory)| !factory.tables().is_empty());
    let found = shown().find(|(name, _)| name == stage).map(|(_, factory)| Arc::clone(factory));
    found.ok_or_else(|| LookError::Stage {
        name: stage.to_owned(),
        known: shown().map(|(name, _)| name.clone()).collect(),
    })
}
