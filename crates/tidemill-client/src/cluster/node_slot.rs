//! One address, and how it went with it so far.

use super::NodeRoute;
use crate::{connection::Connection, error::CallError};

/// A connection that lived this long did not fail at its beginning.
const GOOD_US: u64 = 10_000_000;

/// The connection to an address: there is at most one.
pub(super) struct NodeSlot {
    address: String,
    connection: Option<Connection>,
    opened_us: u64,
    /// The number of failures in a row.
    failures: u32,
    rests_until_us: u64,
    last_error: Option<CallError>,
}

impl NodeSlot {
    pub(super) fn new(address: String) -> Self {
        Self {
            address,
            connection: None,
            opened_us: 0,
            failures: 0,
            rests_until_us: 0,
            last_error: None,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Takes the connection out; the caller ends it.
    pub(super) fn take(&mut self) -> Option<Connection> {
        self.connection.take()
    }

    /// The connection, if requests can be sent.
    pub(super) fn ready(&self) -> Option<Connection> {
        self.connection.clone().filter(Connection::is_ready)
    }

    pub(super) fn is_opening(&self) -> bool {
        self.connection.as_ref().is_some_and(|it| !it.is_ready() && it.ended().is_none())
    }

    pub(super) fn opened_us(&self) -> u64 {
        self.opened_us
    }

    pub(super) fn rests_until_us(&self) -> u64 {
        self.rests_until_us
    }

    /// True if an attempt that began at or after this moment has failed.
    pub(super) fn failed_since(&self, moment_us: u64) -> bool {
        self.connection.is_none() && self.last_error.is_some() && self.opened_us >= moment_us
    }

    /// Notes the end of the connection; `rest_us` gives the rest after a number of failures in a
    /// row.
    pub(super) fn look_after(&mut self, now_us: u64, rest_us: impl FnOnce(u32) -> u64) {
        let Some(error) = self.connection.as_ref().and_then(Connection::ended) else { return };
        self.connection = None;
        // A connection that served for a while and was then lost is worth a try at once.
        self.failures =
            if now_us.saturating_sub(self.opened_us) > GOOD_US { 1 } else { self.failures + 1 };
        self.rests_until_us = now_us.saturating_add(rest_us(self.failures));
        self.last_error = Some(error);
    }

    /// The way to this address; begins to connect with `open` if there is no connection and it does
    /// not rest.
    pub(super) fn way(&mut self, now_us: u64, open: impl FnOnce(&str) -> Connection) -> NodeRoute {
        match &self.connection {
            Some(connection) if connection.is_ready() => NodeRoute::Ready(connection.clone()),
            Some(_) => NodeRoute::Opening { until_us: u64::MAX },
            None if now_us < self.rests_until_us => NodeRoute::Resting {
                until_us: self.rests_until_us,
                error: self.last_error.clone().unwrap_or(CallError::Closed),
            },
            None => {
                self.opened_us = now_us;
                self.connection = Some(open(&self.address));
                NodeRoute::Opening { until_us: u64::MAX }
            }
        }
    }
}
