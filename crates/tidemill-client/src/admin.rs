//! Admin: streams, their settings and offsets, and consumer groups. Every call waits for its
//! answer.
//!
//! Queries are repeated while a node is not ready or has just lost a leadership, within
//! [`ClientOptions::request_timeout`]. Changes are sent once: a missing answer does not say if they
//! were made.
//!
//! [`ClientOptions::request_timeout`]: crate::ClientOptions::request_timeout

use crate::{
    CallError, Client, Refusal,
    cluster::{Cluster, Metadata, request},
    connection::Connection,
    options::micros,
};
use std::{sync::Arc, time::Duration};
use tidemill_types::{NodeId, signs};
use tidemill_wire::kafka::{ErrorCode, Request, message::MetadataRequestData};

/// So often a node is tried that closes connections at once: one that has too many may do so, and
/// one that asks for TLS always does.
const AT_ONCE_TRIES: u32 = 5;
/// In this time a cluster notices that a node has died, in microseconds: Kafka's
/// `broker.session.timeout.ms` is 9 s, and then it chooses other leaders.
const NOTICED_US: u64 = 15_000_000;

mod groups;
pub(crate) mod offsets;
mod records;
mod settings;
mod streams;

pub use groups::{GroupDescription, GroupOffset, GroupSummary, Member};
pub use offsets::{Offset, OffsetAt};
pub use settings::{Setting, SettingSource};
pub use streams::{NewStream, StreamDescription, StreamSummary, StreamletDescription};

/// Why something could not be asked or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// No node could be asked, or none answered.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A node refused.
    #[error("{subject}: {refusal}")]
    Refused {
        /// The subject, such as "stream `orders`".
        subject: String,
        /// The node's refusal.
        refusal: Refusal,
    },
}

impl AdminError {
    /// The node's error code, if a node refused.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal.code),
            Self::Call(_) => None,
        }
    }

    /// True if the same request may succeed a little later, or at another node.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Call(error) => matches!(error, CallError::Lost { .. }),
            Self::Refused { refusal, .. } => refusal.code.is_retriable(),
        }
    }
}

/// Adds the subject to a refusal.
pub(crate) fn about(subject: impl Into<String>) -> impl FnOnce(Refusal) -> AdminError {
    move |refusal| AdminError::Refused { subject: subject.into(), refusal }
}

/// A stream, as errors name it, with the characters of the name that cannot be seen.
pub(crate) fn stream(name: &str) -> String {
    format!("stream `{name}`{}", signs::note(name, None))
}

/// A streamlet, as errors name it.
pub(crate) fn streamlet(name: &str, index: i32) -> String {
    format!("{} streamlet {index}", stream(name))
}

/// See the module. It has connections of its own, opened when they are needed.
#[derive(Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Client {
    /// An admin of this client's cluster.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin { cluster: Cluster::new(&self.world, &self.options) }
    }
}

impl Admin {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    /// Ends all connections; calls fail from now on.
    pub(crate) fn close(&self) {
        self.cluster.close();
    }

    /// When a call that begins now gives up.
    pub(crate) fn deadline_us(&self) -> u64 {
        self.cluster.now_us().saturating_add(micros(self.cluster.options().request_timeout))
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.cluster.now_us()
    }

    pub(crate) fn rest(&self, rest_us: u64) {
        self.cluster.world().clock.sleep_micros(rest_us);
    }

    /// A connection to any node.
    fn any(&self) -> Result<Connection, CallError> {
        let patience_us = micros(self.cluster.options().connect_timeout);
        self.cluster.wait_any(self.cluster.now_us().saturating_add(patience_us))
    }

    /// A connection to a node of the metadata.
    pub(crate) fn node(&self, id: NodeId) -> Result<Connection, CallError> {
        let patience_us = micros(self.cluster.options().connect_timeout);
        let deadline_us = self.cluster.now_us().saturating_add(patience_us);
        self.cluster.wait_node(id, deadline_us).map_err(|error| match error {
            CallError::Unreachable { address, reason } => CallError::NodeAway { address, reason },
            other => other,
        })
    }

    /// A connection to the node that makes changes.
    fn controller(&self) -> Result<Connection, AdminError> {
        let metadata = self.metadata(Some(&[]))?;
        Ok(match metadata.controller.filter(|it| metadata.nodes.contains_key(it)) {
            Some(id) => self.node(id)?,
            None => self.any()?,
        })
    }

    /// Asks any node.
    fn ask<R: Request>(&self, request: &R) -> Result<R::Response, AdminError> {
        self.again(|| Ok(self.any()?.call(request, Duration::ZERO)?))
    }

    /// Repeats an attempt that failed because a node has gone, until the cluster has had time to
    /// name another one. For callers that can wait.
    pub(crate) fn again_elsewhere<T>(
        &self,
        attempt: impl FnMut() -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        let until_us = self.cluster.now_us().saturating_add(NOTICED_US);
        let is_passing = |error: &AdminError| {
            let is_away = matches!(error, AdminError::Call(CallError::NodeAway { .. }));
            is_away && self.cluster.now_us() < until_us
        };
        self.again_if(is_passing, attempt)
    }

    /// Repeats an idempotent attempt until it has a lasting outcome, or time is up.
    pub(crate) fn again<T>(
        &self,
        attempt: impl FnMut() -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        self.again_if(AdminError::is_passing, attempt)
    }

    fn again_if<T>(
        &self,
        is_passing: impl Fn(&AdminError) -> bool,
        mut attempt: impl FnMut() -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        let deadline_us = self.deadline_us();
        let mut failures = 0;
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            failures += 1;
            let rest =
                crate::backoff::rest_us(failures, self.cluster.options(), self.cluster.random());
            let at_once = matches!(error, AdminError::Call(CallError::ClosedAtOnce { .. }))
                && failures < AT_ONCE_TRIES;
            if !(is_passing(&error) || at_once)
                || self.cluster.now_us().saturating_add(rest) >= deadline_us
            {
                return Err(error);
            }
            self.cluster.world().clock.sleep_micros(rest);
        }
    }

    /// New metadata of some streams, or of all.
    pub(crate) fn metadata(&self, streams: Option<&[&str]>) -> Result<Arc<Metadata>, AdminError> {
        let request = match streams {
            Some(names) => request(Some(&mut names.iter().copied())),
            None => request(None),
        };
        let answer = self.ask::<MetadataRequestData>(&request)?;
        let now_us = self.cluster.now_us();
        let metadata = Metadata::read(&answer, &self.cluster.metadata(), now_us);
        self.cluster.take_metadata(metadata);
        let listed = Metadata::read(&answer, &Metadata::default(), now_us);
        Ok(Arc::new(listed))
    }
}
