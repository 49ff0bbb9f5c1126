//! Snapshots of states as tables, for people.
//!
//! ```text
//! operator ── tables: names, columns ─┐
//! state of a slice, restored ─────────┴▶ rows, batch by batch ─▶ + __slice ─▶ reader
//! ```
//!
//! An operator names the tables that show its state, and gives their rows. Slices are read one
//! after another, so that memory holds one of them at a time.
//!
//! Invariant: a snapshot changes nothing, and the same state shows the same rows in the same order.

use crate::error::AskError;
use crate::operator::{MEMBERS_SEPARATOR, OperatorError, OperatorFactory};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{
    any::Any,
    ops::{ControlFlow, Range},
    sync::Arc,
};
use tidemill_checkpoints::{CheckpointError, PinnedCheckpoint, SliceRuns};
use tidemill_state::{State, structure};
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceId, signs};

/// The column of every table with the slice of a row.
pub const SLICE_COLUMN: &str = "__slice";

/// The name of an operator's only table.
pub const STATE_TABLE: &str = "state";

/// A table that shows a state.
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
    /// The watermark at the end of the last cycle.
    pub watermark: Micros,
}

impl<'a> StateAt<'a> {
    /// The state, as the type that its factory made.
    ///
    /// # Panics
    /// Panics if the state is of another type: an error of the operator's programmer.
    #[must_use]
    pub fn of<T: 'static>(self) -> &'a mut T {
        let state: &mut dyn Any = self.state;
        state.downcast_mut().expect("the type that the factory made")
    }
}

/// Takes rows of a table, and breaks when no more are wanted.
pub type TakeRows<'a> = dyn FnMut(RecordBatch) -> ControlFlow<()> + 'a;

/// An error of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no such stage.
    #[error("there is no stage `{name}`{} with a state; {}", signs::note(name, None), listed(.known))]
    Stage {
        /// The name in the request.
        name: String,
        /// The stages that have a state to show.
        known: Vec<String>,
    },
    /// The checkpoint holds a state of another operator.
    #[error("the stage `{0}` does something else now than when checkpoint {1} was made")]
    Changed(String, CheckpointNumber),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The job makes no checkpoints, or ended before the snapshot was complete.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The stage has ended, and its state is gone.
    #[error(
        "`{0}` has ended, as all that it reads has, and its state is gone: look at a checkpoint, \
         which a job has that says `checkpoint: {{every: 10s}}`"
    )]
    Ended(String),
    /// The lanes did not reach the cycle in time.
    #[error(
        "`{0}` did not come to the end of cycle {1} within ten seconds; try again, or look at a checkpoint"
    )]
    Late(String, Cycle),
    /// The state is too large to be copied while the job runs.
    #[error(
        "the state is larger than {0} MiB, which is too much for a look at a running job: look at a checkpoint"
    )]
    Large(usize),
    /// A state cannot be shown.
    #[error("slice {slice}: {message}")]
    Slice {
        /// The slice.
        slice: SliceId,
        /// The fault, for a person.
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

/// A stage as the job file names it, with the tables of its state. One stage of the graph may run
/// several of them ([`OperatorFactory::members`]).
#[derive(Clone)]
pub struct QueryableStage {
    /// The name in the job file.
    pub name: String,
    /// The name of the stage of the graph that runs it.
    pub stage: String,
    /// The operator of that stage.
    pub factory: Arc<dyn OperatorFactory>,
    /// Its part of the operator's tables.
    tables: Range<usize>,
}

/// The queryable stages of a job.
pub type QueryableStages = Vec<QueryableStage>;

impl QueryableStage {
    /// The queryable stages that a stage of the graph runs.
    #[must_use]
    pub fn of(stage: &str, factory: &Arc<dyn OperatorFactory>) -> Vec<Self> {
        let members = factory.members();
        let member = |(name, tables)| Self {
            name,
            stage: stage.to_owned(),
            factory: Arc::clone(factory),
            tables,
        };
        match members.is_empty() {
            true => vec![member((stage.to_owned(), 0..factory.tables().len()))],
            false => (0..).zip(members).map(|(nth, name)| member((name, nth..nth + 1))).collect(),
        }
    }

    /// The tables that show its state, each with the column of slices.
    #[must_use]
    pub fn tables(&self) -> Vec<StateTable> {
        let with_slice =
            |table: StateTable| StateTable { schema: with_slice(&table.schema), ..table };
        let mut all = self.factory.tables();
        all.drain(self.tables.clone()).map(with_slice).collect()
    }

    /// The operator's number of a table.
    pub(crate) fn table(&self, nth: usize) -> usize {
        self.tables.start + nth
    }
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
pub(crate) fn rows_of(
    factory: &dyn OperatorFactory,
    table: usize,
    (slice, at): (SliceId, StateAt<'_>),
    take: &mut TakeRows<'_>,
) -> Result<ControlFlow<()>, SnapshotError> {
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
        Some(error) => Err(SnapshotError::Slice { slice, message: error.message }),
        None => Ok(wants),
    }
}

/// The state of a slice.
pub(crate) enum SliceSnapshot {
    /// The rows of the table.
    Rows(Vec<RecordBatch>),
    /// The runs of a checkpoint that have it, and the watermark.
    Saved(SliceRuns, Micros),
}

/// The state of a stage as of the end of a cycle.
pub struct StageSnapshot {
    /// The stage.
    pub stage: String,
    /// The cycle.
    pub cycle: Cycle,
    /// The recorded time of that cycle, where it is known.
    pub time: Option<Micros>,
    /// The checkpoint that it is read from; none if the job runs.
    pub checkpoint: Option<CheckpointNumber>,
    of: QueryableStage,
    /// By slice.
    slices: Vec<SliceSnapshot>,
    /// Keeps the checkpoint until the snapshot is dropped.
    _pinned: Option<PinnedCheckpoint>,
}

impl std::fmt::Debug for StageSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stage, cycle, checkpoint, .. } = self;
        write!(f, "StageSnapshot({stage}, cycle {cycle}, checkpoint {checkpoint:?})")
    }
}

