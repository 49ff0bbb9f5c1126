//! Consumer groups: requests of members and of administrators. This node coordinates all groups.

use super::{cluster::NOT_ASKED, duplicates::remove_repeated};
use crate::{
    api::Context,
    group::{
        member::{JoinAnswer, Member},
        registry::{Joining, RequestSender, Syncing},
    },
};
use std::collections::BTreeSet;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        ConsumerGroupHeartbeatRequestData, ConsumerGroupHeartbeatResponseData, Coordinator,
        DeletableGroupResult, DeleteGroupsRequestData, DeleteGroupsResponseData,
        DescribeGroupsRequestData, DescribeGroupsResponseData, DescribedGroupMember,
        FindCoordinatorRequestData, FindCoordinatorResponseData, HeartbeatRequestData,
        HeartbeatResponseData, JoinGroupRequestData, JoinGroupResponseData,
        JoinGroupResponseMember, LeaveGroupRequestData, LeaveGroupResponseData,
        ListGroupsRequestData, ListGroupsResponseData, ListedGroup, MemberIdentity, MemberResponse,
        SyncGroupRequestData, SyncGroupResponseData, describe_groups_response::DescribedGroup,
    },
    text,
};

/// Operations on a group that a client may do, a bit each: read, delete, describe, describe and
/// alter configs. Without authorization all are allowed.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;
/// The kind of groups there are. (KIP-848 has another.)
const CLASSIC: &str = "classic";
/// Kinds of keys that have a coordinator: groups and transactional ids.
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=1;

fn owned(text: &KafkaString) -> String {
    text.as_str().to_owned()
}

fn maybe(text: Option<&KafkaString>) -> Option<String> {
    text.map(owned)
}

fn code(outcome: Result<(), ErrorCode>) -> i16 {
    outcome.err().unwrap_or(ErrorCode::None).code()
}

/// The coordinator of groups and transactions: this node.
pub(crate) async fn find(
    context: &Context<'_>,
    mut request: FindCoordinatorRequestData,
) -> FindCoordinatorResponseData {
    remove_repeated(&mut request.coordinator_keys, KafkaString::clone);
    let (host, port) = context.broker.advertised();
    let is_known = KEY_TYPES.contains(&request.key_type);
    let error = if is_known { ErrorCode::None } else { ErrorCode::InvalidRequest };
    let why = (!is_known).then(|| text("there are coordinators of groups and transactions alone"));
    let node = Coordinator {
        key: KafkaString::default(),
        node_id: if is_known { context.broker.settings.node_id.0 } else { -1 },
        host: if is_known { text(&host) } else { KafkaString::default() },
        port: if is_known { i32::from(port) } else { -1 },
        error_code: error.code(),
        error_message: why,
        ..Coordinator::default()
    };
    if context.version() >= 4 {
        let one = |key| Coordinator { key, ..node.clone() };
        let coordinators = request.coordinator_keys.into_iter().map(one).collect();
        return FindCoordinatorResponseData { coordinators, ..Default::default() };
    }
    FindCoordinatorResponseData {
        error_code: node.error_code,
        error_message: node.error_message,
        node_id: node.node_id,
        host: node.host,
        port: node.port,
        ..FindCoordinatorResponseData::default()
    }
}

/// Waits for the next generation.
pub(crate) async fn join(
    context: &Context<'_>,
    request: JoinGroupRequestData,
) -> JoinGroupResponseData {
    let version = context.version();
    let protocols = request.protocols.iter();
    let rebalance_ms = if version >= 1 { request.rebalance_timeout_ms } else { -1 };
    let joining = Joining {
        group: owned(&request.group_id),
        member_id: owned(&request.member_id),
        instance: maybe(request.group_instance_id.as_ref()),
        client_id: maybe(context.head.client_id.as_ref()).unwrap_or_default(),
        client_host: format!("/{}", context.caller.peer.ip()),
        protocol_type: owned(&request.protocol_type),
        // Copied: a slice would keep the whole request for as long as the member lives.
        protocols: protocols.map(|it| (owned(&it.name), it.metadata.to_vec().into())).collect(),
        session_ms: request.session_timeout_ms,
        rebalance_ms: if rebalance_ms < 0 { request.session_timeout_ms } else { rebalance_ms },
        needs_known_id: version >= 4,
        may_skip: version >= 9,
    };
    drop(request);
    context.holds(joining.bytes());
    joined(context.broker.groups.join(joining).await, version)
}

