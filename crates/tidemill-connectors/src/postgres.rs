//! A table of a PostgreSQL database as a sink.
//!
//! ```text
//! write(c): rows ─▶ Encoder ─▶ binary rows, kept
//! commit(c): rows up to c ─▶ ExactlyOnce │ AtLeastOnce ─▶ Load ─▶ one transaction
//! ```
//!
//! Under `exactly-once` in a job that keeps a ledger, a commit carries its cycle ([`exactly_once`]). In all
//! other jobs rows are there once unless the job is started again ([`at_least_once`]).
//!
//! A database that goes away is waited for, for as long as it takes: the commit does not return, the
//! rows behind it wait, and by the links' credit the sources do. A job that is to stop meanwhile
//! fails after a moment, also if the database says nothing, and makes its uncommitted rows again when
//! it resumes.
//!
//! Read in this order: [`address`], [`target`], [`column_mapping`], [`encode`], [`connection`], [`load`],
//! [`exactly_once`].

use crate::error::{ConnectorError, ConnectorErrorKind};
use address::Address;
use arrow_array::{ArrayRef, RecordBatch, StringArray, cast::AsArray};
use arrow_schema::SchemaRef;
use at_least_once::AtLeastOnce;
use column_mapping::TargetColumn;
use connection::PostgresConnection;
use encode::{EncodeError, Encoder, Unfit};
use exactly_once::ExactlyOnce;
use fault::{database_error, is_race, said};
use load::{Load, PendingCycle};
use name::TableName;
use session::{BEGIN, Session};
use std::{collections::VecDeque, path::Path, sync::Arc};
use table::TableDescription;
use tidemill_env::World;
use tidemill_flow::{Block, ErrorKind, RETRY_PAUSE_US, RetryPolicy, Sink, SinkError, dead_letter};
use tidemill_types::{Cycle, job::PostgresSinkSpec, signs};
use tokio_postgres::Client;

mod address;
mod at_least_once;
mod column_mapping;
mod connection;
mod encode;
mod exactly_once;
mod fault;
mod load;
mod name;
mod numeric;
mod session;
mod table;
mod target;
mod tls;
mod values;

/// Number of attempts to read the table while a job is planned.
const TRIES: u32 = 3;
/// It does not try again after so long, in microseconds.
const LOOK_US_MAX: u64 = 5_000_000;

/// Writes rows to a table of a database.
pub struct PostgresSink {
    spec: PostgresSinkSpec,
    /// The table as the job names it.
    name: String,
    table: TableName,
    schema: SchemaRef,
    session: Session,
    writer: PostgresWriter,
    life: String,
    /// Made when the sink is opened.
    encoder: Encoder,
    load: Option<Load>,
    pending: VecDeque<PendingCycle>,
    /// Its rows are dead letters: no stage stands before them in which something could be replaced.
    takes_letters: bool,
}

enum PostgresWriter {
    ExactlyOnce(Box<ExactlyOnce>),
    AtLeastOnce(AtLeastOnce),
}

