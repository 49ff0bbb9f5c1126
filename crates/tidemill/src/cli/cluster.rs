//! `tidemill cluster …`: the cluster of a node, over its HTTP side.

use super::node::{NodeArguments, answer, ask, word};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;
use tidemill::table::grid;

/// A node by its id.
#[derive(Debug, Args)]
pub(super) struct MemberArguments {
    /// The node's id, as `tidemill cluster nodes` lists it.
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    id: i32,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Shows the cluster as the node sees it: coordinator, controller, nodes.
    Status(NodeArguments),
    /// Lists the nodes of the cluster.
    Nodes(NodeArguments),
    /// Shows the notable changes that the node saw: nodes that came, left or were lost.
    Events {
        /// Shows the events after this one.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Wants a node to get nothing new.
    Drain(MemberArguments),
    /// Wants a node to leave the cluster for good. A node that has left may not come back.
    Decommission(MemberArguments),
    /// Takes a drain or a decommission back.
    Activate(MemberArguments),
}

pub(super) fn run(command: &ClusterCommand) -> u8 {
    match command {
        ClusterCommand::Status(node) => answer(node, ask(node, "GET", "/cluster", None), status),
        ClusterCommand::Nodes(node) => {
            answer(node, ask(node, "GET", "/cluster/nodes", None), |it| table(&it["nodes"]))
        }
        ClusterCommand::Events { after, node } => {
            let path = format!("/cluster/events?after={after}");
            answer(node, ask(node, "GET", &path, None), |it| events(&it["events"]))
        }
        ClusterCommand::Drain(member) => desire(member, "drain"),
        ClusterCommand::Decommission(member) => desire(member, "decommission"),
        ClusterCommand::Activate(member) => desire(member, "activate"),
    }
}

fn desire(member: &MemberArguments, verb: &str) -> u8 {
    let path = format!("/cluster/nodes/{}/{verb}", member.id);
    answer(&member.node, ask(&member.node, "POST", &path, None), |it| {
        format!("node {} is to be {}\n", word(&it["node"]), word(&it["desired"]))
    })
}

fn status(it: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("{name:<12} {value}\n"));
        }
    };
    line("cluster", word(&it["cluster_id"]));
    if it["state"] == "alone" {
        line("state", "this node is alone".to_owned());
        return out;
    }
    let incarnation = word(&it["incarnation"]);
    let of_life =
        if incarnation.is_empty() { String::new() } else { format!(", incarnation {incarnation}") };
    line("this node", format!("{}: {}{of_life}", word(&it["node"]), word(&it["state"])));
    line("message", word(&it["message"]));
    let leader = word(&it["coordinator"]["leader"]);
    let leader = if leader.is_empty() { String::new() } else { format!(" (node {leader} leads)") };
    line("coordinator", format!("{}{leader}", word(&it["coordinator"]["home"])));
    let controller = word(&it["controller"]);
    let controller =
        if controller.is_empty() { "none".to_owned() } else { format!("node {controller}") };
    line("controller", controller);
    if let Some(unreadable) = it["unreadable"].as_object() {
        for (key, why) in unreadable {
            line("unreadable", format!("{key}: {}", word(why)));
        }
    }
    out.push('\n');
    out.push_str(&table(&it["nodes"]));
    out
}

fn table(nodes: &Value) -> String {
    let nodes = nodes.as_array().map_or(&[][..], Vec::as_slice);
    let rows = nodes.iter().map(|it| {
        let reached = match &it["reached"] {
            Value::Bool(true) => milliseconds(&it["round_trip_us"]),
            Value::Bool(false) => format!("no: {}", word(&it["error"])),
            _ => String::new(),
        };
        vec![
            word(&it["node"]),
            word(&it["state"]),
            word(&it["desired"]),
            word(&it["incarnation"]),
            word(&it["kafka"]),
            word(&it["http"]),
            word(&it["cluster"]),
            word(&it["rack"]),
            word(&it["version"]),
            reached,
        ]
    });
    let head = [
        "node",
        "state",
        "desired",
        "incarnation",
        "kafka",
        "http",
        "cluster",
        "rack",
        "version",
        "reached in",
    ];
    let numeric = [true, false, false, true, false, false, false, false, false, false];
    format!("{}\n", grid(&head, &numeric, &rows.collect::<Vec<_>>()))
}

fn milliseconds(round_trip_us: &Value) -> String {
    round_trip_us.as_f64().map_or_else(String::new, |it| format!("{:.1} ms", it / 1e3))
}

fn events(events: &Value) -> String {
    let events = events.as_array().map_or(&[][..], Vec::as_slice);
    if events.is_empty() {
        return "the node has seen no such event\n".to_owned();
    }
    let rows = events.iter().map(|it| {
        let time = it["time_us"].as_i64().and_then(|it| Timestamp::from_microsecond(it).ok());
        let time = time.map_or_else(String::new, |it| format!("{it:.3}"));
        vec![word(&it["number"]), time, word(&it["revision"]), word(&it["event"])]
    });
    let head = ["event", "time", "revision", ""];
    format!("{}\n", grid(&head, &[true, false, true, false], &rows.collect::<Vec<_>>()))
}