impl StageSnapshot {
    /// The state of a stage in a checkpoint. `stages` are those of the job.
    ///
    /// # Errors
    /// There is no such stage, it has no state to look at, or it does something else now.
    pub fn of_checkpoint(
        stages: &QueryableStages,
        stage: &str,
        pinned: PinnedCheckpoint,
    ) -> Result<Self, SnapshotError> {
        let of = find(stages, stage)?.clone();
        let manifest = pinned.manifest();
        let saved = manifest.stages.iter().find(|it| it.name == of.stage);
        let was_elsewhere = || {
            let members = manifest.stages.iter().flat_map(|it| it.name.split(MEMBERS_SEPARATOR));
            members.into_iter().any(|it| it == stage)
        };
        let is_other = saved.map_or_else(was_elsewhere, |it| it.does != of.factory.does());
        if is_other {
            return Err(SnapshotError::Changed(stage.to_owned(), manifest.number));
        }
        let slices = saved.map_or_else(Vec::new, |saved| {
            let slice = |runs| SliceSnapshot::Saved(pinned.named(runs), saved.watermark);
            saved.slices.iter().map(|runs| slice(runs)).collect()
        });
        Ok(Self {
            stage: stage.to_owned(),
            cycle: manifest.cycle,
            time: Some(manifest.time),
            checkpoint: Some(manifest.number),
            of,
            slices,
            _pinned: Some(pinned),
        })
    }

    /// The state of a stage of a running job.
    pub(crate) fn live(
        of: QueryableStage,
        (cycle, slices): (Cycle, Vec<SliceSnapshot>),
        pinned: Option<PinnedCheckpoint>,
    ) -> Self {
        let stage = of.name.clone();
        Self { stage, cycle, time: None, checkpoint: None, of, slices, _pinned: pinned }
    }

    /// Gives the rows of a table, by slice. Each slice is read after the rows of the one before
    /// were taken. A snapshot of a running job has one table, the requested one.
    ///
    /// # Errors
    /// A slice cannot be read.
    pub fn rows(&self, table: usize, take: &mut TakeRows<'_>) -> Result<(), SnapshotError> {
        for (slice, state) in (0..).map(SliceId).zip(&self.slices) {
            let wants = match state {
                SliceSnapshot::Rows(rows) => rows.iter().try_for_each(|it| take(it.clone())),
                SliceSnapshot::Saved(runs, watermark) => {
                    let failed = |message: String| SnapshotError::Slice { slice, message };
                    let (factory, table) = (&*self.of.factory, self.of.table(table));
                    let mut state = factory.state(slice);
                    structure::restore(&mut *state, &runs.read()?.get())
                        .map_err(|error| failed(error.0))?;
                    let at = StateAt { state: &mut *state, watermark: *watermark };
                    rows_of(factory, table, (slice, at), take)?
                }
            };
            if wants.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A stage that has a state to look at.
///
/// # Errors
/// There is no such stage.
pub fn find<'a>(
    stages: &'a QueryableStages,
    stage: &str,
) -> Result<&'a QueryableStage, SnapshotError> {
    let shown = || stages.iter().filter(|it| !it.tables.is_empty());
    shown().find(|it| it.name == stage).ok_or_else(|| SnapshotError::Stage {
        name: stage.to_owned(),
        known: shown().map(|it| it.name.clone()).collect(),
    })
}