impl PostgresSink {
    /// A sink that writes rows of `schema`. With `notes`, a file of the job's folder, each row is
    /// written once, also by a job that resumes; `of` is the job and the sink, by which the database
    /// keeps how far they are.
    ///
    /// # Errors
    /// The URL or the table's name cannot be read, the database does not answer, the table is not
    /// there and is not to be made, or it does not take the rows.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(
        world: &World,
        spec: &PostgresSinkSpec,
        of: (&str, &str),
        schema: &SchemaRef,
        notes: Option<&Path>,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        let of_kind = |kind: ConnectorErrorKind| {
            move |message: String| ConnectorError { kind: kind.clone(), message }
        };
        let unreachable = of_kind(ConnectorErrorKind::Unreachable);
        let no_table = of_kind(ConnectorErrorKind::NotFound);
        let address = Address::new(world, spec).map_err(&unreachable)?;
        let table = TableName::parse(&spec.table).map_err(&no_table)?;
        if table.name == exactly_once::MARKS {
            return Err(no_table(format!(
                "`{}` is where sinks keep how far they are",
                exactly_once::MARKS
            )));
        }
        let (connection, found) = look(world, &address, &table).map_err(|error| {
            let (kind, more) = match error.is_retry() {
                true => (ConnectorErrorKind::Away, "; it must be up when the job starts"),
                false => (ConnectorErrorKind::Unreachable, ""),
            };
            let shown = &address.shown;
            let message = format!("the database at `{shown}` cannot be used: {error}{more}");
            ConnectorError { kind, message }
        })?;
        match found {
            Some(found) => {
                column_mapping::map_columns(&table, &found, schema, &spec.key, notes.is_some())
            }
            None if spec.create => column_mapping::columns_of_new_table(schema, &spec.key),
            None => {
                return Err(no_table(format!(
                    "the database at `{}` has no table `{table}`{}: create it, or say `create: true`",
                    address.shown,
                    signs::note(&spec.table, None)
                )));
            }
        }
        .map_err(of_kind(ConnectorErrorKind::Unwritable))?;
        let now = world.clock.wall_micros().unsigned_abs();
        let life = format!("{:016x}", world.random(now ^ u64::from(u32::MAX)).next());
        let writer = match notes {
            Some(path) => PostgresWriter::ExactlyOnce(Box::new(ExactlyOnce::new(
                world, of, &table, &life, path,
            ))),
            None => PostgresWriter::AtLeastOnce(AtLeastOnce::default()),
        };
        Ok(Box::new(Self {
            spec: spec.clone(),
            name: table.to_string(),
            table,
            schema: Arc::clone(schema),
            session: Session::new(world, address, connection),
            writer,
            life,
            encoder: Encoder::new(Vec::new(), false),
            load: None,
            pending: VecDeque::new(),
            takes_letters: *schema == dead_letter::schema(),
        }))
    }

    /// The error with the table as its place.
    fn refused(&self, error: SinkError) -> SinkError {
        error.within(self.place())
    }

    fn failed(&self, error: impl std::fmt::Display) -> SinkError {
        self.refused(SinkError::new(error.to_string()))
    }

    fn place(&self) -> String {
        format!("table `{}` at `{}` cannot be written", self.name, self.session.shown())
    }

    /// The table's columns for the rows; it is made if it is to be. `held` says that rows are to be
    /// in it.
    fn find_or_make(&mut self, held: Cycle) -> Result<Vec<TargetColumn>, SinkError> {
        let Self { spec, table, schema, session, writer, .. } = self;
        let once = matches!(writer, PostgresWriter::ExactlyOnce(_));
        session.persist(async |client| {
            if let Some(columns) = find(client, (table, schema, spec), once).await? {
                return Ok(columns);
            }
            if held > Cycle::NONE {
                let text = "the rows of earlier cycles are gone with it; start the job anew";
                let message = format!("there is no such table any more, and {text}");
                return Err(SinkError::of_kind(ErrorKind::Invalid, message));
            }
            make(client, (table, schema, spec)).await
        })
    }
}

/// The same rows with a replacement character for each NUL, which no text in PostgreSQL can have.
fn without_nul(batch: &RecordBatch) -> RecordBatch {
    let replaced = |column: &ArrayRef| match column.as_string_opt::<i32>() {
        Some(texts) if memchr::memchr(0, texts.value_data()).is_some() => {
            let texts = texts.iter().map(|it| it.map(|it| it.replace('\0', "\u{fffd}")));
            Arc::new(texts.collect::<StringArray>())
        }
        _ => Arc::clone(column),
    };
    let columns = batch.columns().iter().map(replaced).collect();
    RecordBatch::try_new(batch.schema(), columns).expect("texts became texts")
}

/// The table's columns for the rows; none if it is not there.
async fn find(
    client: &Client,
    (table, schema, spec): (&TableName, &SchemaRef, &PostgresSinkSpec),
    once: bool,
) -> Result<Option<Vec<TargetColumn>>, SinkError> {
    let Some(found) = table::look(client, table).await.map_err(database_error)? else {
        return Ok(None);
    };
    column_mapping::map_columns(table, &found, schema, &spec.key, once).map(Some).map_err(unfit)
}

/// The error of a table that does not take the rows.
fn unfit(message: String) -> SinkError {
    SinkError::of_kind(ErrorKind::Invalid, message)
}

/// Makes the table.
async fn make(
    client: &Client,
    (table, schema, spec): (&TableName, &SchemaRef, &PostgresSinkSpec),
) -> Result<Vec<TargetColumn>, SinkError> {
    let columns = column_mapping::columns_of_new_table(schema, &spec.key).map_err(unfit)?;
    match client.batch_execute(&table::creation(table, &columns, schema, &spec.key)).await {
        // It is there now, and has to fit.
        Err(error) if is_race(&error) => Err(SinkError::retry(said(&error))),
        made => made.map(|()| columns).map_err(database_error),
    }
}

