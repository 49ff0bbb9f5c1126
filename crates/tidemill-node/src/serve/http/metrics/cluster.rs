//! Figures of the cluster and of its port, on a node that is in one.

use super::Page;
use crate::serve::cluster::ClusterNode;
use prometheus_client::metrics::{counter::Counter, family::Family};
use tidemill_coord::membership::MemberStatus;

/// One label and its value.
type Label = [(&'static str, &'static str); 1];

pub(super) fn cluster(page: &mut Page, cluster: &ClusterNode) {
    let is_joined = matches!(cluster.status(), MemberStatus::Joined { .. });
    page.gauge("cluster_joined", "1 while the node holds its lease", f64::from(is_joined));
    let incarnation = match cluster.status() {
        MemberStatus::Joined { incarnation } => f64::from(incarnation.0),
        _ => 0.0,
    };
    page.gauge("cluster_incarnation", "The incarnation of the node; 0 without", incarnation);
    if let Some(view) = cluster.view() {
        let live = view.live().count() as f64;
        page.gauge("cluster_nodes", "Nodes that the cluster knows", view.nodes.len() as f64);
        page.gauge("cluster_nodes_live", "Nodes that hold their leases", live);
        page.gauge("cluster_revision", "Revision of the view", view.revision.0 as f64);
        let is_controller = view.controller.is_some_and(|it| it.node == cluster.node());
        page.gauge("cluster_controller", "1 on the controller", f64::from(is_controller));
    }
    let contacts = cluster.contacts();
    let lost = contacts.values().filter(|it| it.round_trip_us.is_err()).count() as f64;
    page.gauge("cluster_nodes_unreached", "Live nodes that did not answer the last ping", lost);
    port(page, cluster);
}

fn port(page: &mut Page, cluster: &ClusterNode) {
    let it = cluster.metrics();
    page.gauge(
        "cluster_connections",
        "Connections between nodes that are open",
        it.connections.get() as f64,
    );
    for (name, help, count) in [
        ("cluster_connections_accepted", "Connections that the port let in", &it.accepted),
        ("cluster_handshakes_failed", "Handshakes that came to no verdict", &it.handshakes_failed),
        (
            "cluster_unproven_closed",
            "Connections closed without a handshake, as too many were open",
            &it.unproven_closed,
        ),
        ("cluster_requests", "Requests of other nodes", &it.requests),
        (
            "cluster_fenced",
            "Connections, requests and answers of incarnations that are over or not known",
            &it.fenced,
        ),
        (
            "cluster_damaged_frames",
            "Frames that did not open; each ended its connection",
            &it.damaged_frames,
        ),
        ("cluster_silent_connections", "Connections closed for their silence", &it.silent),
        ("cluster_calls", "Calls to other nodes", &it.calls),
        ("cluster_calls_failed", "Calls to other nodes that failed", &it.calls_failed),
        ("cluster_connects", "Connects to other nodes", &it.connects),
        ("cluster_connects_failed", "Connects to other nodes that failed", &it.connects_failed),
    ] {
        page.counter(name, help, count.get());
    }
    for (name, help, counts) in [
        ("cluster_connections_refused", "Connections that were refused", &it.refused),
        ("cluster_requests_refused", "Requests that were refused", &it.requests_refused),
    ] {
        let family = Family::<Label, Counter>::default();
        for (reason, count) in counts.iter().filter(|(_, count)| *count > 0) {
            family.get_or_create(&[("reason", reason)]).inc_by(count);
        }
        page.0.register(name, help, family);
    }
    for (name, help, inward, outward) in [
        ("cluster_frames", "Frames between nodes", &it.frames_in, &it.frames_out),
        ("cluster_bytes", "Bytes of frames between nodes", &it.bytes_in, &it.bytes_out),
    ] {
        let family = Family::<Label, Counter>::default();
        family.get_or_create(&[("direction", "in")]).inc_by(inward.get());
        family.get_or_create(&[("direction", "out")]).inc_by(outward.get());
        page.0.register(name, help, family);
    }
}
