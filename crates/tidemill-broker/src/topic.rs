//! Topics: streams of the log, with the broker's state of them.

use crate::{
    group::registry::GroupRegistry,
    partition::{Partition, PartitionContext, forget_stored},
    topic_settings,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tidemill_log::{Log, Stream, StreamId, StreamSpec};
use tidemill_wire::kafka::KafkaUuid;

/// A topic.
pub(crate) struct Topic {
    pub(crate) stream: Arc<Stream>,
    /// By number; as many as were asked for so far, at most.
    partitions: RwLock<Vec<Arc<Partition>>>,
    shared: Arc<PartitionContext>,
    live: Arc<Live>,
    /// The log was told how far groups have read.
    told: AtomicBool,
}

/// The parts of a topic's settings that every request needs, without a lock, and whether the topic
/// was deleted.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Records have the time of their append.
    pub(crate) append_time: AtomicBool,
    /// Records must have keys.
    pub(crate) keyed: AtomicBool,
    pub(crate) max_chunk_bytes: AtomicU64,
    /// Consumer groups whose progress lets records go.
    readers: RwLock<Vec<String>>,
    /// It was deleted.
    pub(crate) gone: AtomicBool,
}

impl Live {
    pub(crate) fn set(&self, spec: &StreamSpec) {
        self.append_time.store(topic_settings::has_append_time(spec), Ordering::Relaxed);
        self.keyed.store(topic_settings::has_keys(spec), Ordering::Relaxed);
        self.max_chunk_bytes.store(spec.max_chunk_bytes.0, Ordering::Relaxed);
        let mut readers = self.readers.write().unwrap_or_else(PoisonError::into_inner);
        *readers = topic_settings::readers(spec);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl Topic {
    fn new(stream: Arc<Stream>, shared: Arc<PartitionContext>) -> Self {
        let live = Arc::new(Live::default());
        live.set(&stream.spec());
        Self { stream, partitions: RwLock::default(), shared, live, told: AtomicBool::new(false) }
    }

    /// Marks the topic as deleted, or not. Readers and writers of a deleted one are told that there
    /// is no such topic.
    pub(crate) fn set_gone(&self, gone: bool) {
        self.live.gone.store(gone, Ordering::Release);
    }

    /// Its stream's settings were changed.
    pub(crate) fn changed(&self) {
        self.live.set(&self.stream.spec());
    }

    /// Tells the log how far all groups have read that retention goes by.
    pub(crate) fn tell_progress(&self, groups: &GroupRegistry) {
        let readers = self.live.readers.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !self.told.swap(!readers.is_empty(), Ordering::Relaxed) && readers.is_empty() {
            return;
        }
        for streamlet in self.stream.streamlets() {
            let place = (self.stream.name().to_owned(), streamlet.index());
            let committed = |group: &String| {
                let offset = groups.offsets(group, |it| {
                    it.get(&place)
                        .filter(|it| it.topic_id == self.stream.id().0)
                        .map(|it| it.offset)
                });
                offset.flatten().unwrap_or(0)
            };
            // Without groups nothing goes by their progress.
            streamlet.set_progress_floor(readers.iter().map(committed).min().unwrap_or(0));
        }
    }

    /// A partition, if the topic has it.
    pub(crate) fn partition(&self, index: i32) -> Option<Arc<Partition>> {
        let index = usize::try_from(index).ok()?;
        let partitions = self.partitions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(partition) = partitions.get(index) {
            return Some(Arc::clone(partition));
        }
        drop(partitions);
        let mut partitions = self.partitions.write().unwrap_or_else(PoisonError::into_inner);
        for next in partitions.len()..=index {
            let streamlet = self.stream.streamlet(u32::try_from(next).ok()?)?;
            let (live, shared) = (Arc::clone(&self.live), Arc::clone(&self.shared));
            partitions.push(Partition::new(streamlet, live, self.stream.id().0, shared));
        }
        partitions.get(index).cloned()
    }

    /// Partitions that were asked for so far.
    pub(crate) fn known_partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn partition_count(&self) -> i32 {
        i32::try_from(self.stream.spec().streamlets).unwrap_or(i32::MAX)
    }

    /// The topic's id in the protocol: the stream's.
    pub(crate) fn id(&self) -> KafkaUuid {
        uuid_of(self.stream.id())
    }
}

/// A stream's id as the protocol has it.
pub(crate) fn uuid_of(id: StreamId) -> KafkaUuid {
    let number = u128::from_be_bytes(id.0);
    KafkaUuid::from_parts((number >> 64) as u64, number as u64)
}

/// The stream id that a topic id stands for.
pub(crate) fn stream_id_of(id: KafkaUuid) -> StreamId {
    StreamId(id.to_bytes())
}

/// All topics that were asked for.
pub(crate) struct Topics {
    shared: Arc<PartitionContext>,
    /// Held while settings are read and written back, or while a topic is looked up and deleted.
    change: Mutex<()>,
    names: RwLock<BTreeMap<String, Arc<Topic>>>,
    ids: RwLock<BTreeMap<StreamId, Arc<Topic>>>,
}

impl Topics {
    pub(crate) fn new(shared: Arc<PartitionContext>) -> Self {
        Self { shared, change: Mutex::default(), names: RwLock::default(), ids: RwLock::default() }
    }

    /// Topics that were asked for so far, by name.
    pub(crate) fn known(&self) -> Vec<Arc<Topic>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.values().cloned().collect()
    }

    /// Locks changes that depend on the state of topics before them.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic of a name, if the log has its stream.
    pub(crate) fn get(&self, log: &Log, name: &str) -> Option<Arc<Topic>> {
        let known = self.names.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.or_else(|| log.get(name).map(|stream| self.add(stream)))
    }

    /// The topic of an id, if the log has its stream.
    pub(crate) fn get_by_id(&self, log: &Log, id: KafkaUuid) -> Option<Arc<Topic>> {
        let id = stream_id_of(id);
        let known = self.ids.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        known.or_else(|| log.get_by_id(id).map(|stream| self.add(stream)))
    }

    fn add(&self, stream: Arc<Stream>) -> Arc<Topic> {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let known = names.get(stream.name()).filter(|it| it.stream.id() == stream.id());
        if let Some(topic) = known {
            return Arc::clone(topic);
        }
        let topic = Arc::new(Topic::new(Arc::clone(&stream), Arc::clone(&self.shared)));
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        ids.insert(stream.id(), Arc::clone(&topic));
        names.insert(stream.name().to_owned(), Arc::clone(&topic));
        topic
    }

    /// Forgets a topic whose stream was deleted, and the stored state of its producers.
    pub(crate) fn forget(&self, topic: &Topic) {
        topic.set_gone(true);
        let (name, id) = (topic.stream.name(), topic.stream.id());
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        // There may be a new one of its name.
        if names.get(name).is_some_and(|it| it.stream.id() == id) {
            names.remove(name);
        }
        drop(names);
        self.ids.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let store = &self.shared.store;
        let noted = forget_stored(store, &id.0).and_then(|batches| {
            batches.into_iter().try_for_each(|it| store.commit_then(it, Box::new(|_outcome| {})))
        });
        if let Err(error) = noted {
            tracing::warn!(topic = name, %error, "what was stored of a deleted topic stays");
        }
    }
}
