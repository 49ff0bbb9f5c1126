//! A topic of another cluster, as a source reads it.

use super::cluster;
use super::feed::{Hub, KafkaFeed, seen};
use crate::error::ConnectorError;
use crate::record_source::{
    Extent, LogName, Reach, RecordFeed, RecordLog, RecordSampler, RecordSource, RecordSourceSpec,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tidemill_client::{
    Admin, AdminError, Client,
    admin::OffsetAt,
    consumer::{ConsumerOptions, Start},
};
use tidemill_env::World;
use tidemill_flow::{Obstacle, SourceError, SourceFactory};
use tidemill_types::{SliceId, job::Isolation};

#[cfg(test)]
mod tests;

/// Interval between requests for added partitions, in microseconds.
const ASK_EVERY_US: u64 = 10_000_000;
/// Timeout of such a request; a stopping job waits as long.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for the first records, in microseconds.
const LOOK_PATIENCE_US: u64 = 30_000_000;

impl RecordSource {
    /// A topic of another cluster as a source.
    ///
    /// # Errors
    /// No broker answers, there is no such topic, it is empty and the job names no columns, its
    /// records cannot be read, or it has not the columns that the job names.
    pub fn of_topic(
        world: &World,
        brokers: &str,
        topic: &str,
        spec: RecordSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let sampler = RecordSampler::new(&LogName::topic(topic), &spec)?;
        let log = TopicLog::new(world, brokers, topic, spec.isolation)?;
        Self::open(world, Box::new(log), spec, sampler)
    }
}

/// See the module.
struct TopicLog {
    world: World,
    name: LogName,
    brokers: String,
    client: Client,
    id: String,
    isolation: Isolation,
    /// Asks when the job is planned.
    admin: Admin,
    /// Asks for partitions that were added.
    asks: Admin,
    /// The time of the next such request on the monotonic clock, in microseconds.
    ask_at_us: AtomicU64,
    /// Made when the first slice is opened.
    hub: Mutex<Option<Arc<Hub>>>,
}

impl TopicLog {
    fn new(
        world: &World,
        brokers: &str,
        topic: &str,
        isolation: Isolation,
    ) -> Result<Self, ConnectorError> {
        let client = cluster::client(world, brokers)?;
        let admin = client.admin();
        let (id, _) =
            admin.identify(topic).map_err(|error| cluster::refused(brokers, topic, &error))?;
        let asks = client.with_patience(ASK_PATIENCE).admin();
        Ok(Self {
            world: world.clone(),
            name: LogName::topic(topic),
            brokers: brokers.to_owned(),
            client,
            id,
            isolation,
            admin,
            asks,
            ask_at_us: AtomicU64::new(0),
            hub: Mutex::default(),
        })
    }

    fn topic(&self) -> &str {
        &self.name.name
    }

    /// An offset of each partition, in their order.
    fn offsets(&self, at: OffsetAt) -> Result<Vec<i64>, ConnectorError> {
        let refused = |error| cluster::refused(&self.brokers, self.topic(), &error);
        offsets(&self.admin, self.topic(), at).map_err(refused)
    }

    fn hub(&self, reach: &Reach) -> Result<Arc<Hub>, SourceError> {
        let mut hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = &*hub {
            return Ok(Arc::clone(hub));
        }
        let starts = reach.bounds().iter().map(|(start, _)| *start);
        let made = Hub::new(&self.world, &self.client, (self.topic(), self.isolation), starts);
        let made = made.map_err(cluster::consume_error)?;
        *hub = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Shows the first records of these partitions to the sampler.
    fn show(&self, extents: &[Extent], sampler: &mut RecordSampler) -> Result<(), String> {
        let options = ConsumerOptions {
            isolation: seen(self.isolation),
            buffer_bytes: 4 << 20,
            ..ConsumerOptions::default()
        };
        let (topic, clock) = (self.topic(), &self.world.clock);
        let mut consumer = self.client.consumer(options);
        for (index, Extent { first, end }) in (0..).zip(extents) {
            if first >= end || !sampler.goes_on() {
                continue;
            }
            let assigned = BTreeMap::from([(index, Start::Offset(*first))]);
            consumer.assign(topic, &assigned).map_err(|error| error.to_string())?;
            let mut came_us = clock.monotonic_micros();
            while sampler.goes_on() {
                let polled = consumer.poll(Duration::from_millis(20));
                if let Some(batch) = polled.map_err(|error| error.to_string())? {
                    came_us = clock.monotonic_micros();
                    for record in batch.records() {
                        let record = record.map_err(|error| error.to_string())?;
                        if sampler.goes_on() && record.offset < *end {
                            sampler.add(record.value);
                        }
                    }
                    if batch.next_offset() >= *end {
                        break;
                    }
                    consumer.recycle(batch);
                    continue;
                }
                let at = consumer.positions().get(&(topic.to_owned(), index)).copied().flatten();
                if at.is_some_and(|it| it >= *end) {
                    break;
                }
                if clock.monotonic_micros().saturating_sub(came_us) > LOOK_PATIENCE_US {
                    let obstacle =
                        consumer.obstacle().map_or_else(|| "nothing came".into(), |it| it.why);
                    return Err(format!("its first records could not be read: {obstacle}"));
                }
            }
            consumer.unassign(topic, index);
        }
        Ok(())
    }
}

/// An offset of each partition, in their order.
fn offsets(admin: &Admin, topic: &str, at: OffsetAt) -> Result<Vec<i64>, AdminError> {
    Ok(admin.offsets(topic, at)?.into_values().map(|it| it.offset).collect())
}

impl RecordLog for TopicLog {
    fn name(&self) -> &LogName {
        &self.name
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn extents(&self) -> Result<Vec<Extent>, ConnectorError> {
        let ends = self.offsets(match self.isolation {
            Isolation::Committed => OffsetAt::LatestCommitted,
            Isolation::Uncommitted => OffsetAt::Latest,
        })?;
        let firsts = self.offsets(OffsetAt::Earliest)?;
        Ok(firsts.into_iter().zip(ends).map(|(first, end)| Extent { first, end }).collect())
    }

    fn offsets_at(&self, timestamp_ms: i64, _: &[Extent]) -> Result<Vec<i64>, ConnectorError> {
        self.offsets(OffsetAt::Time(timestamp_ms))
    }

    fn offsets_of_group(&self, _: &str, _: &[Extent]) -> Result<Vec<i64>, ConnectorError> {
        let message = "it cannot start from a consumer group: only a stream of the node can";
        Err(self.name.refusal(message))
    }

    fn sample(
        &self,
        extents: &[Extent],
        sampler: &mut RecordSampler,
    ) -> Result<(), ConnectorError> {
        let is_empty = extents.iter().all(|it| it.first >= it.end);
        if is_empty || !sampler.goes_on() {
            return Ok(());
        }
        self.show(extents, sampler).map_err(|message| self.name.refusal(message))
    }

    fn open(
        &self,
        slice: SliceId,
        kept_from: i64,
        reach: &Reach,
    ) -> Result<Box<dyn RecordFeed>, SourceError> {
        let hub = self.hub(reach)?;
        Ok(Box::new(KafkaFeed::new(&hub, slice, reach.start_of(slice), kept_from)))
    }

    fn first_offsets(&self, reach: &Reach) -> Result<Vec<i64>, SourceError> {
        let (hub, now_us) = (self.hub(reach)?, self.world.clock.monotonic_micros());
        // A cluster that does not answer is told of already, and waited for.
        if now_us < self.ask_at_us.load(Ordering::Relaxed) || hub.obstacle().is_some() {
            return Ok(Vec::new());
        }
        self.ask_at_us.store(now_us + ASK_EVERY_US, Ordering::Relaxed);
        let (id, count) = self.asks.identify(self.topic()).map_err(cluster::admin_error)?;
        // Of another topic of its name nothing is read; that shows when it is fetched from.
        if id != self.id || count <= reach.len() {
            return Ok(Vec::new());
        }
        offsets(&self.asks, self.topic(), OffsetAt::Earliest).map_err(cluster::admin_error)
    }

    fn read_added(&self, starts: BTreeMap<SliceId, i64>) -> Result<(), SourceError> {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hub.map_or(Ok(()), |hub| hub.add(&starts)).map_err(cluster::consume_error)
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        let obstacle = hub.as_ref()?.obstacle()?;
        Some(Obstacle { why: obstacle.why.to_string(), since_us: obstacle.since_us })
    }
}
