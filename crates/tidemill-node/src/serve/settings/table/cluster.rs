//! Settings of a node among others.

use super::Setting;
use crate::serve::settings::{CoordinatorSettings, value};

/// Of the cluster.
pub(super) const CLUSTER: &[Setting] = &[
    row!(
        "cluster-listen",
        "ADDR",
        "",
        "Where other nodes of the cluster connect, such as `127.0.0.1:7088`; port 0 takes a free one. `none`: this node is alone.",
        |s| value::none_text(s.cluster.listen),
        |s, text| s.cluster.listen = value::or_none(text, value::address)?
    ),
    row!(
        "cluster-advertised",
        "HOST:PORT",
        "",
        "What other nodes are told to connect to. `auto`: where this node listens.",
        |s| value::advertised_text(s.cluster.advertised.as_ref()),
        |s, text| s.cluster.advertised = value::advertised(text)?
    ),
    row!(
        "cluster-key-file",
        "FILE",
        "",
        "The file with the key that all nodes of the cluster share: 16 bytes or more, read by its owner alone. `none`: this node is alone.",
        |s| value::path_text(s.cluster.key_file.as_ref()),
        |s, text| s.cluster.key_file = value::or_none(text, value::file)?
    ),
    row!(
        "join",
        "ADDRS",
        "controller.quorum.bootstrap.servers",
        "The cluster addresses of the first three or five nodes, with commas between, the same for every node: these keep the coordinator's table. `none`: this node is alone, or `--coordinator` says who keeps it.",
        |s| value::addresses_text(&s.cluster.join),
        |s, text| s.cluster.join = value::addresses(text)?
    ),
    row!(
        "coordinator",
        "HOME",
        "",
        "Where the cluster keeps the table that its nodes agree on: `file` in the data folder of a node that is alone, or `etcd:` and addresses with commas between, such as `etcd:http://10.0.0.1:2379,http://10.0.0.2:2379`.",
        |s| s.cluster.coordinator.to_string(),
        |s, text| s.cluster.coordinator = CoordinatorSettings::parse(text)?
    ),
    row!(
        "etcd-ca-file",
        "FILE",
        "",
        "The authorities that sign etcd's certificate, in PEM. `none`: those of the system.",
        |s| value::path_text(s.cluster.etcd_ca_file.as_ref()),
        |s, text| s.cluster.etcd_ca_file = value::or_none(text, value::file)?
    ),
    row!(
        "node-lease",
        "TIME",
        "broker.session.timeout.ms",
        "A node that the coordinator has not heard of for so long is taken for lost, from 1s to 5m.",
        |s| s.cluster.lease.to_string(),
        |s, text| s.cluster.lease = value::span(text, 1_000, 300_000)?
    ),
    row!(
        "rack",
        "NAME",
        "broker.rack",
        "The rack, zone or room of this node: copies are kept in different ones. `none`: it has none.",
        |s| value::none_text(s.cluster.rack.as_deref()),
        |s, text| s.cluster.rack = value::or_none(text, value::rack)?
    ),
];
