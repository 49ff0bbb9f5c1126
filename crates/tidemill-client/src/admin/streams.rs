//! Streams: list, describe, create, grow, delete.

use super::{Admin, AdminError, Setting, about, stream};
use crate::{
    Refusal,
    cluster::{Metadata, StreamMeta},
    options::micros,
};
use std::{collections::BTreeMap, time::Duration};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        CreatePartitionsRequestData, CreateTopicsRequestData, DeleteTopicsRequestData,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_topics_request::DeleteTopicState,
    },
    text,
};

/// The pause between checks for the leaders of a new stream, in microseconds.
const LOOK_US: u64 = 5_000;

/// A stream in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its name.
    pub name: String,
    /// The number of streamlets.
    pub streamlets: i32,
    /// True if the cluster keeps its own data in it.
    pub internal: bool,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDescription {
    /// Its name.
    pub name: String,
    /// Its id: 32 hexadecimal digits, zeros if the node does not know ids.
    pub id: String,
    /// True if the cluster keeps its own data in it.
    pub internal: bool,
    /// Its streamlets, by their numbers.
    pub streamlets: Vec<StreamletDescription>,
    /// Its settings, by their names.
    pub settings: Vec<Setting>,
}

/// A streamlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamletDescription {
    /// Its number.
    pub index: i32,
    /// The node that takes and serves its records; none while there is none.
    pub leader: Option<i32>,
    /// The nodes that keep it.
    pub replicas: Vec<i32>,
    /// Those of them that have all of it.
    pub in_sync: Vec<i32>,
    /// Offset of the first record that is kept; none if the leader did not say.
    pub start: Option<i64>,
    /// Offset that the next record will get; none if the leader did not say.
    pub end: Option<i64>,
}

/// A stream to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewStream {
    /// Its name: 1 to 249 of `a-z A-Z 0-9 . _ -`.
    pub name: String,
    /// The number of streamlets; none: the cluster's default.
    pub streamlets: Option<i32>,
    /// The number of replicas of each; none: the cluster's default.
    pub replicas: Option<i16>,
    /// Settings that differ from the cluster's, such as `retention.ms`.
    pub settings: BTreeMap<String, String>,
}

impl Admin {
    /// All streams, by name.
    ///
    /// # Errors
    /// No node answers.
    pub fn list(&self) -> Result<Vec<StreamSummary>, AdminError> {
        let metadata = self.metadata(None)?;
        let row = |(name, meta): (&String, &StreamMeta)| StreamSummary {
            name: name.clone(),
            streamlets: meta.streamlet_count(),
            internal: meta.internal,
        };
        Ok(metadata.streams.iter().map(row).collect())
    }

    /// One stream, with its offsets and settings.
    ///
    /// # Errors
    /// No node answers, or there is no such stream.
    pub fn describe(&self, name: &str) -> Result<StreamDescription, AdminError> {
        let meta = self.stream_meta(name)?;
        let indexes: Vec<i32> = meta.streamlets.keys().copied().collect();
        // A streamlet without a leader has no offsets to tell; the others have.
        let start = self.offsets_of(name, &indexes, super::OffsetAt::Earliest)?;
        let end = self.offsets_of(name, &indexes, super::OffsetAt::Latest)?;
        let offset = |of: &BTreeMap<i32, Result<super::Offset, AdminError>>, index| {
            of.get(index).and_then(|it| it.as_ref().ok()).map(|it| it.offset)
        };
        let streamlets = meta.streamlets.iter().map(|(index, it)| StreamletDescription {
            index: *index,
            leader: it.leader.map(|it| it.0),
            replicas: it.replicas.clone(),
            in_sync: it.in_sync.clone(),
            start: offset(&start, index),
            end: offset(&end, index),
        });
        Ok(StreamDescription {
            name: name.to_owned(),
            id: meta.id.to_bytes().iter().map(|it| format!("{it:02x}")).collect(),
            internal: meta.internal,
            streamlets: streamlets.collect(),
            settings: self.settings(name)?,
        })
    }

    /// The metadata of a stream that exists.
    pub(crate) fn stream_meta(&self, name: &str) -> Result<StreamMeta, AdminError> {
        let metadata = self.metadata(Some(&[name]))?;
        Self::found(name, &metadata)
    }

    fn found(name: &str, metadata: &Metadata) -> Result<StreamMeta, AdminError> {
        let unknown = || Refusal { code: ErrorCode::UnknownTopicOrPartition, message: None };
        let Some(meta) = metadata.streams.get(name) else {
            return Err(about(stream(name))(unknown()));
        };
        match meta.code {
            ErrorCode::None | ErrorCode::LeaderNotAvailable => Ok(meta.clone()),
            code => Err(about(stream(name))(Refusal { code, message: None })),
        }
    }

