//! Settings of topics and of the broker: shown and changed, under Kafka's names.

use crate::{
    Broker,
    api::Context,
    broker_settings::{self, ShownSetting},
    handler::{duplicates::merge_repeated, topics::no_topic},
    internal_topic::InternalTopic,
    refusal::RequestRefusal,
    topic_settings::{Defaults, TOPIC_SETTINGS, Texts, TopicSetting},
};
use std::collections::BTreeSet;
use tidemill_log::{LogError, StreamSpec, is_stream_name};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        ConfigResource, CreatableTopicConfigs, DescribeConfigsRequestData, DescribeConfigsResource,
        DescribeConfigsResourceResult, DescribeConfigsResponseData, DescribeConfigsResult,
        DescribeConfigsSynonym, ListConfigResourcesRequestData, ListConfigResourcesResponseData,
    },
    text,
};

mod change;

pub(crate) use change::{alter, alter_incrementally};

/// Whose settings they are, as the protocol numbers it.
pub(crate) const OF_TOPIC: i8 = 2;
pub(crate) const OF_BROKER: i8 = 4;
/// Loggers of a broker, metrics of clients, groups: known, and there are none.
const OF_NOTHING: [i8; 3] = [8, 16, 32];

/// Where a value comes from, as the protocol numbers it.
#[derive(Clone, Copy)]
enum ConfigSource {
    Topic = 1,
    Broker = 4,
    BuiltIn = 5,
}

/// Shows settings.
pub(crate) async fn describe(
    context: &Context<'_>,
    mut request: DescribeConfigsRequestData,
) -> DescribeConfigsResponseData {
    merge_repeated(
        &mut request.resources,
        |it| (it.resource_type, it.resource_name.clone()),
        |first, again| match (&mut first.configuration_keys, again.configuration_keys) {
            (Some(keys), Some(more)) if !keys.is_empty() && !more.is_empty() => keys.extend(more),
            // All settings are asked for.
            (keys, _) => *keys = None,
        },
    );
    let more = ConfigDetail {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
    };
    let one = |asked: DescribeConfigsResource| {
        let outcome = described(context.broker, &asked, more);
        let refusal = outcome.as_ref().err();
        DescribeConfigsResult {
            error_code: refusal.map_or(0, |it| it.code.code()),
            error_message: refusal.and_then(RequestRefusal::reason),
            resource_type: asked.resource_type,
            resource_name: asked.resource_name,
            configs: outcome.unwrap_or_default(),
            ..DescribeConfigsResult::default()
        }
    };
    let results = request.resources.into_iter().map(one).collect();
    DescribeConfigsResponseData { results, ..DescribeConfigsResponseData::default() }
}

/// Optional parts of each setting in the answer.
#[derive(Clone, Copy)]
struct ConfigDetail {
    synonyms: bool,
    documentation: bool,
}

fn described(
    broker: &Broker,
    asked: &DescribeConfigsResource,
    more: ConfigDetail,
) -> Result<Vec<DescribeConfigsResourceResult>, RequestRefusal> {
    let name = asked.resource_name.as_str();
    let mut all = match asked.resource_type {
        OF_TOPIC => {
            check_name(name)?;
            let spec = topic_spec(broker, name)?;
            let defaults = broker.defaults();
            let texts = defaults.overrides(&spec);
            let one =
                |it| topic_setting((&defaults, &broker.settings.stated), it, &spec, &texts, more);
            TOPIC_SETTINGS.iter().map(one).collect()
        }
        OF_BROKER if is_this(broker, name)? => {
            let all = broker_settings::all(&broker.settings, &broker.defaults());
            all.into_iter().map(|it| broker_setting(it, more)).collect()
        }
        // Settings of all brokers: none can be set.
        OF_BROKER => Vec::new(),
        other => return Err(no_settings(other)),
    };
    // An empty list of names is what some clients send for all of them.
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|it| !it.is_empty()) {
        all.retain(|it: &DescribeConfigsResourceResult| keys.contains(&it.name));
    }
    Ok(all)
}

fn topic_spec(broker: &Broker, name: &str) -> Result<StreamSpec, RequestRefusal> {
    if InternalTopic::named(broker, name).is_some() {
        return Ok(InternalTopic::spec(broker));
    }
    broker.topic(name).map(|it| it.stream.spec()).ok_or_else(|| no_topic(name))
}

/// Checks that a topic could have this name.
fn check_name(name: &str) -> Result<(), RequestRefusal> {
    match is_stream_name(name) {
        true => Ok(()),
        false => Err(LogError::Name(name.escape_debug().to_string()).into()),
    }
}

/// True if this node is named. False if all nodes are.
fn is_this(broker: &Broker, name: &str) -> Result<bool, RequestRefusal> {
    let NodeId(id) = broker.settings.node_id;
    match name {
        "" => Ok(false),
        _ if name.parse() == Ok(id) => Ok(true),
        _ => {
            let why = format!("this is node {id}: ask it for no other's settings");
            Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
        }
    }
}

