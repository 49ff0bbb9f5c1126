//! A connection that is made on first use, and again after it broke.
//!
//! Invariant: after a failure the connection is given up, so no transaction is left open on it and
//! no statement finds leftovers of an earlier one.

use super::address::Address;
use super::connection::PostgresConnection;
use tidemill_env::World;
use tidemill_flow::{RetryPolicy, SinkError};
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
    /// In a job that does not run yet, a wait that was too long is an error to retry.
    pub(super) fn persist<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&Client) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let begun_us = self.world.clock.monotonic_micros();
        loop {
            match self.attempt(&mut attempt) {
                Ok(done) => {
                    self.patience.succeeded();
                    return Ok(done);
                }
                Err(error) if !error.is_retry() => return Err(error),
                Err(error) if self.patience.gives_up() => return Err(given_up(error)),
                Err(error) if !self.patience.runs() && self.has_waited(begun_us) => {
                    return Err(error);
                }
                Err(error) => {
                    let shown = &self.address.shown;
                    self.patience.report(format_args!("the database at `{shown}`: {error}"));
                    self.patience.pause();
                }
            }
        }
    }

    fn has_waited(&self, since_us: u64) -> bool {
        let now_us = self.world.clock.monotonic_micros();
        now_us.saturating_sub(since_us) >= BEGIN_PATIENCE_US
    }

    fn attempt<T>(
        &mut self,
        attempt: &mut impl AsyncFnMut(&Client) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
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
                Err(given_up(error))
            }
        }
    }

    pub(super) fn close(&mut self) {
        self.connection = None;
    }
}

/// The error of a request that is given up, as the job stops.
fn given_up(error: impl std::fmt::Display) -> SinkError {
    SinkError::new(RetryPolicy::give_up_message(error))
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