fn joined(answer: JoinAnswer, version: i16) -> JoinGroupResponseData {
    // Older versions have no way to say that there is none.
    let none = || (version < 7).then(KafkaString::default);
    let member = |(id, instance, metadata): (String, Option<String>, _)| JoinGroupResponseMember {
        member_id: text(&id),
        group_instance_id: instance.filter(|_| version >= 5).map(|it| text(&it)),
        metadata,
        ..JoinGroupResponseMember::default()
    };
    JoinGroupResponseData {
        error_code: answer.error.code(),
        generation_id: answer.generation,
        protocol_type: answer.protocol_type.filter(|_| version >= 7).map(|it| text(&it)),
        protocol_name: answer.protocol.map(|it| text(&it)).or_else(none),
        leader: text(&answer.leader),
        skip_assignment: answer.skip_assignment && version >= 9,
        member_id: text(&answer.member_id),
        members: answer.members.into_iter().map(member).collect(),
        ..JoinGroupResponseData::default()
    }
}

/// Waits for the leader's assignment.
pub(crate) async fn sync(
    context: &Context<'_>,
    request: SyncGroupRequestData,
) -> SyncGroupResponseData {
    let sender = RequestSender {
        group: owned(&request.group_id),
        member_id: owned(&request.member_id),
        instance: maybe(request.group_instance_id.as_ref()),
        generation: request.generation_id,
    };
    let assignments = request.assignments.iter();
    let assignments = assignments.map(|it| (owned(&it.member_id), it.assignment.to_vec().into()));
    let syncing = Syncing {
        sender,
        protocol_type: maybe(request.protocol_type.as_ref()),
        protocol: maybe(request.protocol_name.as_ref()),
        assignments: assignments.collect(),
    };
    drop(request);
    context.holds(syncing.bytes());
    let answer = context.broker.groups.sync(syncing).await;
    let newer = context.version() >= 5;
    SyncGroupResponseData {
        error_code: answer.error.code(),
        protocol_type: answer.protocol_type.filter(|_| newer).map(|it| text(&it)),
        protocol_name: answer.protocol.filter(|_| newer).map(|it| text(&it)),
        assignment: answer.assignment,
        ..SyncGroupResponseData::default()
    }
}

/// A member lives.
pub(crate) async fn heartbeat(
    context: &Context<'_>,
    request: HeartbeatRequestData,
) -> HeartbeatResponseData {
    let sender = RequestSender {
        group: owned(&request.group_id),
        member_id: owned(&request.member_id),
        instance: maybe(request.group_instance_id.as_ref()),
        generation: request.generation_id,
    };
    HeartbeatResponseData {
        error_code: code(context.broker.groups.heartbeat(&sender)),
        ..HeartbeatResponseData::default()
    }
}

/// A member of a group of the newer protocol (KIP-848), which is not there. It is told so, and not
/// left to find no such request: librdkafka waits for one without a word.
pub(crate) async fn refuse_consumer_heartbeat(
    _: &Context<'_>,
    _: ConsumerGroupHeartbeatRequestData,
) -> ConsumerGroupHeartbeatResponseData {
    let why = "groups have the classic protocol here: set group.protocol=classic";
    ConsumerGroupHeartbeatResponseData {
        error_code: ErrorCode::UnsupportedVersion.code(),
        error_message: Some(text(why)),
        ..ConsumerGroupHeartbeatResponseData::default()
    }
}

/// Members go.
pub(crate) async fn leave(
    context: &Context<'_>,
    request: LeaveGroupRequestData,
) -> LeaveGroupResponseData {
    let one = context.version() < 3;
    let members: Vec<(String, Option<String>)> = if one {
        vec![(owned(&request.member_id), None)]
    } else {
        let member =
            |it: &MemberIdentity| (owned(&it.member_id), maybe(it.group_instance_id.as_ref()));
        request.members.iter().map(member).collect()
    };
    let outcome = context.broker.groups.leave(request.group_id.as_str(), &members);
    let (error, codes) = match outcome {
        Err(error) => (error, Vec::new()),
        Ok(codes) if one => (codes.first().copied().unwrap_or(ErrorCode::None), Vec::new()),
        Ok(codes) => (ErrorCode::None, codes),
    };
    let left = |(asked, code): (MemberIdentity, ErrorCode)| MemberResponse {
        member_id: asked.member_id,
        group_instance_id: asked.group_instance_id,
        error_code: code.code(),
        ..MemberResponse::default()
    };
    LeaveGroupResponseData {
        error_code: error.code(),
        members: request.members.into_iter().zip(codes).map(left).collect(),
        ..LeaveGroupResponseData::default()
    }
}

