//! The way of messages between nodes, and the consensus library's network on it.

use crate::{
    message::{Answer, Message, decode, encode},
    voter::{TableRaft, Voter, node_id},
};
use openraft::{
    OptionalSend, Snapshot, Vote,
    error::{
        Fatal, InstallSnapshotError, NetworkError, RPCError, RaftError, ReplicationClosed,
        StreamingError, Unreachable,
    },
    network::{RPCOption, RaftNetwork, RaftNetworkFactory},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest,
        InstallSnapshotResponse, SnapshotResponse, VoteRequest, VoteResponse,
    },
};
use std::{future::Future, io, sync::Arc, time::Duration};
use tidemill_types::NodeId;

/// Sends messages to other nodes.
pub trait Transport: Send + Sync {
    /// Sends a message to the node at an address and waits for its answer. If `node` is given, only
    /// that node may answer.
    ///
    /// # Errors
    /// [`TransportError::NotSent`] if the node cannot have seen the message.
    fn call(
        &self,
        address: &str,
        node: Option<NodeId>,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, TransportError>;
}

/// Why no answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The node has not seen the message.
    #[error("{0}")]
    NotSent(String),
    /// The node may have seen the message.
    #[error("{0}")]
    NoAnswer(String),
}

/// Sends a message and reads its answer.
pub(crate) fn exchange(
    transport: &dyn Transport,
    address: &str,
    node: Option<NodeId>,
    message: &Message,
    timeout: Duration,
) -> Result<Answer, TransportError> {
    let bytes = transport.call(address, node, encode(message), timeout)?;
    decode(&bytes).map_err(TransportError::NoAnswer)
}

/// Makes a client of each voter for the library.
#[derive(Clone)]
pub(crate) struct Network(pub(crate) Arc<dyn Transport>);

/// One voter as another one sees it.
pub(crate) struct VoterClient {
    transport: Arc<dyn Transport>,
    node: NodeId,
    voter: Voter,
}

impl RaftNetworkFactory<TableRaft> for Network {
    type Network = VoterClient;

    async fn new_client(&mut self, target: u64, voter: &Voter) -> VoterClient {
        VoterClient { transport: Arc::clone(&self.0), node: node_id(target), voter: voter.clone() }
    }
}

impl VoterClient {
    /// Sends a message on a thread that may block.
    async fn send(&self, message: Message, timeout: Duration) -> Result<Answer, io::Error> {
        let (transport, address, node) =
            (Arc::clone(&self.transport), self.voter.address.clone(), self.node);
        let sent = tokio::task::spawn_blocking(move || {
            exchange(&*transport, &address, Some(node), &message, timeout)
        });
        match sent.await {
            Ok(Ok(Answer::Failed(why))) => Err(io::Error::other(why)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer of another kind")
}

type RaftCallError<E = RaftError<u64>> = RPCError<u64, Voter, E>;

impl RaftNetwork<TableRaft> for VoterClient {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TableRaft>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RaftCallError> {
        match self
            .send(Message::Append { to: self.voter.directory, request }, option.hard_ttl())
            .await
        {
            Ok(Answer::Append(answer)) => Ok(answer),
            Ok(_) => Err(NetworkError::new(&foreign()).into()),
            Err(error) => Err(Unreachable::new(&error).into()),
        }
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<TableRaft>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RaftCallError<RaftError<u64, InstallSnapshotError>>>
    {
        let never = io::Error::new(io::ErrorKind::Unsupported, "snapshots are sent whole");
        Err(NetworkError::new(&never).into())
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RaftCallError> {
        match self
            .send(Message::Vote { to: self.voter.directory, request }, option.hard_ttl())
            .await
        {
            Ok(Answer::Vote(answer)) => Ok(answer),
            Ok(_) => Err(NetworkError::new(&foreign()).into()),
            Err(error) => Err(Unreachable::new(&error).into()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<TableRaft>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TableRaft, Fatal<u64>>> {
        let Snapshot { meta, snapshot } = snapshot;
        let to = self.voter.directory;
        let message = Message::Snapshot { to, vote, meta, table: *snapshot };
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = self.send(message, option.hard_ttl()) => match sent {
                Ok(Answer::Snapshot(answer)) => Ok(answer),
                Ok(_) => Err(NetworkError::new(&foreign()).into()),
                Err(error) => Err(Unreachable::new(&error).into()),
            },
        }
    }
}
