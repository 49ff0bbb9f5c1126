//! Each row at least once: an idempotent producer, which never gives a record up.
//!
//! A commit returns when all of its records are acknowledged. Within a life of the job each is there
//! once, unless the cluster forgets the producer; rows that were sent and not yet committed when the
//! job was cut off come again.

use crate::stream::rows::CycleRows;
use std::time::Duration;
use tidemill_client::{
    Client, Producer,
    producer::{FlushError, NewRecord, ProduceError, ProducerOptions, StreamWriter},
};
use tidemill_env::World;
use tidemill_flow::{RetryPolicy, SinkError};

/// Longest wait for records before the sink checks whether the job stops.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer than a job waits for a cluster.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// See the module.
pub(super) struct AtLeastOnce {
    world: World,
    client: Client,
    open: Option<(Producer, StreamWriter)>,
    patience: RetryPolicy,
}

impl AtLeastOnce {
    pub(super) fn new(world: &World, client: &Client) -> Self {
        let (world, patience) = (world.clone(), RetryPolicy::new(world));
        Self { world, client: client.clone(), open: None, patience }
    }

    pub(super) fn retry_with(&mut self, patience: RetryPolicy) {
        self.patience = patience;
    }

    pub(super) fn open(&mut self, topic: &str) -> Result<(), SinkError> {
        let options = ProducerOptions {
            delivery_timeout: FOR_EVER,
            block_timeout: PATIENCE,
            ..ProducerOptions::default()
        };
        let producer = self.client.producer(options);
        let writer = producer.stream(topic).map_err(|error| failed(&error))?;
        self.open = Some((producer, writer));
        Ok(())
    }

    /// Sends the rows; returns when they are acknowledged.
    pub(super) fn commit(&mut self, ready: &[CycleRows], partitions: u32) -> Result<(), SinkError> {
        let Some((producer, writer)) = &self.open else {
            return Err(SinkError::new("the sink is not open"));
        };
        let now_ms = self.world.clock.wall_micros().div_euclid(1000);
        for pending in ready {
            for (partition, rows) in (0..).zip(pending.by_streamlet(partitions)) {
                for row in rows {
                    let record = NewRecord {
                        key: row.key.clone().map(|it| &pending.bytes[it]),
                        value: Some(&pending.bytes[row.value.clone()]),
                        timestamp_ms: Some(row.timestamp_ms.unwrap_or(now_ms)),
                        streamlet: Some(partition),
                        ..NewRecord::default()
                    };
                    loop {
                        match writer.send(&record) {
                            Ok(()) => break,
                            Err(error @ ProduceError::Full { .. }) => {
                                self.patience.report(&error);
                                if self.patience.gives_up() {
                                    return Err(SinkError::new(RetryPolicy::give_up_message(
                                        error,
                                    )));
                                }
                            }
                            Err(error) => return Err(failed(&error)),
                        }
                    }
                }
            }
        }
        loop {
            match producer.flush(PATIENCE) {
                Ok(()) => break,
                Err(error @ FlushError::TimedOut { .. }) => {
                    self.patience.report(&error);
                    if self.patience.gives_up() {
                        return Err(SinkError::new(RetryPolicy::give_up_message(error)));
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        self.patience.succeeded();
        Ok(())
    }
}

fn failed(error: &dyn std::fmt::Display) -> SinkError {
    SinkError::new(error.to_string())
}
