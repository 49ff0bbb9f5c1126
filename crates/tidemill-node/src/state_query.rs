//! The states of a job's stages, looked at: which tables there are, a query over them, a table as a
//! file.
//!
//! ```text
//! job file ─▶ plan ─▶ operators of the stages ─┐
//! checkpoint ─▶ state of a slice, restored ────┴▶ rows ─▶ SQL ─▶ answer
//!                                                    └──▶ Arrow file
//! ```

use crate::{
    descriptor::Descriptor,
    diagnostic::{Refused, nearest, one_of},
    plan::{PlanOptions, Validated, validate},
    registry::Registry,
};
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use serde::Serialize;
use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::Arc,
};
use tidemill_checkpoints::{CheckpointError, Checkpoints};
use tidemill_env::World;
use tidemill_flow::{
    JobGraph, QueryableStage, QueryableStages, SnapshotError, StageKind, StageSnapshot, StateTable,
    snapshot::find,
};
use tidemill_sql::query::{Query, QueryError};
use tidemill_types::{CheckpointNumber, signs};

/// Most rows of an answer.
pub const ANSWER_ROWS_MAX: usize = 1_000_000;

/// Why a state is not shown.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read.
    #[error(transparent)]
    Look(#[from] SnapshotError),
    /// The query has no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A stage has no such table.
    #[error("the stage `{stage}` has no table `{table}`; {known}")]
    Table {
        /// The stage.
        stage: String,
        /// The request.
        table: String,
        /// Those that it has, in words.
        known: String,
    },
    /// Too much for one answer.
    #[error(
        "that is more than {0} MiB: take some of it with a query, or export it from the job's folder while the node does not run"
    )]
    Large(usize),
    /// Rows cannot be written.
    #[error("rows cannot be written: {0}")]
    Write(ArrowError),
    /// Rows cannot be written as text.
    #[error("{0}")]
    Text(String),
}

impl From<ArrowError> for StateError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => error.into(),
            other => Self::Write(other),
        }
    }
}

impl From<io::Error> for StateError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|it| it.downcast_ref::<TooLarge>()) {
            Some(TooLarge(bytes)) => Self::Large(bytes >> 20),
            None => Self::Write(error.into()),
        }
    }
}

/// Why no more bytes are taken: there are as many already.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes")]
pub(crate) struct TooLarge(pub(crate) usize);

impl From<CheckpointError> for StateError {
    fn from(error: CheckpointError) -> Self {
        Self::Look(error.into())
    }
}

impl StateError {
    /// True if the request is wrong, and not the state.
    #[must_use]
    pub fn is_asked_wrong(&self) -> bool {
        match self {
            Self::Query(_) | Self::Table { .. } | Self::Large(_) => true,
            Self::Look(SnapshotError::Checkpoint(error)) => {
                matches!(error, CheckpointError::Unknown(_) | CheckpointError::None)
            }
            Self::Look(SnapshotError::Slice { .. }) | Self::Write(_) | Self::Text(_) => false,
            Self::Look(_) => true,
        }
    }
}

/// The stages of a job that is not to run.
///
/// # Errors
/// The job is refused.
pub fn stages(
    descriptor: &Descriptor,
    options: &PlanOptions,
    world: &World,
    registry: &Registry,
) -> Result<QueryableStages, Refused> {
    let Validated { planned, .. } = validate(descriptor, options, world, registry)?;
    Ok(stages_of(planned.graph))
}

/// The stages of a graph.
#[must_use]
pub fn stages_of(graph: JobGraph) -> QueryableStages {
    let stages = |stage: &tidemill_flow::Stage| match &stage.kind {
        StageKind::Operator { factory, .. } => QueryableStage::of(&stage.name, factory),
        StageKind::Source { .. } | StageKind::Sink { .. } => Vec::new(),
    };
    graph.stages.iter().flat_map(stages).collect()
}

/// A table of a stage's state, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableView {
    /// The stage.
    pub stage: String,
    /// The table.
    pub table: String,
    /// Its columns.
    pub columns: Vec<ColumnView>,
}

/// A column, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnView {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow names it.
    #[serde(rename = "type")]
    pub data_type: String,
    /// True if it may be null.
    pub nullable: bool,
}