    /// Makes a stream, and waits until its streamlets can be used.
    ///
    /// # Errors
    /// No node answers, or the node refuses: [`ErrorCode::TopicAlreadyExists`] if there is one of
    /// this name.
    pub fn create(&self, new: &NewStream) -> Result<(), AdminError> {
        self.ask_for(new, false)?;
        self.wait_for_leaders(&new.name, new.streamlets.unwrap_or(1))
    }

    /// Checks that a stream could be made, without making it.
    ///
    /// # Errors
    /// As those of [`Self::create`].
    pub fn can_create(&self, new: &NewStream) -> Result<(), AdminError> {
        self.ask_for(new, true)
    }

    fn ask_for(&self, new: &NewStream, validate_only: bool) -> Result<(), AdminError> {
        let setting = |(name, value): (&String, &String)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        let row = CreatableTopic::default()
            .with_name(text(&new.name))
            .with_num_partitions(new.streamlets.unwrap_or(-1))
            .with_replication_factor(new.replicas.unwrap_or(-1))
            .with_configs(new.settings.iter().map(setting).collect());
        let request = CreateTopicsRequestData::default()
            .with_topics(vec![row])
            .with_validate_only(validate_only)
            .with_timeout_ms(self.timeout_ms());
        let answer = self.controller()?.call(&request, self.request_timeout())?;
        for it in &answer.topics {
            Refusal::check(it.error_code, it.error_message.as_ref())
                .map_err(about(stream(&new.name)))?;
        }
        Ok(())
    }

    /// The id of a stream, 32 hexadecimal digits (zeros if the node does not know ids), and how
    /// many streamlets it has.
    ///
    /// # Errors
    /// No node answers, or there is no such stream.
    pub fn identify(&self, name: &str) -> Result<(String, u32), AdminError> {
        let meta = self.stream_meta(name)?;
        Ok((meta.id_text(), meta.streamlet_count().unsigned_abs()))
    }

    /// Waits until a stream has `count` streamlets with leaders. A cluster elects them in its own
    /// time; when time is up the stream is there all the same.
    fn wait_for_leaders(&self, name: &str, count: i32) -> Result<(), AdminError> {
        let deadline_us = self.deadline_us();
        loop {
            let metadata = self.metadata(Some(&[name]))?;
            let ready = metadata.streams.get(name).is_some_and(|it| {
                let led = it.streamlets.values().filter(|it| it.leader.is_some());
                led.count() >= usize::try_from(count).unwrap_or(0)
            });
            if ready || self.cluster.now_us() >= deadline_us {
                return Ok(());
            }
            self.cluster.world().clock.sleep_micros(LOOK_US);
        }
    }

    /// Adds streamlets, so that there are `total`.
    ///
    /// # Errors
    /// No node answers, there is no such stream, or it has as many or more.
    pub fn add_streamlets(&self, name: &str, total: i32) -> Result<(), AdminError> {
        let row = CreatePartitionsTopic::default()
            .with_name(text(name))
            .with_count(total)
            .with_assignments(None);
        let request = CreatePartitionsRequestData::default()
            .with_topics(vec![row])
            .with_timeout_ms(self.timeout_ms());
        let answer = self.controller()?.call(&request, self.request_timeout())?;
        for it in &answer.results {
            Refusal::check(it.error_code, it.error_message.as_ref())
                .map_err(about(stream(name)))?;
        }
        self.wait_for_leaders(name, total)
    }

    /// Deletes a stream and all its records.
    ///
    /// # Errors
    /// No node answers, or there is no such stream.
    pub fn delete(&self, name: &str) -> Result<(), AdminError> {
        // From version 6 on a row says name or id; before, there are only names.
        let row = DeleteTopicState::default().with_name(Some(text(name)));
        let request = DeleteTopicsRequestData::default().with_timeout_ms(self.timeout_ms());
        let connection = self.controller()?;
        let version = connection.version(tidemill_wire::kafka::ApiKey::DeleteTopics)?;
        let request = match version {
            6.. => request.with_topics(vec![row]),
            _ => request.with_topic_names(vec![text(name)]),
        };
        let answer = connection.call(&request, self.request_timeout())?;
        for it in &answer.responses {
            let message: Option<&KafkaString> = it.error_message.as_ref();
            Refusal::check(it.error_code, message).map_err(about(stream(name)))?;
        }
        Ok(())
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.cluster.options().request_timeout
    }

    /// The time that a node may take, as a request has it.
    pub(crate) fn timeout_ms(&self) -> i32 {
        i32::try_from(micros(self.request_timeout()) / 1000).unwrap_or(i32::MAX)
    }
}
