//! The cluster port: how nodes speak to each other.
//!
//! ```text
//! Peers ── one link a node ──▶ TCP ──▶ ClusterPort ──▶ Handler
//!   call(address, node, kind, body)      handshake, fence, limits     answer, in any order
//! ```
//!
//! Both sides prove that they have the cluster's key, then all frames are sealed with keys of that
//! one connection. A frame that was changed, replayed, cut short or reordered does not open, and
//! ends its connection. Each frame says the incarnation of its sender. A lower one than the newest
//! known is refused and counted.
//!
//! Read in this order: [`key`], [`identity`], [`fence`], [`handshake`], `cipher`, [`request`],
//! [`port`], [`peers`].
//!
//! Invariants:
//! - No byte from outside panics, or allocates more than a limit, or is believed before its tag is
//!   checked.
//! - A call ends with an answer or an error by its deadline, and an answer belongs to its request.
//! - Every queue, wait and number of connections has a limit ([`limits`]).
//! - Nothing here knows a coordinator: membership is asked through [`Fence`].

mod cipher;
mod deadline;
pub mod error;
pub mod fence;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod handshake;
pub mod identity;
pub mod key;
pub mod limits;
mod log_gate;
pub mod metrics;
pub mod options;
mod outbox;
pub mod peers;
pub mod port;

pub mod request;
#[cfg(test)]
mod tests;
mod transport;

pub use error::CallError;
pub use fence::{Fence, NewestIncarnations};
pub use identity::{Identity, IdentityCell};
pub use key::{ClusterKey, KeyError};
pub use limits::ClusterLimits;
pub use metrics::ClusterPortMetrics;
pub use options::ClusterOptions;
pub use peers::{Peers, PendingCall};
pub use port::ClusterPort;
pub use request::{Handler, Peer, PeerReply, PeerRequest};
pub use tidemill_wire::cluster::Refusal;
