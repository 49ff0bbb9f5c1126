//! A connection that is made on first use, and again after it broke.
//!
//! Invariant: after a failure the connection is given up, so no transaction is left open on it and
//! no statement finds leftovers of an earlier one.

use super::address::Address;
use super::connection::PostgresConnection;
use super::fault::DatabaseFault;
use tidemill_env::World;
use tidemill_flow::RetryPolicy;
use tokio_postgres::{Client, SimpleQueryMessage};

/// The beginning of every transaction, whatever the role's settings: a wait for a lock is bounded; a
/// transaction whose process or machine is gone ends, and its locks with it; and no acknowledged commit
/// is undone by a crash of the server.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; \
    SET LOCAL lock_timeout = '5s'; \
    SET LOCAL idle_in_transaction_session_timeout = '20s'; \
    SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 5; \
    SET LOCAL tcp_keepalives_count = 3; SET LOCAL tcp_user_timeout = '30s'; \
    SET LOCAL client_min_messages = warning; \
    SELECT set_config('synchronous_commit', 'on', true) \
        WHERE current_setting('synchronous_commit') = 'off';";

/// Longest wait of a starting job for its database, in microseconds: longer than the transaction of a dead
/// process keeps its locks.
const BEGIN_PATIENCE_US: u64 = 60_000_000;

/// See the module.
pub(super) struct Session {
    world: World,
    address: Address,
    connection: Option<PostgresConnection>,
    patience: RetryPolicy,
}

impl Session {
    pub(super) fn new(world: &World, address: Address, connection: PostgresConnection) -> Self {
        let (world, patience) = (world.clone(), RetryPolicy::new(world));
        Self { world, address, connection: Some(connection), patience }
    }

    pub(super) fn retry_with(&mut self, patience: RetryPolicy) {
        self.patience = patience;
    }

    pub(super) fn shown(&self) -> &str {
        &self.address.shown
    }

    /// Tries again and again, with rests, until it is done or cannot be: for ever once the job runs.
    pub(super) fn persist<T>(
        &mut self,
        attempt: impl AsyncFnMut(&Client) -> Result<T, DatabaseFault>,
    ) -> Result<T, String> {
        self.persist_or_tell(attempt).map_err(|fault| match fault {
            DatabaseFault::Passing(error) | DatabaseFault::Lasting(error) => error,
        })
    }

    /// As [`Self::persist`]; in a job that does not run yet, a wait that was too long may pass later.
    pub(super) fn persist_or_tell<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&Client) -> Result<T, DatabaseFault>,
    ) -> Result<T, DatabaseFault> {
        let begun_us = self.world.clock.monotonic_micros();
        loop {
            match self.attempt(&mut attempt) {
                Ok(done) => {
                    self.patience.succeeded();
                    return Ok(done);
                }
                Err(DatabaseFault::Passing(error)) if self.patience.gives_up() => {
                    return Err(DatabaseFault::Lasting(RetryPolicy::give_up_message(error)));
                }
                Err(fault @ DatabaseFault::Passing(_))
                    if !self.patience.runs() && self.has_waited(begun_us) =>
                {
                    return Err(fault);
                }
                Err(DatabaseFault::Passing(error)) => {
                    let shown = &self.address.shown;
                    self.patience.report(format_args!("the database at `{shown}`: {error}"));
                    self.patience.pause();
                }
                Err(lasting) => return Err(lasting),
            }
        }
    }

    fn has_waited(&self, since_us: u64) -> bool {
        let now_us = self.world.clock.monotonic_micros();
        now_us.saturating_sub(since_us) >= BEGIN_PATIENCE_US
    }

    fn attempt<T>(
        &mut self,
        attempt: &mut impl AsyncFnMut(&Client) -> Result<T, DatabaseFault>,
    ) -> Result<T, DatabaseFault> {
        let connection = match self.connection.take().filter(|it| !it.is_closed()) {
            Some(connection) => connection,
            None => self.address.connect(&self.world, async |_| Ok(()))?.0,
        };
        let patience = &mut self.patience;
        match connection.wait(attempt, || patience.gives_up()) {
            Some(done) => {
                let done = done?;
                self.connection = Some(connection);
                Ok(done)
            }
            None => {
                let error = format!("the database at `{}` does not answer", self.address.shown);
                Err(DatabaseFault::Lasting(RetryPolicy::give_up_message(error)))
            }
        }
    }

    pub(super) fn close(&mut self) {
        self.connection = None;
    }
}

/// The last row of the statements' results, as texts.
pub(super) fn last_row(messages: &[SimpleQueryMessage]) -> Option<Vec<Option<String>>> {
    messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|it| row.get(it).map(str::to_owned)).collect())
        }
        _ => None,
    })
}
