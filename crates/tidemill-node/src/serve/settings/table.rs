//! Every setting: its name, its meaning, its reader and its writer.

use super::ServeSettings;

/// A row: name, value, Kafka's name, meaning; how it is read, and how it is changed.
macro_rules! row {
    ($name:literal, $value:expr, $kafka:literal, $about:expr,
     |$settings:ident| $get:expr, |$changed:ident, $text:ident| $set:expr) => {
        Setting {
            name: $name,
            value: $value,
            kafka: $kafka,
            about: $about,
            get: |$settings| $get,
            set: |$changed, $text| {
                $set;
                Ok(())
            },
        }
    };
}
mod cluster;
mod http;
mod kafka;
mod node;
mod storage;

/// A setting of a node.
#[derive(Debug)]
pub struct Setting {
    /// Its name as a flag, without the dashes before it.
    pub name: &'static str,
    /// The placeholder of its value in help.
    pub value: &'static str,
    /// Kafka's name for it; empty if Kafka has no such thing.
    pub kafka: &'static str,
    /// Its meaning, in sentences.
    pub about: &'static str,
    /// Its value, as [`Self::set`] takes it.
    pub get: fn(&ServeSettings) -> String,
    /// Sets it, or gives the possible values.
    pub set: fn(&mut ServeSettings, &str) -> Result<(), String>,
}

/// Settings that are shown together.
#[derive(Debug)]
pub struct SettingGroup {
    /// Above them.
    pub title: &'static str,
    /// In the order in which they are shown.
    pub settings: &'static [Setting],
}

impl Setting {
    /// Its key in a config file.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Its environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("TIDEMILL_{}", self.key().to_uppercase())
    }

    /// Its name among the broker's settings, as Kafka's clients are shown them. None: it is not
    /// shown.
    #[must_use]
    pub fn broker_name(&self) -> Option<&'static str> {
        match self.name {
            "active-groups" => Some("tidemill.active.groups"),
            "answers-bytes" => Some("tidemill.answers.bytes"),
            "check-records" => Some("tidemill.check.records"),
            "fsync" => Some("tidemill.fsync"),
            "in-flight" => Some("tidemill.in.flight.requests"),
            "inflated-bytes" => Some("tidemill.inflated.bytes"),
            "transfer-time" => Some("tidemill.transfer.ms"),
            _ => Some(self.kafka).filter(|it| !it.is_empty()),
        }
    }

    /// True for a switch: its flag alone means yes.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.value == SWITCH
    }

    /// Its value if nobody says otherwise.
    #[must_use]
    pub fn default(&self) -> String {
        (self.get)(&ServeSettings::default())
    }
}

const SWITCH: &str = "true|false";

/// Every setting, by group, in the order of help and documentation.
pub const GROUPS: &[SettingGroup] = &[
    SettingGroup { title: "Node", settings: node::NODE },
    SettingGroup { title: "Addresses", settings: node::ADDRESSES },
    SettingGroup { title: "Cluster", settings: cluster::CLUSTER },
    SettingGroup { title: "Streams that do not say otherwise", settings: storage::STREAMS },
    SettingGroup { title: "Storage", settings: storage::STORAGE },
    SettingGroup { title: "Limits of the Kafka side", settings: kafka::LIMITS },
    SettingGroup { title: "Groups, producers, transactions", settings: kafka::GROUPS },
    SettingGroup { title: "Limits of the HTTP side", settings: http::LIMITS },
];

/// Every setting.
pub fn settings() -> impl Iterator<Item = &'static Setting> + Clone {
    GROUPS.iter().flat_map(|it| it.settings)
}
