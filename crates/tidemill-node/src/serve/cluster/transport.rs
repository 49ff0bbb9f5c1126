//! Messages of the coordinator's voters over the cluster port.

use super::requests::RequestKind;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_cluster::{CallError, Peers, Refusal};
use tidemill_env::lock::Mutex;
use tidemill_raft::{Transport, TransportError};
use tidemill_types::NodeId;

/// Addresses whose node is not known yet are called as these, which no node is: the refusal, which
/// is believed with the port's proof alone, tells the node.
const NOBODY: i32 = i32::MAX;

/// The way to other nodes' voters.
pub(super) struct PortTransport {
    peers: Arc<Peers>,
    /// The nodes at addresses, as the last call found them.
    nodes: Mutex<BTreeMap<String, NodeId>>,
}

impl PortTransport {
    pub(super) fn new(peers: Arc<Peers>) -> Self {
        Self { peers, nodes: Mutex::default() }
    }

    /// The node at an address.
    fn find(&self, address: &str, timeout: Duration) -> Result<NodeId, TransportError> {
        let known = {
            let nodes = self.nodes.lock();
            nodes.get(address).copied().ok_or_else(|| NodeId(NOBODY - nodes.len() as i32))
        };
        let nobody = match known {
            Ok(node) => return Ok(node),
            Err(nobody) => nobody,
        };
        let kind = RequestKind::Coordinator.number();
        match self.peers.call(address, nobody, kind, Vec::new(), timeout) {
            Err(error) => match error.refusal() {
                Some(Refusal::WrongNode(node)) => {
                    self.nodes.lock().insert(address.to_owned(), *node);
                    Ok(*node)
                }
                _ => Err(TransportError::NotSent(error.to_string())),
            },
            Ok(_) => Err(TransportError::NotSent(format!("{address} answers for any node"))),
        }
    }
}

impl Transport for PortTransport {
    fn call(
        &self,
        address: &str,
        node: Option<NodeId>,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, TransportError> {
        let node = node.map_or_else(|| self.find(address, timeout), Ok)?;
        let kind = RequestKind::Coordinator.number();
        self.peers.call(address, node, kind, message, timeout).map_err(|error| {
            if matches!(error.refusal(), Some(Refusal::WrongNode(_))) {
                self.nodes.lock().remove(address);
            }
            let why = text(&error);
            if error.may_have_been_handled() {
                TransportError::NoAnswer(why)
            } else {
                TransportError::NotSent(why)
            }
        })
    }
}

/// The fault alone: the caller names the address.
fn text(error: &CallError) -> String {
    match error {
        CallError::Unreachable { reason, .. } => reason.clone(),
        CallError::Refused { refusal, .. } | CallError::Disbelieved { refusal, .. } => {
            refusal.to_string()
        }
        other => other.to_string(),
    }
}
