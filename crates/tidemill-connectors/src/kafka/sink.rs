//! A topic of another cluster as a sink.
//!
//! ```text
//! write(c): rows ─▶ encoded, kept       commit(c): rows up to c ─▶ ExactlyOnce │ AtLeastOnce ─▶ brokers
//! ```
//!
//! Under `exactly-once` in a job that keeps a ledger, a commit is a transaction ([`exactly_once`]). In all
//! other jobs an idempotent producer writes ([`at_least_once`]), and a job that is started again may
//! write rows twice.
//!
//! Brokers that go away are waited for, for as long as it takes: the commit does not return, the
//! rows behind it wait, and by the links' credit the sources do. A job that is to stop meanwhile fails
//! after a moment, and makes its uncommitted rows again when it resumes.

use super::cluster;
use crate::error::{ConnectorError, ConnectorErrorKind};
use crate::notes::not_noted;
use crate::stream::rows::UncommittedRows;
use arrow_schema::SchemaRef;
use at_least_once::AtLeastOnce;
use exactly_once::ExactlyOnce;
use std::{path::Path, sync::Arc};
use tidemill_client::{Admin, AdminError, Client, ErrorCode, admin::NewStream};
use tidemill_env::World;
use tidemill_flow::{Block, ErrorKind, RetryPolicy, Sink, SinkError};
use tidemill_types::{Cycle, job::KafkaSinkSpec, signs};

mod at_least_once;
mod exactly_once;
#[cfg(test)]
mod tests;

/// Writes rows to a topic of another cluster.
pub struct KafkaSink {
    client: Client,
    /// Its connections are those of the time before the job runs.
    admin: Admin,
    spec: KafkaSinkSpec,
    rows: UncommittedRows,
    writer: KafkaWriter,
    partitions: u32,
}

enum KafkaWriter {
    ExactlyOnce(Box<ExactlyOnce>),
    AtLeastOnce(Box<AtLeastOnce>),
}

impl KafkaSink {
    /// A sink that writes rows of `schema`. With `notes`, a file of the job's folder, each row is
    /// written once, also by a job that resumes; `name` is the job's and the sink's, for the name
    /// under which the cluster knows its transactions.
    ///
    /// # Errors
    /// No broker answers, there is no such topic and it is not to be made, the format is not `json`
    /// or `text`, or a key column is not there.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(
        world: &World,
        spec: &KafkaSinkSpec,
        name: &str,
        schema: &SchemaRef,
        notes: Option<&Path>,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        let subject = format!("topic `{}`", spec.topic);
        let rows = UncommittedRows::new((&subject, &spec.topic), spec.format, &spec.key, schema)?;
        let client = cluster::client(world, &spec.brokers)?;
        let admin = client.admin();
        match admin.identify(&spec.topic) {
            Ok(_) => {}
            Err(error) if is_unknown(&error) && spec.create => {}
            Err(error) if is_unknown(&error) => {
                let message = format!(
                    "the cluster at `{}` has no topic `{}`{}: create it, or say `create: true`",
                    spec.brokers,
                    spec.topic,
                    signs::note(&spec.topic, None)
                );
                return Err(ConnectorError { kind: ConnectorErrorKind::NotFound, message });
            }
            Err(error) => return Err(cluster::refused(&spec.brokers, &spec.topic, &error)),
        }
        let writer = match notes {
            Some(path) => KafkaWriter::ExactlyOnce(Box::new(ExactlyOnce::new(
                world, &client, spec, name, path,
            ))),
            None => KafkaWriter::AtLeastOnce(Box::new(AtLeastOnce::new(world, &client))),
        };
        let spec = spec.clone();
        Ok(Box::new(Self { client, admin, spec, rows, writer, partitions: 0 }))
    }

    fn failed(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(error.to_string()).within(self.place())
    }

    fn place(&self) -> String {
        format!("topic `{}` cannot be written", self.spec.topic)
    }

    /// The topic's id and its partitions; it is made if it is to be.
    fn find_or_make(&self) -> Result<(String, u32), AdminError> {
        match self.admin.identify(&self.spec.topic) {
            Err(error) if is_unknown(&error) && self.spec.create => {
                match self.admin.create(&self.to_be_made()) {
                    Err(error) if !is_known(&error) => Err(error),
                    _ => self.admin.identify(&self.spec.topic),
                }
            }
            found => found,
        }
    }

    /// Checks that the topic exists or could be created, without creating it.
    fn can_find_or_make(&self) -> Result<(), AdminError> {
        match self.admin.identify(&self.spec.topic) {
            Err(error) if is_unknown(&error) && self.spec.create => {
                let checked = self.admin.can_create(&self.to_be_made());
                checked.or_else(|error| if is_known(&error) { Ok(()) } else { Err(error) })
            }
            found => found.map(|_| ()),
        }
    }

    /// The refusal of the topic; an absent broker is retried.
    fn refused(&self, error: &AdminError) -> SinkError {
        let kind = cluster::refused(&self.spec.brokers, &self.spec.topic, error).kind;
        self.failed(error).with_kind(match kind {
            ConnectorErrorKind::Away => ErrorKind::Retry,
            _ => ErrorKind::Invalid,
        })
    }

    fn to_be_made(&self) -> NewStream {
        let streamlets = self.spec.partitions.and_then(|it| i32::try_from(it).ok());
        NewStream { name: self.spec.topic.clone(), streamlets, ..NewStream::default() }
    }
}

fn is_unknown(error: &AdminError) -> bool {
    error.code() == Some(ErrorCode::UnknownTopicOrPartition)
}

/// Somebody else has made it meanwhile.
fn is_known(error: &AdminError) -> bool {
    error.code() == Some(ErrorCode::TopicAlreadyExists)
}

impl Sink for KafkaSink {
    /// The check does not cover whether the cluster accepts the job's transactions: taking their id over
    /// shows it, and would end those of an earlier process.
    fn check(&mut self) -> Result<(), SinkError> {
        self.can_find_or_make().map_err(|error| self.refused(&error))
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let (id, partitions) = self.find_or_make().map_err(|error| self.refused(&error))?;
        self.partitions = partitions.max(1);
        self.admin = self.client.admin();
        let opened = match &mut self.writer {
            KafkaWriter::ExactlyOnce(once) => once.open(resume, &id),
            KafkaWriter::AtLeastOnce(repeating) => {
                repeating.open(&self.spec.topic).map(|()| Cycle::NONE)
            }
        };
        opened.map_err(|error| error.within(self.place()))
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.rows.write(cycle, blocks).map_err(|error| self.failed(error))
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let ready = self.rows.up_to(cycle);
        let outcome = match &mut self.writer {
            KafkaWriter::ExactlyOnce(once) => once.commit(cycle, ready, self.partitions),
            KafkaWriter::AtLeastOnce(repeating) => repeating.commit(ready, self.partitions),
        };
        outcome.map_err(|error| error.within(self.place()))?;
        drop(self.rows.take(cycle));
        Ok(())
    }

    fn retry_with(&mut self, patience: RetryPolicy) {
        match &mut self.writer {
            KafkaWriter::ExactlyOnce(once) => once.retry_with(patience),
            KafkaWriter::AtLeastOnce(repeating) => repeating.retry_with(patience),
        }
    }

    fn close(&mut self) -> Result<(), SinkError> {
        match &mut self.writer {
            KafkaWriter::ExactlyOnce(once) => {
                let closed = once.close().map_err(|error| not_noted(&error));
                closed.map_err(|error| error.within(self.place()))
            }
            KafkaWriter::AtLeastOnce(_) => Ok(()),
        }
    }
}
