//! Open transactions in streamlets, as their leaders know them.
//!
//! A coordinator that ends a transaction while a partition has no leader takes that partition for
//! deleted, and says that all is done (Kafka 4.3). Then the rows there are undecided, and get the
//! end of the next transaction under the id. So before the first transaction after a take-over the
//! leaders are asked, and a transaction is only begun while the same ones lead: a new leader may
//! have been away when the last transaction ended.
//!
//! Invariant: after the coordinator has said that the id was taken over, or that its last
//! transaction is complete, whatever is open in a streamlet under its producer has lost its end.

use super::{Transactions, call};
use crate::{
    AdminError, CallError, Refusal,
    admin::{about, streamlet},
    cluster::Metadata,
};
use std::collections::BTreeMap;
use tidemill_types::{LeaderEpoch, NodeId, ProducerId};
use tidemill_wire::kafka::{
    ApiKey, ErrorCode,
    message::{DescribeProducersRequestData, describe_producers_request::TopicRequest},
    text,
};

/// In which epoch each streamlet's leader leads.
pub(super) type Epochs = BTreeMap<i32, LeaderEpoch>;

fn epochs(metadata: &Metadata, stream: &str) -> Epochs {
    let streamlets = metadata.streams.get(stream).into_iter().flat_map(|it| &it.streamlets);
    streamlets.map(|(index, it)| (*index, it.leader_epoch)).collect()
}

/// Refuses to go on with streamlets that have been led anew since these epochs.
pub(super) fn check_epochs(
    known: &Epochs,
    metadata: &Metadata,
    stream: &str,
) -> Result<(), AdminError> {
    let now = epochs(metadata, stream);
    let is_another =
        |(index, epoch): &(&i32, &LeaderEpoch)| now.get(index).is_some_and(|it| it != *epoch);
    let Some((index, _)) = known.iter().find(is_another) else { return Ok(()) };
    let message = "it is led anew; what its leader knows is asked for first";
    let refusal =
        Refusal { code: ErrorCode::NotLeaderOrFollower, message: Some(message.to_owned()) };
    Err(about(streamlet(stream, *index))(refusal))
}

impl Transactions {
    /// Streamlets by their leaders, and their epochs. Refuses if one has no leader: nothing is to
    /// be ended then.
    pub(super) fn leaders(
        &self,
        stream: &str,
    ) -> Result<(BTreeMap<NodeId, Vec<i32>>, Epochs), AdminError> {
        let metadata = self.admin.metadata(Some(&[stream]))?;
        let mut by_leader: BTreeMap<NodeId, Vec<i32>> = BTreeMap::new();
        let streamlets = metadata.streams.get(stream).into_iter().flat_map(|it| &it.streamlets);
        for (index, it) in streamlets {
            let Some(leader) = it.leader else {
                let refusal = Refusal { code: ErrorCode::LeaderNotAvailable, message: None };
                return Err(about(streamlet(stream, *index))(refusal));
            };
            by_leader.entry(leader).or_default().push(*index);
        }
        Ok((by_leader, epochs(&metadata, stream)))
    }

    /// Refuses if something of this producer is open in a stream. Gives back by whom it is led.
    pub(super) fn nothing_is_open(
        &self,
        stream: &str,
        producer_id: ProducerId,
    ) -> Result<Epochs, AdminError> {
        let (by_leader, epochs) = self.leaders(stream)?;
        for (leader, indexes) in by_leader {
            self.nothing_is_open_at(leader, (stream, &indexes), producer_id)?;
        }
        Ok(epochs)
    }

    fn nothing_is_open_at(
        &self,
        leader: NodeId,
        (stream, indexes): (&str, &[i32]),
        producer_id: ProducerId,
    ) -> Result<(), AdminError> {
        let connection = self.admin.node(leader)?;
        // Brokers of before Kafka 2.8 cannot say.
        if let Err(CallError::Unsupported { .. }) = connection.version(ApiKey::DescribeProducers) {
            return Ok(());
        }
        let topic = TopicRequest::default().with_name(text(stream));
        let topic = topic.with_partition_indexes(indexes.to_vec());
        let request = DescribeProducersRequestData::default().with_topics(vec![topic]);
        let answer = call(&connection, &request)?;
        for row in answer.topics.iter().flat_map(|it| &it.partitions) {
            match ErrorCode::from(row.error_code) {
                // Who may write need not be one who may read.
                ErrorCode::TopicAuthorizationFailed => continue,
                _ => Refusal::check(row.error_code, row.error_message.as_ref())
                    .map_err(about(streamlet(stream, row.partition_index)))?,
            }
            let mine = row.active_producers.iter().find(|it| it.producer_id == producer_id.0);
            if mine.is_some_and(|it| it.current_txn_start_offset >= 0) {
                let message = "a transaction is open there that its coordinator takes for ended; \
                               if that stays so, `kafka-transactions.sh abort` ends it";
                let code = ErrorCode::ConcurrentTransactions;
                return Err(about(streamlet(stream, row.partition_index))(Refusal {
                    code,
                    message: Some(message.to_owned()),
                }));
            }
        }
        Ok(())
    }
}
