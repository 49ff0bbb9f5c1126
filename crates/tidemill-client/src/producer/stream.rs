//! A stream that is written to: its streamlets' queues, and which one a record without a key goes to.
//!
//! Records without a key go to one streamlet until its chunk is closed, then to the next that has a
//! leader: so chunks are full, and all streamlets get as many (KIP-480).

use super::{partitioner::streamlet_of, queue::ChunkQueue};
use std::sync::Arc;
use tidemill_env::{
    lock::{Mutex, MutexGuard, RwLock},
    sync::atomic::{AtomicUsize, Ordering},
};
use tidemill_wire::kafka::{self, KafkaString};

/// See the module.
pub(super) struct ProducerStream {
    pub(super) name: Arc<str>,
    pub(super) kafka_name: KafkaString,
    streamlets: RwLock<Vec<Arc<ProducerStreamlet>>>,
    /// The streamlet for records without a key.
    current: AtomicUsize,
}

/// A streamlet of a stream.
pub(super) struct ProducerStreamlet {
    pub(super) stream: Arc<str>,
    pub(super) kafka_name: KafkaString,
    pub(super) index: i32,
    /// Its place among all of the producer's.
    pub(super) place: usize,
    queue: Mutex<ChunkQueue>,
}

impl ProducerStreamlet {
    pub(super) fn new(
        stream: &ProducerStream,
        index: i32,
        place: usize,
        queue: ChunkQueue,
    ) -> Self {
        Self {
            stream: Arc::clone(&stream.name),
            kafka_name: stream.kafka_name.clone(),
            index,
            place,
            queue: Mutex::new(queue),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ChunkQueue> {
        self.queue.lock()
    }
}

impl ProducerStream {
    /// A stream without streamlets; `start` is any number.
    pub(super) fn new(name: &str, start: u64) -> Self {
        Self {
            name: name.into(),
            kafka_name: kafka::text(name),
            streamlets: RwLock::default(),
            current: AtomicUsize::new(start as usize % (1 << 30)),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.streamlets.read().len()
    }

    pub(super) fn push(&self, streamlet: Arc<ProducerStreamlet>) {
        self.streamlets.write().push(streamlet);
    }

    pub(super) fn get(&self, index: usize) -> Option<Arc<ProducerStreamlet>> {
        self.streamlets.read().get(index).cloned()
    }

    /// Does something with the streamlet of a key.
    pub(super) fn of_key(&self, key: &[u8]) -> Option<Arc<ProducerStreamlet>> {
        let streamlets = self.streamlets.read();
        let index = (!streamlets.is_empty()).then(|| streamlet_of(key, streamlets.len()))?;
        streamlets.get(index).cloned()
    }

    /// The streamlet that records without a key go to now.
    pub(super) fn current(&self) -> Option<Arc<ProducerStreamlet>> {
        let streamlets = self.streamlets.read();
        let current = self.current.load(Ordering::Relaxed);
        streamlets.get(current.checked_rem(streamlets.len())?).cloned()
    }

    /// Goes on to the next streamlet that is `good`, if one is; else to the next one.
    pub(super) fn advance(&self, good: impl Fn(i32) -> bool) -> Option<Arc<ProducerStreamlet>> {
        let streamlets = self.streamlets.read();
        let count = streamlets.len();
        let next = self.current.load(Ordering::Relaxed).wrapping_add(1);
        let candidates = (0..count).map(|step| next.wrapping_add(step));
        let found = candidates.clone().find(|it| good(streamlets[it % count].index));
        let chosen = found.or(candidates.into_iter().next())?;
        self.current.store(chosen, Ordering::Relaxed);
        streamlets.get(chosen % count).cloned()
    }
}