fn no_settings(kind: i8) -> RequestRefusal {
    let why = format!("resources of type {kind} have no settings: topics (2) and brokers (4) have");
    RequestRefusal::with(ErrorCode::InvalidRequest, &why)
}

/// A topic's value, and where it comes from; after it those that would be in its place if it were
/// not said.
fn values(
    (defaults, stated): (&Defaults, &BTreeSet<&'static str>),
    setting: &'static TopicSetting,
    spec: &StreamSpec,
    texts: &Texts,
) -> Vec<(&'static str, String, ConfigSource)> {
    let mut values = Vec::with_capacity(3);
    if texts.contains_key(setting.name) {
        values.push((setting.name, defaults.value_in(setting, spec), ConfigSource::Topic));
    }
    match broker_settings::topic_default(setting, defaults, stated) {
        Some(it) => {
            if it.is_set {
                values.push((it.name, it.value, ConfigSource::Broker));
            }
            values.push((it.name, it.default, ConfigSource::BuiltIn));
        }
        None => values.push((setting.name, defaults.value(setting), ConfigSource::BuiltIn)),
    }
    values
}

fn topic_setting(
    broker: (&Defaults, &BTreeSet<&'static str>),
    setting: &'static TopicSetting,
    spec: &StreamSpec,
    texts: &Texts,
    more: ConfigDetail,
) -> DescribeConfigsResourceResult {
    let values = values(broker, setting, spec, texts);
    let (_, value, source) = &values[0];
    DescribeConfigsResourceResult {
        name: text(setting.name),
        value: Some(text(value)),
        read_only: false,
        config_source: *source as i8,
        is_sensitive: false,
        synonyms: synonyms(&values, more),
        config_type: setting.kind as i8,
        documentation: more.documentation.then(|| text(setting.doc)),
        ..DescribeConfigsResourceResult::default()
    }
}

fn broker_setting(shown: ShownSetting, more: ConfigDetail) -> DescribeConfigsResourceResult {
    let mut values = Vec::with_capacity(2);
    if shown.is_set {
        values.push((shown.name, shown.value, ConfigSource::Broker));
    }
    values.push((shown.name, shown.default, ConfigSource::BuiltIn));
    let (_, value, source) = &values[0];
    DescribeConfigsResourceResult {
        name: text(shown.name),
        value: Some(text(value)),
        read_only: true,
        config_source: *source as i8,
        is_sensitive: false,
        synonyms: synonyms(&values, more),
        config_type: shown.kind as i8,
        documentation: more.documentation.then(|| text(shown.doc)),
        ..DescribeConfigsResourceResult::default()
    }
}

fn synonyms(
    values: &[(&str, String, ConfigSource)],
    more: ConfigDetail,
) -> Vec<DescribeConfigsSynonym> {
    let one = |(name, value, source): &(&str, String, ConfigSource)| DescribeConfigsSynonym {
        name: text(name),
        value: Some(text(value)),
        source: *source as i8,
        ..DescribeConfigsSynonym::default()
    };
    if more.synonyms { values.iter().map(one).collect() } else { Vec::new() }
}

/// The settings of a topic that was just made.
pub(crate) fn of_new_topic(broker: &Broker, spec: &StreamSpec) -> Vec<CreatableTopicConfigs> {
    let defaults = broker.defaults();
    let texts = defaults.overrides(spec);
    let one = |setting: &'static TopicSetting| {
        let values = values((&defaults, &broker.settings.stated), setting, spec, &texts);
        let (_, value, source) = &values[0];
        CreatableTopicConfigs {
            name: text(setting.name),
            value: Some(text(value)),
            config_source: *source as i8,
            ..CreatableTopicConfigs::default()
        }
    };
    TOPIC_SETTINGS.iter().map(one).collect()
}

/// Lists the resources with settings: topics and this node. The oldest version asks for clients'
/// metrics alone, and there are none. (KIP-1142.)
pub(crate) async fn list(
    context: &Context<'_>,
    request: ListConfigResourcesRequestData,
) -> ListConfigResourcesResponseData {
    let broker = context.broker;
    let kinds = request.resource_types;
    let known = |kind: &i8| OF_NOTHING.contains(kind) || [OF_TOPIC, OF_BROKER].contains(kind);
    if !kinds.iter().all(known) {
        return ListConfigResourcesResponseData {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..ListConfigResourcesResponseData::default()
        };
    }
    let wants = |kind: i8| context.version() >= 1 && (kinds.is_empty() || kinds.contains(&kind));
    let resource = |name: &str, resource_type: i8| ConfigResource {
        resource_name: text(name),
        resource_type,
        ..ConfigResource::default()
    };
    let mut resources = Vec::new();
    if wants(OF_TOPIC) {
        resources.extend(broker.log.list().iter().map(|it| resource(it.name(), OF_TOPIC)));
        resources.extend(InternalTopic::all(broker).map(|it| resource(it.name, OF_TOPIC)));
    }
    if wants(OF_BROKER) {
        resources.push(resource(&broker.settings.node_id.to_string(), OF_BROKER));
    }
    ListConfigResourcesResponseData { config_resources: resources, ..Default::default() }
}
