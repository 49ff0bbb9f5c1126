//! Settings of streams.

use super::{Admin, AdminError, about, stream};
use crate::Refusal;
use tidemill_wire::kafka::{
    KafkaString,
    message::{
        DescribeConfigsRequestData, IncrementalAlterConfigsRequestData,
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
    text,
};

/// A stream, among the things that have settings.
const OF_STREAM: i8 = 2;
/// The operation on a setting: give it a value, or take the stream's own away.
const SET: i8 = 0;
const UNSET: i8 = 1;

/// A setting of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value; none if it is a secret or has none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: SettingSource,
    /// True if it cannot be changed.
    pub read_only: bool,
}

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// It was set for this stream.
    Stream,
    /// It was set for the node or the cluster.
    Node,
    /// Nobody has set it.
    Default,
    /// The node did not say.
    Unknown,
}

impl SettingSource {
    fn of(source: i8) -> Self {
        match source {
            1 => Self::Stream,
            2..=4 => Self::Node,
            5 => Self::Default,
            _ => Self::Unknown,
        }
    }
}

impl Admin {
    /// All settings of a stream, by name.
    ///
    /// # Errors
    /// No node answers, or there is no such stream.
    pub fn settings(&self, name: &str) -> Result<Vec<Setting>, AdminError> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(OF_STREAM)
            .with_resource_name(text(name))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequestData::default().with_resources(vec![resource]);
        let answer = self.ask(&request)?;
        let mut settings = Vec::new();
        for result in &answer.results {
            Refusal::check(result.error_code, result.error_message.as_ref())
                .map_err(about(stream(name)))?;
            settings.extend(result.configs.iter().map(|it| Setting {
                name: it.name.as_str().to_owned(),
                value: it.value.as_ref().map(|it: &KafkaString| it.as_str().to_owned()),
                source: SettingSource::of(it.config_source),
                read_only: it.read_only,
            }));
        }
        settings.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(settings)
    }

    /// Changes settings of a stream: a value sets one, none takes the stream's own value away, so
    /// that the node's counts again. All are changed or none is.
    ///
    /// # Errors
    /// No node answers, there is no such stream, or a setting is not possible.
    pub fn alter(
        &self,
        name: &str,
        changes: &[(String, Option<String>)],
    ) -> Result<(), AdminError> {
        let change = |(name, value): &(String, Option<String>)| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(if value.is_some() { SET } else { UNSET })
                .with_value(value.as_deref().map(text))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(OF_STREAM)
            .with_resource_name(text(name))
            .with_configs(changes.iter().map(change).collect());
        let request = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
        let answer = self.controller()?.call(&request, self.request_timeout())?;
        for it in &answer.responses {
            Refusal::check(it.error_code, it.error_message.as_ref())
                .map_err(about(stream(name)))?;
        }
        Ok(())
    }
}
