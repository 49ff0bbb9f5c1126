//! Errors of calls, by what a caller may conclude.

use std::time::Duration;
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::Refusal;

/// Why a call brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection could be made. The request was not sent.
    #[error("node {node} at {address} cannot be reached: {reason}")]
    Unreachable {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
        /// The fault.
        reason: String,
    },
    /// The other node refused the connection or the request.
    #[error("node {node} at {address} refused: {refusal}")]
    Refused {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
        /// Its reason.
        refusal: Refusal,
    },
    /// This node refuses the other one. The request was not sent, or its answer is not believed.
    #[error("node {node} at {address} is not believed: {refusal}")]
    Disbelieved {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
        /// The reason.
        refusal: Refusal,
        /// True if the request was sent.
        was_sent: bool,
    },
    /// The connection ended after the request was sent. It may have been handled.
    #[error("the connection to node {node} at {address} ended before the answer came: {reason}")]
    Lost {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
        /// The fault.
        reason: String,
    },
    /// No answer came in time. It may have been handled if it was sent.
    #[error("node {node} at {address} did not answer in {timeout:?}")]
    TimedOut {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
        /// The time that the caller gave.
        timeout: Duration,
        /// True if the request was sent.
        was_sent: bool,
    },
    /// The body is over this node's own limit.
    #[error("a body of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Bytes of the body.
        bytes: usize,
        /// The limit.
        bytes_max: u32,
    },
    /// The node has a new incarnation since the request was made.
    #[error("the request is of incarnation {made_in}, and this node is in {now} by now")]
    Outdated {
        /// The incarnation of the request.
        made_in: Incarnation,
        /// The present incarnation.
        now: Incarnation,
    },
    /// This node has links to as many nodes as it may have.
    #[error("this node has links to {0} others, which is the limit")]
    TooManyLinks(usize),
    /// The links of this node are closed.
    #[error("this node is stopping")]
    Stopped,
}

impl CallError {
    /// True if the other node may have handled the request. False is certain.
    #[must_use]
    pub fn may_have_been_handled(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Refused { refusal, .. } => matches!(refusal, Refusal::Failed(_)),
            Self::TimedOut { was_sent, .. } | Self::Disbelieved { was_sent, .. } => *was_sent,
            _ => false,
        }
    }

    /// The refusal of the other node.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }
}
