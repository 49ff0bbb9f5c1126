//! Settings are changed: all of a topic's at once, or some of them.
//!
//! Errors that no topic could avoid come before those of the topic, and a missing topic comes last,
//! as in Kafka: a client learns of an unknown setting even if there is no such topic.
//!
//! Invariant: a resource is changed as a whole or not at all, and durably before the answer.

use super::{OF_BROKER, OF_TOPIC, check_name, is_this, no_settings, topic_spec};
use crate::{
    Broker,
    api::Context,
    handler::{thread_pool, topics::twice},
    internal_topic::InternalTopic,
    refusal::RequestRefusal,
    topic_settings::{SettingType, Texts, find},
};
use std::sync::Arc;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        AlterConfigsRequestData, AlterConfigsResponseData, IncrementalAlterConfigsRequestData,
        IncrementalAlterConfigsResponseData, alter_configs_response,
        incremental_alter_configs_response,
    },
};

/// An operation on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Set,
    Delete,
    /// Adds to a list.
    Append,
    /// Takes from a list.
    Subtract,
}

struct ConfigChange {
    name: KafkaString,
    /// None: not known.
    operation: Option<Operation>,
    value: Option<KafkaString>,
}

/// The changes of one resource.
struct ConfigRequest {
    kind: i8,
    name: KafkaString,
    changes: Vec<ConfigChange>,
    /// Settings that are not named go back to their defaults.
    replaces: bool,
}

/// Gives topics the settings that are named, and no others.
pub(crate) async fn alter(
    context: &Context<'_>,
    request: AlterConfigsRequestData,
) -> AlterConfigsResponseData {
    let resources = request.resources.into_iter().map(|resource| {
        let change = |it: tidemill_wire::kafka::message::alter_configs_request::AlterableConfig| {
            ConfigChange { name: it.name, operation: Some(Operation::Set), value: it.value }
        };
        ConfigRequest {
            kind: resource.resource_type,
            name: resource.resource_name,
            changes: resource.configs.into_iter().map(change).collect(),
            replaces: true,
        }
    });
    let outcomes = change_all(context, resources.collect(), request.validate_only).await;
    let answer = |(asked, refusal): (ConfigRequest, Option<RequestRefusal>)| {
        alter_configs_response::AlterConfigsResourceResponse {
            error_code: refusal.as_ref().map_or(0, |it| it.code.code()),
            error_message: refusal.and_then(|it| it.reason()),
            resource_type: asked.kind,
            resource_name: asked.name,
            ..Default::default()
        }
    };
    let responses = outcomes.into_iter().map(answer).collect();
    AlterConfigsResponseData { responses, ..AlterConfigsResponseData::default() }
}

/// Changes the settings that are named. (KIP-339.)
pub(crate) async fn alter_incrementally(
    context: &Context<'_>,
    request: IncrementalAlterConfigsRequestData,
) -> IncrementalAlterConfigsResponseData {
    use tidemill_wire::kafka::message::incremental_alter_configs_request::AlterableConfig;
    let resources = request.resources.into_iter().map(|resource| {
        let change = |it: AlterableConfig| {
            let operation = match it.config_operation {
                0 => Some(Operation::Set),
                1 => Some(Operation::Delete),
                2 => Some(Operation::Append),
                3 => Some(Operation::Subtract),
                _ => None,
            };
            ConfigChange { name: it.name, operation, value: it.value }
        };
        ConfigRequest {
            kind: resource.resource_type,
            name: resource.resource_name,
            changes: resource.configs.into_iter().map(change).collect(),
            replaces: false,
        }
    });
    let outcomes = change_all(context, resources.collect(), request.validate_only).await;
    let answer = |(asked, refusal): (ConfigRequest, Option<RequestRefusal>)| {
        incremental_alter_configs_response::AlterConfigsResourceResponse {
            error_code: refusal.as_ref().map_or(0, |it| it.code.code()),
            error_message: refusal.and_then(|it| it.reason()),
            resource_type: asked.kind,
            resource_name: asked.name,
            ..Default::default()
        }
    };
    let responses = outcomes.into_iter().map(answer).collect();
    IncrementalAlterConfigsResponseData { responses, ..Default::default() }
}

async fn change_all(
    context: &Context<'_>,
    resources: Vec<ConfigRequest>,
    validate_only: bool,
) -> Vec<(ConfigRequest, Option<RequestRefusal>)> {
    let broker = Arc::clone(context.broker);
    let work = move || {
        let twice = twice(resources.iter().map(|it| (it.kind, it.name.as_bytes().to_vec())));
        let one = |asked: ConfigRequest| {
            let outcome = if twice.contains(&(asked.kind, asked.name.as_bytes().to_vec())) {
                let why = "the request names this resource more than once";
                Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
            } else {
                change(&broker, &asked, validate_only)
            };
            (asked, outcome.err())
        };
        resources.into_iter().map(one).collect()
    };
    thread_pool::run(work).await
}

