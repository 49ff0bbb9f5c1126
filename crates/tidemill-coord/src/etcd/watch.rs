//! A watch: a thread reads the stream, connects anew after the last revision, and hands changes on.

use super::{
    gateway::EtcdGateway,
    key_of,
    message::{StreamItem, WatchAnswer, WatchCreate, WatchRequest},
    prefix_end, stored,
};
use crate::{coordinator::Watch, error::CoordinatorError, key::Revision, transaction::Change};
use std::{
    collections::VecDeque,
    io::{BufRead, Read},
    sync::Arc,
    time::Duration,
};
use tidemill_env::lock::{Condvar, Mutex};

/// Rest before a stream that failed is opened anew, in microseconds.
const REST_US: u64 = 200_000;
/// Most batches of changes that wait for a slow caller; the stream is read on when one is taken.
const WAITING_MAX: usize = 1_024;
/// Longest line of the stream, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

type WatchBatch = Result<Vec<Change>, CoordinatorError>;

/// Batches on their way from the thread to the caller.
#[derive(Default)]
struct WatchQueue {
    contents: Mutex<QueueContents>,
    /// Signalled by the thread for a new batch, and by the caller for room or its end.
    changed: Condvar,
}

#[derive(Default)]
struct QueueContents {
    batches: VecDeque<WatchBatch>,
    is_dropped: bool,
}

impl WatchQueue {
    /// Waits for room. False once the caller is gone.
    fn push(&self, batch: WatchBatch) -> bool {
        let mut contents = self.contents.lock();
        while contents.batches.len() >= WAITING_MAX && !contents.is_dropped {
            contents = self.changed.wait(contents);
        }
        contents.batches.push_back(batch);
        self.changed.notify_all();
        !contents.is_dropped
    }

    /// Adds an error that the caller may miss: the changes after it tell it the same.
    fn push_passing(&self, error: CoordinatorError) {
        let mut contents = self.contents.lock();
        if contents.batches.is_empty() {
            contents.batches.push_back(Err(error));
            self.changed.notify_all();
        }
    }

    fn pop(&self, timeout: Duration) -> WatchBatch {
        let mut contents = self.contents.lock();
        if contents.batches.is_empty() {
            contents = self.changed.wait_timeout(contents, timeout).0;
        }
        let batch = contents.batches.pop_front();
        self.changed.notify_all();
        batch.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn is_dropped(&self) -> bool {
        self.contents.lock().is_dropped
    }
}

/// The caller's end of a watch.
pub(super) struct EtcdWatch {
    queue: Arc<WatchQueue>,
    /// A final error, which every later call repeats.
    end: Option<CoordinatorError>,
}

impl EtcdWatch {
    pub(super) fn start(gateway: &Arc<EtcdGateway>, prefix: &str, after: Revision) -> Self {
        let queue = Arc::new(WatchQueue::default());
        let key = stored(prefix);
        let stream = WatchStream {
            gateway: Arc::clone(gateway),
            range_end: prefix_end(&key),
            key,
            after,
            queue: Arc::clone(&queue),
        };
        // The thread ends by itself once this end is dropped, at its next line or timeout.
        let _detached = gateway.world.spawn.spawn("etcd-watch", Box::new(move || stream.run()));
        Self { queue, end: None }
    }
}

impl Watch for EtcdWatch {
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let batch = self.queue.pop(timeout);
        if let Err(error) = &batch
            && !error.is_retriable()
        {
            self.end = Some(error.clone());
        }
        batch
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.queue.contents.lock().is_dropped = true;
        self.queue.changed.notify_all();
    }
}

/// The thread's end of a watch.
struct WatchStream {
    gateway: Arc<EtcdGateway>,
    key: Vec<u8>,
    range_end: Vec<u8>,
    after: Revision,
    queue: Arc<WatchQueue>,
}

impl WatchStream {
    fn run(mut self) {
        while !self.queue.is_dropped() {
            match self.read() {
                Ok(()) => {}
                Err(error) if error.is_retriable() => {
                    tracing::debug!(%error, "a watch of etcd connects anew");
                    self.queue.push_passing(error);
                    self.gateway.world.clock.sleep_micros(REST_US);
                }
                Err(error) => {
                    self.queue.push(Err(error));
                    return;
                }
            }
        }
    }

    /// Reads one stream to its end. A timeout of the silence is an end, too.
    fn read(&mut self) -> Result<(), CoordinatorError> {
        let request = WatchRequest {
            create_request: WatchCreate {
                key: self.key.clone(),
                range_end: self.range_end.clone(),
                start_revision: self.after.next().0.to_string(),
            },
        };
        let mut lines = self.gateway.stream("watch", &request)?;
        let mut line = Vec::new();
        while !self.queue.is_dropped() {
            line.clear();
            let bounded = &mut Read::take(&mut lines, LINE_BYTES_MAX);
            match bounded.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(()),
                Ok(_) => self.take(&line)?,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Ok(()),
                Err(error) => return Err(CoordinatorError::Unavailable(error.to_string())),
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<(), CoordinatorError> {
        let item: StreamItem<WatchAnswer> = serde_json::from_slice(line).map_err(|error| {
            CoordinatorError::Unavailable(format!(
                "a watch that etcd's gateway does not give: {error}"
            ))
        })?;
        if let Some(error) = item.error {
            return Err(CoordinatorError::Unavailable(format!("etcd: {}", error.message)));
        }
        let Some(answer) = item.result else { return Ok(()) };
        self.gateway.observe(&answer.header)?;
        if answer.compact_revision > 0 {
            let oldest = Revision(answer.compact_revision);
            return Err(CoordinatorError::Compacted { after: self.after, oldest });
        }
        if answer.canceled {
            return Err(CoordinatorError::Unavailable(format!("etcd: {}", answer.cancel_reason)));
        }
        let mut changes = Vec::with_capacity(answer.events.len());
        for event in answer.events {
            let revision = Revision(event.kv.mod_revision);
            // After a new connection etcd may repeat changes.
            if revision > self.after {
                let value = (event.kind != "DELETE").then_some(event.kv.value);
                changes.push(Change { revision, key: key_of(&event.kv.key)?, value });
            }
        }
        if let Some(last) = changes.last() {
            self.after = last.revision;
            self.queue.push(Ok(changes));
        }
        Ok(())
    }
}
