//! Settings of the broker under Kafka's names, as clients are shown them. They are said when the
//! node starts, and cannot be changed while it runs.
//!
//! [`BROKER_SETTINGS`] is the one table: requests, `docs/broker.md` and the tests go by it.

use crate::{
    settings::{BrokerSettings, Limits},
    topic_settings::{Defaults, SettingType, TopicSetting},
};
use std::collections::BTreeSet;
use tidemill_types::address;

#[cfg(test)]
mod tests;

/// A setting of the broker.
pub(crate) struct BrokerSetting {
    pub(crate) name: &'static str,
    pub(crate) kind: SettingType,
    pub(crate) doc: &'static str,
    pub(crate) get: fn(&BrokerSettings) -> String,
}

fn limit(get: impl Fn(&Limits) -> String, settings: &BrokerSettings) -> String {
    get(&settings.limits)
}

/// All settings of the broker that are not defaults of topics.
pub(crate) const BROKER_SETTINGS: &[BrokerSetting] = &[
    BrokerSetting {
        name: "advertised.listeners",
        kind: SettingType::String,
        doc: "What clients are told to connect to, if that is not where the broker listens.",
        get: |it| {
            it.advertised.as_ref().map_or_else(String::new, |(host, port)| {
                format!("PLAINTEXT://{}", address::join(host, *port))
            })
        },
    },
    BrokerSetting {
        name: "auto.create.topics.enable",
        kind: SettingType::Boolean,
        doc: "A client that asks for a topic that is not there makes it.",
        get: |it| it.auto_create.to_string(),
    },
    BrokerSetting {
        name: "broker.id",
        kind: SettingType::Int,
        doc: "As `node.id`.",
        get: |it| it.node_id.to_string(),
    },
    BrokerSetting {
        name: "connections.max.idle.ms",
        kind: SettingType::Long,
        doc: "A connection without requests is closed after this long.",
        get: |it| limit(|it| it.idle_ms.to_string(), it),
    },
    BrokerSetting {
        name: "default.replication.factor",
        kind: SettingType::Int,
        doc: "Replicas of topics that do not say how many: there is one node.",
        get: |_| "1".to_owned(),
    },
    BrokerSetting {
        name: "delete.topic.enable",
        kind: SettingType::Boolean,
        doc: "Topics can be deleted.",
        get: |_| "true".to_owned(),
    },
    BrokerSetting {
        name: "fetch.max.bytes",
        kind: SettingType::Int,
        doc: "Bytes of one answer to a fetch.",
        get: |it| limit(|it| it.fetch_bytes.0.to_string(), it),
    },
    BrokerSetting {
        name: "listeners",
        kind: SettingType::String,
        doc: "Where the broker listens.",
        get: |it| format!("PLAINTEXT://{}", it.listen),
    },
    BrokerSetting {
        name: "max.connections",
        kind: SettingType::Int,
        doc: "Connections at once; one more is closed at once.",
        get: |it| limit(|it| it.connections.to_string(), it),
    },
    BrokerSetting {
        name: "max.incremental.fetch.session.cache.slots",
        kind: SettingType::Int,
        doc: "Fetch sessions that are kept.",
        get: |it| limit(|it| it.fetch_sessions.to_string(), it),
    },
    BrokerSetting {
        name: "node.id",
        kind: SettingType::Int,
        doc: "This node.",
        get: |it| it.node_id.to_string(),
    },
    BrokerSetting {
        name: "num.partitions",
        kind: SettingType::Int,
        doc: "Partitions of topics that do not say how many.",
        get: |it| it.partitions.to_string(),
    },
    BrokerSetting {
        name: "queued.max.request.bytes",
        kind: SettingType::Long,
        doc: "Bytes of all requests that are being received or answered.",
        get: |it| limit(|it| it.requests_bytes.0.to_string(), it),
    },
    BrokerSetting {
        name: "socket.request.max.bytes",
        kind: SettingType::Int,
        doc: "Bytes of one request.",
        get: |it| limit(|it| it.request_bytes.0.to_string(), it),
    },
    BrokerSetting {
        name: "tidemill.answers.bytes",
        kind: SettingType::Long,
        doc: "Bytes of records in answers to fetches, and of other long answers, that are not sent yet.",
        get: |it| limit(|it| it.answers_bytes.0.to_string(), it),
    },
    BrokerSetting {
        name: "tidemill.check.records",
        kind: SettingType::Boolean,
        doc: "The records in each batch are looked at before it is stored, not its head and \
              checksum alone.",
        get: |it| it.check_records.to_string(),
    },
    BrokerSetting {
        name: "tidemill.inflated.bytes",
        kind: SettingType::Long,
        doc: "Bytes that a compressed batch may have when it is inflated.",
        get: |it| limit(|it| it.inflated_bytes.0.to_string(), it),
    },
    BrokerSetting {
        name: "tidemill.in.flight.requests",
        kind: SettingType::Int,
        doc: "Requests of a connection that wait for their answer; no more are read before.",
        get: |it| limit(|it| it.in_flight.to_string(), it),
    },
    BrokerSetting {
        name: "tidemill.transfer.ms",
        kind: SettingType::Long,
        doc: "A request must be whole this long after its first byte, and an answer taken; a \
              second more for each 64 KiB of it.",
        get: |it| limit(|it| it.transfer_ms.to_string(), it),
    },
];

/// A setting of the broker, with its value.
pub(crate) struct ShownSetting {
    pub(crate) name: &'static str,
    pub(crate) kind: SettingType,
    pub(crate) doc: &'static str,
    pub(crate) value: String,
    /// The value that it has if nobody sets it.
    pub(crate) default: String,
    /// True if the operator set it, be it to its default.
    pub(crate) is_set: bool,
}

/// The default of a topic's setting, under the broker's name for it.
pub(crate) fn topic_default(
    setting: &TopicSetting,
    defaults: &Defaults,
    stated: &BTreeSet<&'static str>,
) -> Option<ShownSetting> {
    let name = setting.of_broker?;
    let (value, default) = (defaults.value(setting), Defaults::built_in().value(setting));
    let is_set = value != default || stated.contains(name);
    Some(ShownSetting { name, kind: setting.kind, doc: setting.doc, value, default, is_set })
}

/// All settings of the broker, by name.
pub(crate) fn all(settings: &BrokerSettings, defaults: &Defaults) -> Vec<ShownSetting> {
    let built_in = BrokerSettings::default();
    let own = BROKER_SETTINGS.iter().map(|it| {
        let (value, default) = ((it.get)(settings), (it.get)(&built_in));
        let stated = if it.name == "broker.id" { "node.id" } else { it.name };
        let is_set = value != default || settings.stated.contains(stated);
        ShownSetting { name: it.name, kind: it.kind, doc: it.doc, value, default, is_set }
    });
    let of_topics = crate::topic_settings::TOPIC_SETTINGS
        .iter()
        .filter_map(|it| topic_default(it, defaults, &settings.stated));
    let mut all: Vec<ShownSetting> = own.chain(of_topics).collect();
    all.sort_by_key(|it| it.name);
    all
}