fn change(
    broker: &Broker,
    asked: &ConfigRequest,
    validate_only: bool,
) -> Result<(), RequestRefusal> {
    let name = asked.name.as_str();
    match asked.kind {
        OF_TOPIC => change_topic(broker, asked, validate_only),
        OF_BROKER => {
            is_this(broker, name)?;
            // Nothing was changed since the node was started, so there is nothing to take back.
            if asked.changes.iter().all(|it| it.operation == Some(Operation::Delete)) {
                return Ok(());
            }
            let why = "settings of the broker cannot be changed while it runs: say them when the \
                       node is started";
            Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
        }
        other => Err(no_settings(other)),
    }
}

fn change_topic(
    broker: &Broker,
    asked: &ConfigRequest,
    validate_only: bool,
) -> Result<(), RequestRefusal> {
    let name = asked.name.as_str();
    let repeated = twice(asked.changes.iter().map(|it| it.name.as_bytes()));
    if !repeated.is_empty() {
        let why = "the request names a setting more than once";
        return Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
    }
    let steps: Vec<ConfigStep<'_>> =
        asked.changes.iter().map(ConfigStep::of).collect::<Result<_, _>>()?;
    if name.is_empty() {
        let why = "there are no settings of all topics: name one";
        return Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
    }
    check_name(name)?;
    if let Some(internal) = InternalTopic::named(broker, name) {
        return Err(internal.refusal());
    }
    let _one = broker.topics.change();
    let found = topic_spec(broker, name);
    let defaults = broker.defaults();
    // Of a topic that is not there: whether one could have this.
    let old = found.as_ref().unwrap_or(&defaults.spec);
    let mut texts = if asked.replaces { Texts::new() } else { defaults.overrides(old) };
    for step in &steps {
        let now = || {
            let setting = find(step.name)?;
            Some(texts.get(setting.name).cloned().unwrap_or_else(|| defaults.value(setting)))
        };
        match step.value(now) {
            Some(value) => texts.insert(step.name.to_owned(), value),
            None => texts.remove(step.name),
        };
    }
    let bad = |error| RequestRefusal::with(ErrorCode::InvalidConfig, &error);
    let spec = defaults.change(old, texts).map_err(bad)?;
    let old = found?;
    if validate_only || spec == old {
        return Ok(());
    }
    broker.log.alter(name, spec)?;
    if let Some(topic) = broker.topic(name) {
        topic.changed();
    }
    tracing::info!(topic = name, "settings of a topic changed");
    Ok(())
}

/// A change that some topic could take.
struct ConfigStep<'a> {
    name: &'a str,
    operation: Operation,
    /// Of a deletion: nothing.
    value: &'a str,
}

impl<'a> ConfigStep<'a> {
    fn of(change: &'a ConfigChange) -> Result<Self, RequestRefusal> {
        let name = change.name.as_str();
        let Some(operation) = change.operation else {
            let why = "operations are set (0), delete (1), append (2) and subtract (3)";
            return Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
        };
        // Of any name: tools that copy settings delete all that have their defaults elsewhere.
        if operation == Operation::Delete {
            return Ok(Self { name, operation, value: "" });
        }
        let Some(value) = &change.value else {
            let why = format!("{}: it has no value", name.escape_debug());
            return Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
        };
        let is_list = find(name).is_some_and(|it| it.kind == SettingType::List);
        if operation != Operation::Set && !is_list {
            let why = format!(
                "{}: it is no list, so nothing can be added or taken out",
                name.escape_debug()
            );
            return Err(RequestRefusal::with(ErrorCode::InvalidConfig, &why));
        }
        Ok(Self { name, operation, value: value.as_str().trim() })
    }

    /// The setting's text after it; none if it is said no more. `now` is its text before.
    fn value(&self, now: impl FnOnce() -> Option<String>) -> Option<String> {
        let items = |it: &str| -> Vec<String> {
            it.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Into::into).collect()
        };
        match self.operation {
            Operation::Delete => None,
            Operation::Set => Some(self.value.to_owned()),
            Operation::Append | Operation::Subtract => {
                let (mut list, items) = (items(&now().unwrap_or_default()), items(self.value));
                list.retain(|it| !items.contains(it));
                if self.operation == Operation::Append {
                    list.extend(items);
                }
                Some(list.join(","))
            }
        }
    }
}
