//! Each row once: the table and the cycle in one transaction.
//!
//! ```text
//! commit(c): BEGIN ─▶ lock the mark, read it ─▶ COPY the rows up to c ─▶ mark = c ─▶ COMMIT
//! ```
//!
//! The mark is a row of the table `tidemill_sinks` beside the one that is written, or of the only one
//! that is to be found when the run begins: job, sink, the *run* that they are of, the *life* that writes, and the last cycle that is in the table.
//!
//! # Why each row is there once
//!
//! A run of a job is all of its lives from a start to the next start without `--resume`. It draws a
//! number, which is noted in the job's folder before the mark is written; each process draws a life.
//!
//! 1. Rows and mark are in one transaction, so the mark names the last cycle in the table.
//! 2. A transaction locks the mark before it sends any row, and holds it to its end. The holder of the
//!    lock knows that no other transaction of the sink is open, and that the mark does not change.
//! 3. So if a connection breaks, whenever it is, the next one has the answer: a mark of *c* says
//!    that the transaction came through, the mark before it that none of it did. A server that has
//!    not yet noticed holds the lock until it has.
//! 4. A process that opens the sink writes its life into the mark. One that was thought dead finds
//!    another life there before it sends any row, and gives up.
//! 5. Cuts of cycles are in the job's ledger before a commit, and a replay makes the same rows
//!    again: a crash does not change the rows that are sent.
//!
//! A database that was restored has an older mark with the rows of that time, and a job that
//! resumes goes on from there.
//!
//! Invariant: no row is sent but under the lock of a mark with this life.

use super::fault::{database_error, is_race, said};
use super::load::{Load, PendingCycle};
use super::name::{TableName, literal};
use super::session::{BEGIN, Session, last_row};
use crate::notes::{Notes, not_noted, not_read};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tidemill_env::World;
use tidemill_flow::SinkError;
use tidemill_types::Cycle;
use tokio_postgres::Client;

/// The table of marks.
pub(super) const MARKS: &str = "tidemill_sinks";

/// The schema of the first table, the one in which it would be made, and the schema of the second.
const SCHEMAS: &str = "SELECT \
    (SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE c.oid = to_regclass($1)), \
    current_schema()::text, \
    (SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE c.oid = to_regclass($2))";

/// The note of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    run: u64,
    /// True once the mark was written.
    begun: bool,
    /// The schemas of the table that is written and of that of marks, if the job names none. A run
    /// that was noted before there were these finds both by the server's `search_path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schemas: Option<Schemas>,
}

/// Where tables are that the job names without a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Schemas {
    table: String,
    marks: String,
}

/// See the module.
pub(super) struct ExactlyOnce {
    world: World,
    /// The table of marks, as it stands in a statement.
    marks: String,
    /// The table that is written, as the job names it.
    named: TableName,
    job: String,
    sink: String,
    /// The table that is written.
    target: String,
    notes: Notes<Run>,
    run: Run,
    life: String,
    held: Cycle,
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    target: String,
    run: String,
    life: String,
    cycle: u64,
}

/// The decision about a commit, by its mark.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It came through before its answer was lost.
    IsThere,
    Send,
    Refuse(String),
}

impl ExactlyOnce {
    pub(super) fn new(
        world: &World,
        (job, sink): (&str, &str),
        table: &TableName,
        life: &str,
        notes: &Path,
    ) -> Self {
        Self {
            world: world.clone(),
            marks: table.beside(MARKS).sql(),
            named: table.clone(),
            job: job.to_owned(),
            sink: sink.to_owned(),
            target: table.to_string(),
            notes: Notes::new(world, notes),
            run: Run { run: 0, begun: false, schemas: None },
            life: life.to_owned(),
            held: Cycle::NONE,
        }
    }

    /// Does the table part of [`Self::open`] within a transaction, which the caller rolls back.
    pub(super) async fn try_out(&self, client: &Client) -> Result<(), SinkError> {
        let schemas = self.schemas(client).await?;
        let marks = schemas.map_or_else(|| self.marks.clone(), |it| self.marks_in(&it));
        self.make_marks(client, &marks).await?;
        client.batch_execute(&self.writing_mark(&marks)).await.map_err(database_error)
    }

    /// Begins a run, or continues the noted one. Returns the last committed cycle.
    pub(super) fn open(&mut self, resume: bool, session: &mut Session) -> Result<Cycle, SinkError> {
        match self.notes.read() {
            Ok(Some(run)) if resume => self.run = run,
            Err(error) if resume => return Err(not_read(&error)),
            _ => {
                let now = self.world.clock.wall_micros().unsigned_abs();
                let run = self.world.random(now).next();
                let schemas = session.persist(async |client| self.schemas(client).await)?;
                self.run = Run { run, begun: false, schemas };
                self.note()?;
            }
        }
        if let Some(schemas) = &self.run.schemas {
            self.marks = self.marks_in(schemas);
        }
        session.persist(async |client| self.make_marks(client, &self.marks).await)?;
        self.held = match self.run.begun {
            false => session.persist(async |client| self.begin(client).await),
            true => session.persist(async |client| self.take_over(client).await),
        }?;
        if !self.run.begun {
            self.run.begun = true;
            self.note()?;
        }
        Ok(self.held)
    }

