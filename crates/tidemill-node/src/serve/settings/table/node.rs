//! Settings of the node itself, and where it is reached.

use super::{SWITCH, Setting};
use crate::serve::settings::value;
use std::num::NonZeroUsize;
use tidemill_types::NodeId;

/// Of the node.
pub(super) const NODE: &[Setting] = &[
    row!(
        "data",
        "DIR",
        "log.dirs",
        "The data folder; made if it is not there.",
        |s| s.data.display().to_string(),
        |s, text| s.data = value::folder(text)?
    ),
    row!(
        "node-id",
        "N",
        "node.id",
        "The number of this node, as clients are told.",
        |s| s.broker.node_id.to_string(),
        |s, text| s.broker.node_id = NodeId(value::number(text, 0..=i32::MAX)?)
    ),
    row!(
        "cluster-id",
        "ID",
        "cluster.id",
        "The cluster's id for a new data folder; data of another cluster are refused. `auto`: it is made once and kept in the data folder.",
        |s| s.cluster_id.clone().unwrap_or_else(|| "auto".to_owned()),
        |s, text| s.cluster_id = value::cluster_id(text)?
    ),
    row!(
        "threads",
        "N",
        "num.network.threads",
        "Threads that serve connections. `auto`: one for each processor.",
        |s| s.threads.map_or_else(|| "auto".to_owned(), |it| it.to_string()),
        |s, text| s.threads = match text {
            "auto" => None,
            text => NonZeroUsize::new(value::number(text, 1..=1_024)?),
        }
    ),
    row!(
        "log-level",
        "LEVEL",
        "",
        "What is logged on standard error: `off`, `error`, `warn`, `info`, `debug` or `trace`.",
        |s| value::level_text(s.log_level),
        |s, text| s.log_level = value::level(text)?
    ),
    row!(
        "log-format",
        "FORMAT",
        "",
        "How it is written: `text` for persons, `json` for programs.",
        |s| value::format_text(s.log_format),
        |s, text| s.log_format = value::format(text)?
    ),
];

/// Where it is reached.
pub(super) const ADDRESSES: &[Setting] = &[
    row!(
        "kafka-listen",
        "ADDR",
        "listeners",
        "Where the Kafka protocol is spoken; port 0 takes a free one.",
        |s| s.broker.listen.to_string(),
        |s, text| s.broker.listen = value::address(text)?
    ),
    row!(
        "kafka-advertised",
        "HOST:PORT",
        "advertised.listeners",
        "What Kafka clients are told to connect to. `auto`: where the node listens.",
        |s| value::advertised_text(s.broker.advertised.as_ref()),
        |s, text| s.broker.advertised = value::advertised(text)?
    ),
    row!(
        "http-listen",
        "ADDR",
        "",
        "Where HTTP is spoken; port 0 takes a free one.",
        |s| s.http.listen.to_string(),
        |s, text| s.http.listen = value::address(text)?
    ),
    row!(
        "http-hosts",
        "NAMES",
        "",
        "Names that HTTP clients may call this node by, with commas between, beside `localhost` and IP addresses; `*` for any. Other names are refused, so that a web page cannot reach the node through a name of its own.",
        |s| value::hosts_text(&s.http.hosts),
        |s, text| s.http.hosts = value::hosts(text)?
    ),
    row!(
        "insecure",
        SWITCH,
        "",
        "Listens on addresses that other machines reach, though nobody is asked for a password.",
        |s| s.insecure.to_string(),
        |s, text| s.insecure = value::truth(text)?
    ),
];