/// The columns of a table, as others see them.
#[must_use]
pub fn columns(schema: &Schema) -> Vec<ColumnView> {
    let column = |it: &Arc<arrow_schema::Field>| ColumnView {
        name: it.name().clone(),
        data_type: it.data_type().to_string(),
        nullable: it.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}

/// The tables of all stages.
#[must_use]
pub fn tables(stages: &QueryableStages) -> Vec<TableView> {
    let of_stage = |stage: &QueryableStage| {
        let view = |table: StateTable| TableView {
            stage: stage.name.clone(),
            table: table.name,
            columns: columns(&table.schema),
        };
        stage.tables().into_iter().map(view).collect::<Vec<_>>()
    };
    stages.iter().flat_map(of_stage).collect()
}

/// The state of a stage in a checkpoint: that of a number, or the newest.
///
/// # Errors
/// There is no such stage or checkpoint, or it cannot be read.
pub fn in_checkpoint(
    stages: &QueryableStages,
    stage: &str,
    checkpoints: &Checkpoints,
    number: Option<CheckpointNumber>,
) -> Result<StageSnapshot, StateError> {
    find(stages, stage)?;
    Ok(StageSnapshot::of_checkpoint(stages, stage, checkpoints.looker().pin(number)?)?)
}

/// The answer to a query.
#[derive(Debug)]
pub struct Answer {
    /// Its columns. The metadata say of which state it is.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

/// Asks a state with SQL. `look` is asked for the stage's state, and told which table is read.
///
/// # Errors
/// The SQL does not fit the tables, or the state cannot be read.
pub fn query(
    (job, stages, stage): (&str, &QueryableStages, &str),
    sql: &str,
    look: impl FnOnce(usize) -> Result<StageSnapshot, StateError>,
) -> Result<Answer, StateError> {
    let tables = find(stages, stage)?.tables().into_iter().map(|it| (it.name, it.schema));
    let query = Query::compile(sql, &tables.collect::<Vec<_>>()).map_err(QueryError::from)?;
    let (mut running, mut failed) = (query.run(ANSWER_ROWS_MAX)?, None);
    let look = look(query.table())?;
    look.rows(query.table(), &mut |batch| match running.push(batch) {
        Ok(wants) => wants,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let schema = with_origin(&query.schema(), job, &look, None);
    let of_schema = |it: RecordBatch| it.with_schema(Arc::clone(&schema));
    let batches = running.finish()?.into_iter().map(of_schema).collect::<Result<_, _>>()?;
    Ok(Answer { schema, batches })
}

/// Columns with the state that they are of, as metadata of the schema.
fn with_origin(schema: &Schema, job: &str, look: &StageSnapshot, table: Option<&str>) -> SchemaRef {
    let mut origin = vec![
        ("tidemill.job", job.to_owned()),
        ("tidemill.stage", look.stage.clone()),
        ("tidemill.cycle", look.cycle.to_string()),
    ];
    origin.extend(look.time.map(|it| ("tidemill.time_us", it.0.to_string())));
    origin.extend(look.checkpoint.map(|it| ("tidemill.checkpoint", it.to_string())));
    origin.extend(table.map(|it| ("tidemill.table", it.to_owned())));
    let metadata = origin.into_iter().map(|(key, value)| (key.to_owned(), value));
    Arc::new(schema.clone().with_metadata(metadata.collect()))
}

/// An answer as an Arrow file.
///
/// # Errors
/// It has a column of a type that such a file cannot hold.
pub fn arrow_file(answer: &Answer) -> Result<Vec<u8>, StateError> {
    let mut writer = FileWriter::try_new(Vec::new(), &answer.schema)?;
    answer.batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.into_inner()?)
}

/// The names of a stage's tables.
///
/// # Errors
/// There is no such stage.
pub fn tables_of_stage(stages: &QueryableStages, stage: &str) -> Result<Vec<String>, StateError> {
    let tables = find(stages, stage)?.tables();
    Ok(tables.into_iter().map(|it| it.name).collect())
}

/// The number of a table of a stage.
///
/// # Errors
/// There is no such stage or table.
pub fn table(stages: &QueryableStages, stage: &str, table: &str) -> Result<usize, StateError> {
    let tables = find(stages, stage)?.tables();
    let found = tables.iter().position(|it| it.name == table);
    found.ok_or_else(|| {
        let names: Vec<&str> = tables.iter().map(|it| it.name.as_str()).collect();
        let known = match nearest(table, names.iter().copied()) {
            Some(near) => format!("{}{}", signs::suggestion(near), signs::note(table, Some(near))),
            None => format!("it has {}{}", one_of(&names), signs::note(table, None)),
        };
        StateError::Table { stage: stage.to_owned(), table: table.to_owned(), known }
    })
}

/// Writes the `nth` table of a state as an Arrow file, one batch after another; gives back the rows.
///
/// # Errors
/// The state cannot be read, or `out` cannot be written.
pub fn export(
    (job, stages): (&str, &QueryableStages),
    look: &StageSnapshot,
    nth: usize,
    out: impl Write,
) -> Result<u64, StateError> {
    let table = find(stages, &look.stage)?.tables().swap_remove(nth);
    let schema = with_origin(&table.schema, job, look, Some(&table.name));
    let mut writer = FileWriter::try_new(out, &schema)?;
    let (mut rows, mut written) = (0, Ok(()));
    look.rows(nth, &mut |batch| {
        rows += batch.num_rows() as u64;
        written = batch.with_schema(Arc::clone(&schema)).and_then(|batch| writer.write(&batch));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    writer.finish()?;
    writer.get_mut().flush().map_err(ArrowError::from)?;
    Ok(rows)
}