    /// The table that is written, with its schema if that is known.
    pub(super) fn table(&self) -> TableName {
        let schemas = self.run.schemas.as_ref();
        schemas.map_or_else(|| self.named.clone(), |it| self.named.within(&it.table))
    }

    /// Where the tables of a run that begins are, if the job does not say it: the one that is
    /// written where it is found or would be made, that of marks beside it, unless there is only
    /// another one to be found.
    async fn schemas(&self, client: &Client) -> Result<Option<Schemas>, SinkError> {
        if self.named.schema.is_some() {
            return Ok(None);
        }
        let marks = self.named.beside(MARKS).sql();
        let row = client
            .query_one(SCHEMAS, &[&self.named.sql(), &marks])
            .await
            .map_err(database_error)?;
        let (found, made, marks): (Option<String>, Option<String>, Option<String>) =
            (row.get(0), row.get(1), row.get(2));
        // Where nothing can be made, the server says so when that is tried.
        let Some(table) = found.or(made) else { return Ok(None) };
        let beside = self.named.within(&table).beside(MARKS).sql();
        let is_beside = client
            .query_one("SELECT to_regclass($1) IS NOT NULL", &[&beside])
            .await
            .map_err(database_error)?;
        let marks = marks.filter(|_| !is_beside.get::<_, bool>(0));
        let marks = marks.unwrap_or_else(|| table.clone());
        Ok(Some(Schemas { table, marks }))
    }

    /// The table of marks, as it stands in a statement.
    fn marks_in(&self, schemas: &Schemas) -> String {
        self.named.within(&schemas.marks).beside(MARKS).sql()
    }

    fn note(&self) -> Result<(), SinkError> {
        self.notes.write(&self.run).map_err(|error| not_noted(&error))
    }

    fn run_text(&self) -> String {
        format!("{:016x}", self.run.run)
    }

    fn place(&self) -> String {
        format!("job = {} AND sink = {}", literal(&self.job), literal(&self.sink))
    }

    /// Creates the table of marks if it is not there. The right to write to it does not imply the right to
    /// create it.
    async fn make_marks(&self, client: &Client, marks: &str) -> Result<(), SinkError> {
        let found = client
            .query_one("SELECT to_regclass($1) IS NOT NULL", &[&marks])
            .await
            .map_err(database_error)?;
        if found.get(0) {
            return Ok(());
        }
        let made = client
            .batch_execute(&format!(
                "CREATE TABLE IF NOT EXISTS {marks} (job text NOT NULL, sink text NOT NULL, \
             target text NOT NULL, run text NOT NULL, life text NOT NULL, cycle bigint NOT NULL, \
             updated_at timestamp with time zone NOT NULL DEFAULT now(), PRIMARY KEY (job, sink))"
            ))
            .await;
        match made {
            // It is there now; a transaction that this was part of is begun again.
            Err(error) if is_race(&error) => Err(SinkError::retry(said(&error))),
            made => made.map_err(database_error).map_err(|error| match error.is_retry() {
                true => error,
                false => error.within(format_args!(
                    "the table {marks} cannot be made, in which the sink keeps how far it is"
                )),
            }),
        }
    }

    /// Writes the mark of a run that has none.
    async fn begin(&self, client: &Client) -> Result<Cycle, SinkError> {
        client
            .batch_execute(&format!("{BEGIN} {}; COMMIT", self.writing_mark(&self.marks)))
            .await
            .map_err(database_error)?;
        Ok(Cycle::NONE)
    }

    /// The statement that does it.
    fn writing_mark(&self, marks: &str) -> String {
        format!(
            "INSERT INTO {marks} (job, sink, target, run, life, cycle) \
             VALUES ({}, {}, {}, '{}', '{}', 0) ON CONFLICT (job, sink) DO UPDATE SET \
             target = excluded.target, run = excluded.run, life = excluded.life, cycle = 0, \
             updated_at = now()",
            literal(&self.job),
            literal(&self.sink),
            literal(&self.target),
            self.run_text(),
            self.life
        )
    }

    /// Puts this life in the place of the one before.
    async fn take_over(&self, client: &Client) -> Result<Cycle, SinkError> {
        let mark = self.lock(client).await?;
        let held = self.of_this_run(mark.as_ref()).map_err(SinkError::new)?;
        client
            .batch_execute(&format!(
                "UPDATE {} SET life = '{}', updated_at = now() WHERE {}; COMMIT",
                self.marks,
                self.life,
                self.place()
            ))
            .await
            .map_err(database_error)?;
        Ok(held)
    }