/// All groups, or those in some states, or of some kinds. (KIP-518, KIP-848.)
pub(crate) async fn list(
    context: &Context<'_>,
    request: ListGroupsRequestData,
) -> ListGroupsResponseData {
    // A set: there may be as many groups as names.
    let filter = |names: &[KafkaString]| -> BTreeSet<String> {
        names.iter().map(|it| it.as_str().to_ascii_lowercase()).collect()
    };
    let wanted = |filter: &BTreeSet<String>, value: &str| {
        filter.is_empty() || filter.contains(&value.to_ascii_lowercase())
    };
    let (types, states) = (filter(&request.types_filter), filter(&request.states_filter));
    let of_type = wanted(&types, CLASSIC);
    let groups = context.broker.groups.list().into_iter();
    let groups = groups.filter(|it| of_type && wanted(&states, it.state));
    let listed = groups.map(|it| ListedGroup {
        group_id: text(&it.id),
        protocol_type: text(&it.protocol_type),
        group_state: text(it.state),
        group_type: text(CLASSIC),
        ..ListedGroup::default()
    });
    ListGroupsResponseData { groups: listed.collect(), ..ListGroupsResponseData::default() }
}

/// Groups with their members.
pub(crate) async fn describe(
    context: &Context<'_>,
    mut request: DescribeGroupsRequestData,
) -> DescribeGroupsResponseData {
    remove_repeated(&mut request.groups, KafkaString::clone);
    let operations =
        if request.include_authorized_operations { GROUP_OPERATIONS } else { NOT_ASKED };
    let version = context.version();
    let one = |id: KafkaString| {
        let Some(group) = context.broker.groups.describe(id.as_str()) else {
            // Older clients know a group that is not there as a dead one. (KIP-1043.)
            let code = if version >= 6 { ErrorCode::GroupIdNotFound } else { ErrorCode::None };
            let why = format!("Group {} not found.", id.as_str());
            return DescribedGroup {
                error_code: code.code(),
                error_message: (version >= 6).then(|| text(&why)),
                group_id: id,
                group_state: text("Dead"),
                authorized_operations: operations,
                ..DescribedGroup::default()
            };
        };
        let members = group.members.iter().map(|it| described(it, &group.protocol, version));
        DescribedGroup {
            group_id: id,
            group_state: text(group.state),
            protocol_type: text(&group.protocol_type),
            protocol_data: text(&group.protocol),
            members: members.collect(),
            authorized_operations: operations,
            ..DescribedGroup::default()
        }
    };
    let groups = request.groups.into_iter().map(one).collect();
    DescribeGroupsResponseData { groups, ..DescribeGroupsResponseData::default() }
}

/// While a group rebalances, its members are shown with their former assignments: they may still
/// read those partitions.
fn described(member: &Member, protocol: &str, version: i16) -> DescribedGroupMember {
    let instance = member.instance.as_ref().filter(|_| version >= 4);
    DescribedGroupMember {
        member_id: text(&member.id),
        group_instance_id: instance.map(|it| text(it)),
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        member_metadata: member.metadata(protocol),
        member_assignment: member.assignment.clone(),
        ..DescribedGroupMember::default()
    }
}

/// Deletes groups without members.
pub(crate) async fn delete(
    context: &Context<'_>,
    mut request: DeleteGroupsRequestData,
) -> DeleteGroupsResponseData {
    remove_repeated(&mut request.groups_names, KafkaString::clone);
    let mut results = Vec::with_capacity(request.groups_names.len());
    for group_id in request.groups_names {
        let outcome = context.broker.groups.delete(group_id.as_str()).await;
        results.push(DeletableGroupResult {
            group_id,
            error_code: code(outcome),
            ..DeletableGroupResult::default()
        });
    }
    DeleteGroupsResponseData { results, ..DeleteGroupsResponseData::default() }
}
