//! The connection to a Redis server: made when it is needed, made again after an error.

use super::durability::{self, Durability};
use redis::{Client, Connection, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline};
use redis::{RedisError, ServerErrorKind};
use std::{env, time::Duration};
use tidemill_checkpoints::BackendError;
use tidemill_types::job::{RedisSpec, shown};

/// The time limit of a connection attempt, if a request may take that long.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection that is opened when it is needed.
pub(super) struct RedisConnection {
    /// The server and the place on it.
    place: String,
    client: Client,
    timeout: Duration,
    open: Option<OpenConnection>,
    /// The last warning about the server's settings, which is logged once.
    said: Vec<String>,
}

struct OpenConnection {
    connection: Connection,
    durability: Durability,
}

impl RedisConnection {
    /// Parses the address. All names begin with `under`.
    pub(super) fn new(spec: &RedisSpec, under: &str) -> Result<Self, BackendError> {
        let place = format!("{}, keys {under}:*", shown(&spec.url));
        let refuse = |error: RedisError| BackendError::Refused {
            place: place.clone(),
            why: format!("{error}; an address is `redis://HOST:PORT/DB`"),
        };
        let info = spec.url.as_str().into_connection_info().map_err(refuse)?;
        let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
        let given = |name: &str| env::var(name).ok().filter(|it| !it.is_empty());
        if settings.password().is_none()
            && let Some(password) = given("REDIS_PASSWORD")
        {
            settings = settings.set_password(password);
        }
        if settings.username().is_none()
            && let Some(user) = given("REDIS_USERNAME")
        {
            settings = settings.set_username(user);
        }
        let client = Client::open(info.set_redis_settings(settings)).map_err(refuse)?;
        let timeout = Duration::from_micros(spec.timeout.0.max(1).unsigned_abs());
        Ok(Self { place, client, timeout, open: None, said: Vec::new() })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Sends commands and returns the answers. Reopens a dead connection and repeats the commands
    /// once: all commands here may be sent twice.
    pub(super) fn ask<T: FromRedisValue>(
        &mut self,
        pipeline: &Pipeline,
    ) -> Result<T, BackendError> {
        let was_open = self.open.is_some();
        let first = self.try_ask(pipeline);
        let asked = match first {
            Err(error) if was_open && error.is_connection_dropped() => self.try_ask(pipeline),
            other => other,
        };
        asked.map_err(|error| self.told(&error))
    }

    /// As [`Self::ask`], on the connection that there is.
    pub(super) fn ask_once<T: FromRedisValue>(
        &mut self,
        pipeline: &Pipeline,
    ) -> Result<T, BackendError> {
        self.try_ask(pipeline).map_err(|error| self.told(&error))
    }

    /// Makes acknowledged writes of this connection durable, as far as the server can.
    pub(super) fn sync(&mut self) -> Result<(), BackendError> {
        let Some(OpenConnection { durability: Durability::Wait, .. }) = self.open else {
            return Ok(());
        };
        let mut wait = redis::pipe();
        wait.cmd("WAITAOF").arg(1).arg(0).arg(self.timeout.as_millis() as u64);
        let ((local, _),): ((u64, u64),) = self.ask_once(&wait)?;
        if local == 0 {
            let why = format!("it was not synced there within {:?}", self.timeout);
            return Err(BackendError::Unreachable { place: self.place.clone(), why });
        }
        Ok(())
    }

    fn try_ask<T: FromRedisValue>(&mut self, pipeline: &Pipeline) -> Result<T, RedisError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let answer = pipeline.query(&mut open.connection);
        // After an answer that did not come, or not as expected, the next one would be another's.
        let is_in_step = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension),
        };
        self.open = is_in_step.then_some(open);
        answer
    }

    fn connect(&mut self) -> Result<OpenConnection, RedisError> {
        let mut connection = self.client.get_connection_with_timeout(CONNECT.min(self.timeout))?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;
        let (durability, warnings) = durability::of(&mut connection)?;
        for warning in warnings {
            if !self.said.contains(&warning) {
                tracing::warn!(place = self.place, "{warning}");
                self.said.push(warning);
            }
        }
        Ok(OpenConnection { connection, durability })
    }

    fn told(&self, error: &RedisError) -> BackendError {
        let place = self.place.clone();
        let is_busy = matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
            )
        );
        if error.is_timeout() {
            let why = format!("no answer within {:?}", self.timeout);
            return BackendError::Unreachable { place, why };
        }
        if error.is_io_error() || is_busy {
            return BackendError::Unreachable { place, why: error.to_string() };
        }
        let text = error.to_string();
        let is_about_who = error.kind() == ErrorKind::AuthenticationFailed
            || ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| text.contains(code));
        let why = match error.kind() {
            _ if is_about_who => format!(
                "{text}. Say who this is in the address, `redis://USER:PASSWORD@HOST`, or in \
                 REDIS_USERNAME and REDIS_PASSWORD"
            ),
            ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                format!("{text}. It is a replica: give the address of the primary")
            }
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                format!("{text}. It is part of a cluster, which is not supported")
            }
            _ if text.contains("OOM") => format!("{text}. Raise `maxmemory` there"),
            _ => text,
        };
        BackendError::Refused { place, why }
    }
}
