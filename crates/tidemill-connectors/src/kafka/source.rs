//! A topic as a source: one source slice a partition, at an offset each.
//!
//! Committed records are never taken back: a job that reads only those and resumes reads
//! the same records up to the same offsets again. Where each partition began is noted in the job's
//! folder before the first record is read; the ledger has where each cycle ended.

use super::cluster;
use super::feed::{Hub, KafkaFeed, seen};
use crate::error::ConnectorError;
use crate::stream::StreamSourceSpec;
use crate::stream::note::{Began, Notes};
use crate::stream::reach::Reach;
use crate::stream::slice::Slice;
use crate::stream::values::{StreamSampler, StreamSchema, refused};
use arrow_schema::SchemaRef;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tidemill_client::{
    Admin, AdminError, Client,
    admin::OffsetAt,
    consumer::{ConsumerOptions, Start},
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{GuessedColumn, Obstacle, Position, Source, SourceError, SourceFactory};
use tidemill_types::job::{Isolation, StartSpec, UntilSpec};

#[cfg(test)]
mod tests;

/// Interval between requests for added partitions, in microseconds.
const ASK_EVERY_US: u64 = 10_000_000;
/// Timeout of such a request; a stopping job waits as long.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for the first records, in microseconds.
const LOOK_PATIENCE_US: u64 = 30_000_000;

/// A topic of another cluster as a source.
pub struct KafkaSource {
    world: World,
    client: Client,
    topic: String,
    /// The topic's id: another one may have its name later.
    id: String,
    spec: StreamSourceSpec,
    values: StreamSchema,
    reach: RwLock<Reach>,
    /// By partition: the first offset that was there when the job was planned; later ones were made
    /// since.
    kept_from: Vec<i64>,
    /// Asks for partitions that were added.
    asks: Admin,
    /// When they are asked for again, by the monotonic clock, in microseconds.
    ask_at_us: AtomicU64,
    /// Made when the first slice is opened.
    hub: Mutex<Option<Arc<Hub>>>,
    /// Written before the first slice is read.
    note: Option<Notes<Began>>,
}

impl KafkaSource {
    /// Looks at a topic's first records and finds its columns, as a stream's are found.
    ///
    /// # Errors
    /// No broker answers, there is no such topic, it is empty and the job names no columns, its
    /// records cannot be read, or it has not the columns that the job names.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        world: &World,
        brokers: &str,
        topic: &str,
        spec: StreamSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let subject = format!("topic `{topic}`");
        let mut look = StreamSampler::new(&subject, &spec)?;
        let client = cluster::client(world, brokers)?;
        let admin = client.admin();
        let failed = |error: AdminError| cluster::refused(brokers, topic, &error);
        let (id, _) = admin.identify(topic).map_err(failed)?;
        let latest = match spec.isolation {
            Isolation::Committed => OffsetAt::LatestCommitted,
            Isolation::Uncommitted => OffsetAt::Latest,
        };
        let ends = offsets(&admin, topic, latest).map_err(failed)?;
        let kept_from = offsets(&admin, topic, OffsetAt::Earliest).map_err(failed)?;
        let isolation = spec.isolation;
        let note = spec.note.as_ref().map(|path| Notes::<Began>::new(world, path));
        let noted = match &note {
            Some(note) if spec.resume || spec.from_checkpoint => {
                note.read().map_err(|it| refused(&subject, it))?
            }
            _ => None,
        };
        look.know(noted.as_ref().and_then(|it| it.columns.clone()));
        if let Some(noted) = noted.as_ref().filter(|_| spec.from_checkpoint) {
            noted.is_of(&id).map_err(|why| refused(&subject, why))?;
        }
        sample(world, &client, (topic, isolation), (&kept_from, &ends), &mut look)
            .map_err(|message| refused(&subject, message))?;
        let values = look.finish(&subject, &spec)?;
        let reach = match noted {
            Some(noted) if spec.resume && noted.stream != id => {
                let message = "it is not the topic that the job began with, but another one of \
                               that name; start the job anew";
                return Err(refused(&subject, message));
            }
            Some(noted) if spec.resume => {
                let mut reach = noted.reach();
                if spec.until == UntilSpec::Never {
                    reach.take_in(kept_from.len(), |index| kept_from[index]);
                }
                reach
            }
            noted => {
                let starts = match &spec.start {
                    StartSpec::Earliest => kept_from.clone(),
                    StartSpec::Latest => ends.clone(),
                    StartSpec::Time(time) => {
                        let at = OffsetAt::Time(time.0.div_euclid(1000));
                        offsets(&admin, topic, at).map_err(failed)?
                    }
                    StartSpec::Group(_) => {
                        let message = "it cannot start from a consumer group: only a stream of \
                                       the node can";
                        return Err(refused(&subject, message));
                    }
                };
                let until = |start: &i64, end: i64| match spec.until {
                    UntilSpec::Never => None,
                    UntilSpec::Latest => Some(end.max(*start)),
                };
                let starts = starts.iter().zip(ends);
                let bounds = starts.map(|(start, end)| (*start, until(start, end))).collect();
                Reach::begins(bounds, noted.as_ref(), |index| kept_from[index])
            }
        };
        let asks = client.with_patience(ASK_PATIENCE).admin();
        let (world, topic) = (world.clone(), topic.to_owned());
        let (reach, hub, ask_at_us) = (RwLock::new(reach), Mutex::default(), AtomicU64::new(0));
        Ok(Arc::new(Self {
            world,
            client,
            topic,
            id,
            spec,
            values,
            reach,
            kept_from,
            asks,
            ask_at_us,
            hub,
            note,
        }))
    }

    fn failed(&self, error: impl std::fmt::Display) -> SourceError {
        SourceError::new(format!("topic `{}`: {error}", self.topic))
    }

    fn reach(&self) -> RwLockReadGuard<'_, Reach> {
        self.reach.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps where reading begins.
    fn keep(&self, reach: &Reach) -> Result<(), SourceError> {
        let Some(note) = &self.note else { return Ok(()) };
        let began = Began::new(&self.id, reach, self.values.kept.clone());
        note.write(&began).map_err(|error| self.failed(&error).retry_if(has_no_room(&error)))
    }

    /// The first offsets of the partitions that the topic has, if it has more than are read.
    fn added(&self) -> Result<Vec<i64>, AdminError> {
        let (id, count) = self.asks.identify(&self.topic)?;
        match id == self.id && count > self.reach().len() {
            true => offsets(&self.asks, &self.topic, OffsetAt::Earliest),
            // Of another topic of its name nothing is read; that shows when it is fetched from.
            false => Ok(Vec::new()),
        }
    }

    fn hub(&self) -> Result<Arc<Hub>, SourceError> {
        let mut hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = &*hub {
            return Ok(Arc::clone(hub));
        }
        let reach = self.reach();
        let starts = reach.bounds().iter().map(|(start, _)| *start);
        let made = Hub::new(&self.world, &self.client, (&self.topic, self.spec.isolation), starts);
        let made = made.map_err(|error| self.failed(error))?;
        *hub = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// An offset of each partition, in their order.
fn offsets(admin: &Admin, topic: &str, at: OffsetAt) -> Result<Vec<i64>, AdminError> {
    Ok(admin.offsets(topic, at)?.into_values().map(|it| it.offset).collect())
}

/// Lets `look` see the first records of a topic, partition by partition: so it sees the
/// same ones each time.
fn sample(
    world: &World,
    client: &Client,
    (topic, isolation): (&str, Isolation),
    (starts, ends): (&[i64], &[i64]),
    look: &mut StreamSampler,
) -> Result<(), String> {
    if !look.goes_on() || starts.iter().zip(ends).all(|(start, end)| start >= end) {
        return Ok(());
    }
    let options = ConsumerOptions {
        isolation: seen(isolation),
        buffer_bytes: 4 << 20,
        ..ConsumerOptions::default()
    };
    let mut consumer = client.consumer(options);
    for (index, (start, end)) in (0..).zip(starts.iter().zip(ends)) {
        if start >= end || !look.goes_on() {
            continue;
        }
        let assigned = BTreeMap::from([(index, Start::Offset(*start))]);
        consumer.assign(topic, &assigned).map_err(|error| error.to_string())?;
        let mut came_us = world.clock.monotonic_micros();
        while look.goes_on() {
            let polled = consumer.poll(Duration::from_millis(20));
            if let Some(batch) = polled.map_err(|error| error.to_string())? {
                came_us = world.clock.monotonic_micros();
                for record in batch.records() {
                    let record = record.map_err(|error| error.to_string())?;
                    if look.goes_on() && record.offset < *end {
                        look.add(record.value);
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
            if world.clock.monotonic_micros().saturating_sub(came_us) > LOOK_PATIENCE_US {
                let obstacle =
                    consumer.obstacle().map_or_else(|| "nothing came".into(), |it| it.why);
                return Err(format!("its first records could not be read: {obstacle}"));
            }
        }
        consumer.unassign(topic, index);
    }
    Ok(())
}

impl SourceFactory for KafkaSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.values.schema)
    }

    fn slices(&self) -> u32 {
        self.reach().len()
    }

    fn began_with(&self) -> u32 {
        self.reach().first()
    }

    fn grows(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn grow(&self) -> Result<u32, SourceError> {
        let (hub, now_us) = (self.hub()?, self.world.clock.monotonic_micros());
        // A cluster that does not answer is told of already, and waited for.
        if now_us < self.ask_at_us.load(Ordering::Relaxed) || hub.obstacle().is_some() {
            return Ok(self.slices());
        }
        self.ask_at_us.store(now_us + ASK_EVERY_US, Ordering::Relaxed);
        let starts = self.added().map_err(|error| self.failed(error))?;
        let mut reach = self.reach().clone();
        let added = reach.take_in(starts.len(), |index| starts[index]);
        if !added.is_empty() {
            hub.add(added.map(|index| (index, starts[index])))
                .map_err(|error| self.failed(error))?;
            self.keep(&reach)?;
            *self.reach.write().unwrap_or_else(PoisonError::into_inner) = reach;
        }
        Ok(self.slices())
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let hub = self.hub()?;
        let (start, until) = self.reach().bounds()[slice as usize];
        let subject = ("topic", format!("{} partition {slice}", self.topic));
        let kept_from = self.kept_from.get(slice as usize).copied().unwrap_or(start);
        let feed = KafkaFeed::new(&hub, slice, start, kept_from);
        Ok(Box::new(Slice::new(subject, feed, until, &self.values, &self.spec)))
    }

    fn begin(&self) -> Result<(), SourceError> {
        self.keep(&self.reach())
    }

    fn live(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        let obstacle = hub.as_ref()?.obstacle()?;
        Some(Obstacle { why: obstacle.why.to_string(), since_us: obstacle.since_us })
    }

    fn guessed(&self) -> Vec<GuessedColumn> {
        self.values.guessed.clone()
    }

    fn reads(&self) -> String {
        self.spec.reads()
    }

    fn total(&self) -> Option<u64> {
        self.reach().total()
    }

    fn begins_at(&self, slice: u32) -> Position {
        Position(self.reach().start_of(slice).cast_unsigned())
    }
}
