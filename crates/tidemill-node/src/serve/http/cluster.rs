//! The cluster over HTTP: its state as this node sees it, its nodes, events, and what an operator
//! wants of a node.

use super::{
    append::blocking,
    parameters::Parameters,
    problem::{Problem, json},
    state::HttpState,
};
use crate::serve::cluster::{ChangeError, ClusterNode, PeerContact};
use axum::{
    extract::{Path, State as Shared},
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json as value_of};
use std::{collections::BTreeMap, sync::Arc};
use tidemill_coord::membership::{ClusterView, DesireError, DesiredState, MemberStatus, NodeView};
use tidemill_types::NodeId;

pub(super) const EVENTS_PARAMETERS: &[&str] = &["after"];

/// Attempts to change a node's desired state while others change its record.
const ATTEMPTS_MAX: u32 = 5;

pub(super) async fn status(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    Ok(json(&blocking(move || describe(&state)).await?).into_response())
}

pub(super) async fn nodes(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let document = blocking(move || {
        let mut document = describe(&state);
        value_of!({ "revision": document["revision"].take(), "nodes": document["nodes"].take() })
    });
    Ok(json(&document.await?).into_response())
}

pub(super) async fn events(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri, EVENTS_PARAMETERS)?;
    let after = parameters.value::<u64>("after", "the number of an event")?.unwrap_or(0);
    let events = blocking(move || {
        let events = state.cluster.as_ref().map(|it| it.events(after)).unwrap_or_default();
        let event = |it: &tidemill_coord::membership::ClusterEvent| {
            value_of!({
                "number": it.number,
                "time_us": it.wall_us,
                "revision": it.revision.0,
                "event": it.kind.to_string(),
            })
        };
        events.iter().map(event).collect::<Value>()
    });
    Ok(json(&value_of!({ "events": events.await? })).into_response())
}

pub(super) async fn drain(
    shared: Shared<Arc<HttpState>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    desire(shared, path, uri, DesiredState::Draining).await
}

pub(super) async fn decommission(
    shared: Shared<Arc<HttpState>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    desire(shared, path, uri, DesiredState::Decommissioned).await
}

pub(super) async fn activate(
    shared: Shared<Arc<HttpState>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    desire(shared, path, uri, DesiredState::Active).await
}

async fn desire(
    Shared(state): Shared<Arc<HttpState>>,
    Path(node): Path<String>,
    uri: Uri,
    desired: DesiredState,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let shown: String = node.chars().take(20).collect();
    let id = node.parse::<i32>().ok().filter(|it| *it >= 0).map(NodeId);
    let node = id.ok_or_else(|| {
        Problem::bad(format!(
            "`{shown}` is not the id of a node, such as 2: see GET /cluster/nodes"
        ))
    })?;
    blocking(move || {
        let Some(cluster) = &state.cluster else { return Err(alone()) };
        change(cluster, node, desired)
    })
    .await??;
    Ok(json(&value_of!({ "node": node.0, "desired": desired.to_string() })).into_response())
}

fn change(cluster: &ClusterNode, node: NodeId, desired: DesiredState) -> Result<(), Problem> {
    for _ in 0..ATTEMPTS_MAX {
        match cluster.set_desired(node, desired) {
            Ok(true) => return Ok(()),
            // Another change came first: the next view has it.
            Ok(false) => cluster.wait_for_change(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::busy(format!("node {node} changes at this moment: ask again")))
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let status = match &error {
            ChangeError::Desire(DesireError::Unknown(_)) => StatusCode::NOT_FOUND,
            ChangeError::Desire(_) => StatusCode::CONFLICT,
            ChangeError::Coordinator(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

fn alone() -> Problem {
    let why = "this node is in no cluster: start it with --cluster-listen, --cluster-key-file, and \
               --join or --coordinator";
    Problem::new(StatusCode::CONFLICT, why)
}

/// The cluster as this node sees it.
fn describe(state: &HttpState) -> Value {
    let (own, cluster_id) = (state.broker.node_id().0, state.broker.cluster_id());
    let Some(cluster) = &state.cluster else {
        let node = value_of!({ "node": own, "state": "live" });
        return value_of!({
            "cluster_id": cluster_id,
            "node": own,
            "state": "alone",
            "nodes": [node],
        });
    };
    let registered = cluster.registered();
    let (name, incarnation, message) = member(&cluster.status());
    let view = cluster.view();
    let nodes = view.as_deref().map(|it| all(it, &cluster.contacts())).unwrap_or_default();
    let controller = view.as_ref().and_then(|it| it.controller);
    value_of!({
        "cluster_id": registered.cluster.as_str(),
        "node": own,
        "state": name,
        "message": message,
        "incarnation": incarnation.map(|it| it.0),
        "coordinator": {
            "home": cluster.home(),
            "leader": cluster.voters_leader().map(|it| it.0),
        },
        "controller": controller.map(|it| it.node.0),
        "revision": view.as_ref().map(|it| it.revision.0),
        "unreadable": view.as_ref().map(|it| unreadable(it)),
        "nodes": nodes,
    })
}

fn unreadable(view: &ClusterView) -> Map<String, Value> {
    let pairs = view.unreadable.iter();
    pairs.map(|(key, why)| (key.to_string(), Value::String(why.clone()))).collect()
}

type MemberWord = (&'static str, Option<tidemill_types::Incarnation>, Option<String>);

fn member(status: &MemberStatus) -> MemberWord {
    match status {
        MemberStatus::Joined { incarnation } => ("joined", Some(*incarnation), None),
        MemberStatus::Waiting { incarnation, why } => ("waiting", *incarnation, Some(why.clone())),
        MemberStatus::Fenced { incarnation, why } => {
            ("fenced", Some(*incarnation), Some(why.clone()))
        }
        MemberStatus::Replaced { why } => ("replaced", None, Some(why.clone())),
        MemberStatus::Refused(error) => ("refused", None, Some(error.to_string())),
        MemberStatus::Left => ("left", None, None),
    }
}

fn all(view: &ClusterView, contacts: &BTreeMap<NodeId, PeerContact>) -> Value {
    view.nodes.iter().map(|(node, it)| one(*node, it, contacts.get(node))).collect()
}

fn one(node: NodeId, it: &NodeView, contact: Option<&PeerContact>) -> Value {
    let record = &it.record;
    let state = match (it.is_live(), record.is_stopped) {
        (true, _) => "live",
        (false, true) => "stopped",
        (false, false) => "lost",
    };
    let reached = contact.map(|it| it.round_trip_us.is_ok());
    let round_trip_us = contact.and_then(|it| it.round_trip_us.as_ref().ok());
    let error = contact.and_then(|it| it.round_trip_us.as_ref().err());
    value_of!({
        "node": node.0,
        "state": state,
        "desired": record.desired.to_string(),
        "incarnation": record.incarnation.0,
        "kafka": record.addresses.kafka,
        "http": record.addresses.http,
        "cluster": record.addresses.cluster,
        "rack": record.rack,
        "version": record.build,
        "reached": reached,
        "round_trip_us": round_trip_us,
        "error": error,
    })
}