/// The rows as a table that is made for them gets them.
#[cfg(test)]
pub(crate) fn copy_bytes(batch: &RecordBatch) -> Result<Vec<u8>, String> {
    let columns = column_mapping::columns_of_new_table(batch.schema_ref(), &[])?;
    let mut out = Vec::new();
    let written = Encoder::new(columns, false).rows(batch, &mut out);
    written.map_err(|error| format!("{error:?}"))?;
    Ok(out)
}

/// Connects and looks the table up. A connection that breaks is tried again, a few times.
fn look(
    world: &World,
    address: &Address,
    name: &TableName,
) -> Result<(PostgresConnection, Option<TableDescription>), SinkError> {
    let mut tries = 1;
    let begun_us = world.clock.monotonic_micros();
    loop {
        let name = name.clone();
        let looked = address.connect(world, async move |client| table::look(client, &name).await);
        let took_us = world.clock.monotonic_micros().saturating_sub(begun_us);
        match looked {
            Err(error) if error.is_retry() && tries < TRIES && took_us < LOOK_US_MAX => {
                world.clock.sleep_micros(RETRY_PAUSE_US.0);
                tries += 1;
            }
            other => return other,
        }
    }
}

impl Sink for PostgresSink {
    /// All that opening does to the database, in a transaction that is taken back.
    fn check(&mut self) -> Result<(), SinkError> {
        let Self { spec, table, schema, session, writer, .. } = self;
        let once = match writer {
            PostgresWriter::ExactlyOnce(once) => Some(once),
            PostgresWriter::AtLeastOnce(_) => None,
        };
        let checked = session.persist(async |client| {
            client.batch_execute(BEGIN).await.map_err(database_error)?;
            if let Some(once) = &once {
                once.try_out(client).await?;
            }
            if find(client, (table, schema, spec), once.is_some()).await?.is_none() {
                make(client, (table, schema, spec)).await?;
            }
            client.batch_execute("ROLLBACK").await.map_err(database_error)
        });
        checked.map_err(|error| self.refused(error))
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let held = match &mut self.writer {
            PostgresWriter::ExactlyOnce(once) => once.open(resume, &mut self.session),
            PostgresWriter::AtLeastOnce(_) => Ok(Cycle::NONE),
        };
        let held = held.map_err(|error| self.refused(error))?;
        if let PostgresWriter::ExactlyOnce(once) = &self.writer {
            self.table = once.table();
        }
        let columns = self.find_or_make(held).map_err(|error| self.refused(error))?;
        let load = Load::new(&self.table, &columns, &self.spec.key, &self.life);
        let types = self.session.persist(async |client| load.types(client).await);
        let types = types.map_err(|error| self.refused(error))?;
        let load = load.encoded_for(types);
        self.encoder = Encoder::new(columns, load.is_numbered());
        self.load = Some(load);
        Ok(held)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let mut pending = PendingCycle { cycle, bytes: Vec::new() };
        let mut rows = 0;
        for block in blocks.iter().filter(|it| !it.is_empty()) {
            let mut batch = block.batch();
            if self.takes_letters {
                batch = without_nul(&batch);
            }
            self.encoder.rows(&batch, &mut pending.bytes).map_err(|error| match error {
                EncodeError::Value(Unfit { row, column, why }) => {
                    let row = rows + row + 1;
                    self.failed(format!("row {row} of the cycle, column `{column}`: {why}"))
                }
                EncodeError::Arrow(error) => self.failed(error),
            })?;
            rows += batch.num_rows();
        }
        // Cycles without rows leave nothing to be seen, and are made again after a crash.
        if rows > 0 {
            self.pending.push_back(pending);
        }
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let Some(load) = &self.load else { return Err(self.failed("the sink is not open")) };
        let count = self.pending.partition_point(|it| it.cycle <= cycle);
        if count == 0 {
            return Ok(());
        }
        let ready = &self.pending.make_contiguous()[..count];
        let outcome = match &mut self.writer {
            PostgresWriter::ExactlyOnce(once) => once.commit(&mut self.session, cycle, load, ready),
            PostgresWriter::AtLeastOnce(repeating) => {
                repeating.commit(&mut self.session, load, ready)
            }
        };
        outcome.map_err(|error| self.refused(error))?;
        self.pending.drain(..count);
        Ok(())
    }

    fn retry_with(&mut self, patience: RetryPolicy) {
        self.session.retry_with(patience);
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.session.close();
        Ok(())
    }
}
