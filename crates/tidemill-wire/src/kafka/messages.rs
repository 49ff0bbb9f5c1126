//! Which requests and responses belong together.

use super::{ApiKey, Message, MessageError, Request, message};
use bytes::{Bytes, BytesMut};

macro_rules! message {
    ($path:path) => {
        impl Message for $path {
            fn read(bytes: &mut Bytes, version: i16) -> Result<Self, MessageError> {
                Ok(<$path>::read(bytes, version)?)
            }
            fn write(&self, into: &mut BytesMut, version: i16) -> Result<(), MessageError> {
                Ok(<$path>::write(self, into, version)?)
            }
        }
    };
}

macro_rules! pairs {
    ($($key:ident $request:ident $response:ident;)*) => {$(
        message!(message::$request);
        message!(message::$response);
        impl Request for message::$request {
            const KEY: ApiKey = ApiKey::$key;
            type Response = message::$response;
        }
    )*};
}

pairs! {
    ApiVersions ApiVersionsRequestData ApiVersionsResponseData;
    Metadata MetadataRequestData MetadataResponseData;
    Produce ProduceRequestData ProduceResponseData;
    Fetch FetchRequestData FetchResponseData;
    ListOffsets ListOffsetsRequestData ListOffsetsResponseData;
    FindCoordinator FindCoordinatorRequestData FindCoordinatorResponseData;
    JoinGroup JoinGroupRequestData JoinGroupResponseData;
    SyncGroup SyncGroupRequestData SyncGroupResponseData;
    Heartbeat HeartbeatRequestData HeartbeatResponseData;
    LeaveGroup LeaveGroupRequestData LeaveGroupResponseData;
    OffsetCommit OffsetCommitRequestData OffsetCommitResponseData;
    OffsetFetch OffsetFetchRequestData OffsetFetchResponseData;
    DescribeGroups DescribeGroupsRequestData DescribeGroupsResponseData;
    ListGroups ListGroupsRequestData ListGroupsResponseData;
    DeleteGroups DeleteGroupsRequestData DeleteGroupsResponseData;
    OffsetDelete OffsetDeleteRequestData OffsetDeleteResponseData;
    CreateTopics CreateTopicsRequestData CreateTopicsResponseData;
    DeleteTopics DeleteTopicsRequestData DeleteTopicsResponseData;
    DeleteRecords DeleteRecordsRequestData DeleteRecordsResponseData;
    CreatePartitions CreatePartitionsRequestData CreatePartitionsResponseData;
    DescribeConfigs DescribeConfigsRequestData DescribeConfigsResponseData;
    AlterConfigs AlterConfigsRequestData AlterConfigsResponseData;
    IncrementalAlterConfigs IncrementalAlterConfigsRequestData IncrementalAlterConfigsResponseData;
    InitProducerId InitProducerIdRequestData InitProducerIdResponseData;
    AddPartitionsToTxn AddPartitionsToTxnRequestData AddPartitionsToTxnResponseData;
    AddOffsetsToTxn AddOffsetsToTxnRequestData AddOffsetsToTxnResponseData;
    EndTxn EndTxnRequestData EndTxnResponseData;
    TxnOffsetCommit TxnOffsetCommitRequestData TxnOffsetCommitResponseData;
    DescribeProducers DescribeProducersRequestData DescribeProducersResponseData;
    DescribeTransactions DescribeTransactionsRequestData DescribeTransactionsResponseData;
    ListTransactions ListTransactionsRequestData ListTransactionsResponseData;
    DescribeCluster DescribeClusterRequestData DescribeClusterResponseData;
    DescribeLogDirs DescribeLogDirsRequestData DescribeLogDirsResponseData;
    OffsetForLeaderEpoch OffsetForLeaderEpochRequestData OffsetForLeaderEpochResponseData;
    DescribeTopicPartitions DescribeTopicPartitionsRequestData DescribeTopicPartitionsResponseData;
    ListConfigResources ListConfigResourcesRequestData ListConfigResourcesResponseData;
    ConsumerGroupDescribe ConsumerGroupDescribeRequestData ConsumerGroupDescribeResponseData;
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequestData ConsumerGroupHeartbeatResponseData;
    DescribeAcls DescribeAclsRequestData DescribeAclsResponseData;
    CreateAcls CreateAclsRequestData CreateAclsResponseData;
    DeleteAcls DeleteAclsRequestData DeleteAclsResponseData;
    ElectLeaders ElectLeadersRequestData ElectLeadersResponseData;
    AlterPartitionReassignments AlterPartitionReassignmentsRequestData
        AlterPartitionReassignmentsResponseData;
    ListPartitionReassignments ListPartitionReassignmentsRequestData
        ListPartitionReassignmentsResponseData;
    AlterReplicaLogDirs AlterReplicaLogDirsRequestData AlterReplicaLogDirsResponseData;
    DescribeQuorum DescribeQuorumRequestData DescribeQuorumResponseData;
    DescribeClientQuotas DescribeClientQuotasRequestData DescribeClientQuotasResponseData;
}
