//! The node among others: its port, its place in the coordinator's table, and its view of the rest.
//!
//! ```text
//! --cluster-listen ─▶ ClusterPort ◀── other nodes
//! --coordinator    ─▶ etcd        ┐
//! --join           ─▶ voters      ┴─▶ ClusterMember ─▶ incarnation, view, events
//! ```
//!
//! A node joins before it opens its log: the incarnation of this life goes into what the log writes.
//! Losing the coordinator stops changes of the cluster and nothing else.
//!
//! Read in this order: [`membership`], `coordinator`, `requests`, `transport`, `reachability`.

mod coordinator;
pub mod membership;
mod reachability;
mod requests;
mod transport;

pub use membership::{ChangeError, ClusterError, ClusterNode, ClusterPlan};
pub use reachability::PeerContact;