    /// Begins a transaction, locks the mark and reads it.
    async fn lock(&self, client: &Client) -> Result<Option<Mark>, SinkError> {
        let answer = client
            .simple_query(&format!(
                "{BEGIN} SELECT target, run, life, cycle FROM {} WHERE {} FOR UPDATE",
                self.marks,
                self.place()
            ))
            .await
            .map_err(database_error)?;
        // A row of one column is the answer to what stands before.
        let row = last_row(&answer).and_then(|it| <[Option<String>; 4]>::try_from(it).ok());
        Ok(row.map(|[target, run, life, cycle]| Mark {
            target: target.unwrap_or_default(),
            run: run.unwrap_or_default(),
            life: life.unwrap_or_default(),
            cycle: cycle.and_then(|it| it.parse().ok()).unwrap_or_default(),
        }))
    }

    /// The last cycle by the mark of this run.
    fn of_this_run(&self, mark: Option<&Mark>) -> Result<Cycle, String> {
        let Some(mark) = mark else {
            return Err(format!(
                "{} has no row of this job and sink any more, which says how far they are; start \
                 the job anew",
                self.marks
            ));
        };
        if mark.run != self.run_text() {
            return Err(format!(
                "another job `{}` with a sink `{}` has been started and writes in its place; start \
                 the job anew, or give one of them another name",
                self.job, self.sink
            ));
        }
        if mark.target != self.target {
            return Err(format!(
                "the job wrote to table `{}` before; go on with that, or start the job anew",
                mark.target
            ));
        }
        Ok(Cycle(mark.cycle))
    }

    fn decide(&self, mark: Option<&Mark>, cycle: Cycle) -> Decision {
        let found = match self.of_this_run(mark) {
            Ok(found) => found,
            Err(why) => return Decision::Refuse(why),
        };
        if mark.is_some_and(|it| it.life != self.life) {
            let why = "another process has resumed this job and writes in its place";
            return Decision::Refuse(why.to_owned());
        }
        match found {
            it if it == self.held => Decision::Send,
            it if it == cycle => Decision::IsThere,
            it => Decision::Refuse(format!(
                "the database says that cycle {} is there, and it was cycle {}: it has lost \
                 commits; resumed, the job goes on from there",
                it.0, self.held.0
            )),
        }
    }

    /// Commits the rows; returns when they are there.
    pub(super) fn commit(
        &mut self,
        session: &mut Session,
        cycle: Cycle,
        load: &Load,
        ready: &[PendingCycle],
    ) -> Result<(), SinkError> {
        session.persist(async |client| self.try_commit(client, cycle, load, ready).await)?;
        self.held = cycle;
        Ok(())
    }

    async fn try_commit(
        &self,
        client: &Client,
        cycle: Cycle,
        load: &Load,
        ready: &[PendingCycle],
    ) -> Result<(), SinkError> {
        let mark = self.lock(client).await?;
        match self.decide(mark.as_ref(), cycle) {
            Decision::Refuse(why) => return Err(SinkError::new(why)),
            Decision::IsThere => {
                return client.batch_execute("ROLLBACK").await.map_err(database_error);
            }
            Decision::Send => {}
        }
        load.run(client, ready).await?;
        client
            .batch_execute(&format!(
                "UPDATE {} SET cycle = {}, updated_at = now() WHERE {}; COMMIT",
                self.marks,
                cycle.0,
                self.place()
            ))
            .await
            .map_err(database_error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Marks decide commits whose answer was lost.

    use super::*;

    fn once(held: u64) -> ExactlyOnce {
        let table = TableName::parse("s.t").unwrap();
        let notes = Path::new("sink-x.json");
        let once = ExactlyOnce::new(&World::real(), ("job", "x"), &table, "me", notes);
        let run = Run { run: 7, begun: true, schemas: None };
        ExactlyOnce { run, held: Cycle(held), ..once }
    }

    fn mark(life: &str, cycle: u64) -> Mark {
        let run = format!("{:016x}", 7);
        Mark { target: "s.t".to_owned(), run, life: life.to_owned(), cycle }
    }

    #[test]
    fn a_mark_says_whether_a_lost_commit_came_through() {
        let once = once(4);
        assert_eq!(once.marks, r#""s"."tidemill_sinks""#);
        let decide = |mark: &Mark| once.decide(Some(mark), Cycle(6));
        assert_eq!(decide(&mark("me", 4)), Decision::Send);
        assert_eq!(decide(&mark("me", 6)), Decision::IsThere);
        let refused = |mark: Option<&Mark>, expected: &str| match once.decide(mark, Cycle(6)) {
            Decision::Refuse(why) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        };
        refused(Some(&mark("me", 3)), "lost commits");
        refused(Some(&mark("me", 5)), "lost commits");
        refused(Some(&mark("other", 4)), "another process has resumed");
        refused(Some(&mark("other", 6)), "another process has resumed");
        refused(Some(&Mark { run: "8".to_owned(), ..mark("me", 4) }), "has been started");
        refused(Some(&Mark { target: "u".to_owned(), ..mark("me", 4) }), "wrote to table `u`");
        refused(None, "start the job anew");
    }
}
