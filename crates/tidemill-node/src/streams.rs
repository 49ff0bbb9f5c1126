//! Streams as jobs read and write them: a log, and beside it the broker with the facts that are not in
//! the chunks.
//!
//! ```text
//! node that serves ─▶ log + broker ─┐
//! tidemill run ─▶ folder of a node ─┴─▶ Streams ─▶ plan ─▶ sources: chunks from the log,
//!                                                          transactions from the broker
//! ```
//!
//! A folder in which no broker ever was has no transactions, and its log is all there is.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_broker::{Broker, BrokerError, BrokerSettings, Committed, STORE_FILE};
use tidemill_connectors::{AbortedTransaction, StreamGroup, StreamNode, Transactions};
use tidemill_env::World;
use tidemill_log::{Log, LogError, LogOptions, OnData, Stream, Streamlet};
use tidemill_types::{Offset, StreamletIx};

#[cfg(test)]
mod tests;

/// The streams of a node.
#[derive(Clone)]
pub struct Streams {
    log: Arc<Log>,
    broker: Option<Arc<Broker>>,
}

/// Why streams cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StreamsError {
    /// The log.
    #[error("the log cannot be opened: {0}")]
    Log(#[from] LogError),
    /// The broker's files beside it.
    #[error("what is known of transactions and groups cannot be opened: {0}")]
    Broker(#[from] BrokerError),
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("broker", &self.broker).finish_non_exhaustive()
    }
}

impl Streams {
    /// Those of a node that serves.
    #[must_use]
    pub fn of(log: &Arc<Log>, broker: &Arc<Broker>) -> Self {
        Self { log: Arc::clone(log), broker: Some(Arc::clone(broker)) }
    }

    /// Those in the folder of a node that does not run; made, if there are none. The facts about
    /// transactions and groups is opened if there is any, and made if there are to be `groups`.
    /// Blocks.
    ///
    /// # Errors
    /// They are damaged, in use, or cannot be read.
    pub fn open(world: &World, folder: &Path, groups: bool) -> Result<Self, StreamsError> {
        let log = Arc::new(Log::open(world, &folder.join("log"), LogOptions::default())?);
        let mut streams = Self { log, broker: None };
        if groups || world.disk.exists(&folder.join(STORE_FILE)).unwrap_or(true) {
            let log = Arc::clone(&streams.log);
            match Broker::open(world, log, folder, BrokerSettings::default()) {
                Ok(broker) => streams.broker = Some(broker),
                Err(error) => {
                    streams.close();
                    return Err(error.into());
                }
            }
        }
        Ok(streams)
    }

    /// Closes the streams of [`Self::open`]. Blocks.
    pub fn close(&self) {
        self.broker.iter().for_each(|it| it.close());
        self.log.close();
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The broker's facts for sources; none if there are none.
    pub(crate) fn node(&self) -> Option<Arc<dyn StreamNode>> {
        let broker = Arc::clone(self.broker.as_ref()?);
        Some(Arc::new(BrokerFacts { broker }))
    }
}

/// The facts of a broker.
struct BrokerFacts {
    broker: Arc<Broker>,
}

impl StreamNode for BrokerFacts {
    fn transactions(&self, streamlet: &Arc<Streamlet>) -> Option<Arc<dyn Transactions>> {
        let committed =
            self.broker.committed(streamlet.stream_name(), StreamletIx(streamlet.index()))?;
        // A stream that is made anew has its name, and other streamlets.
        Arc::ptr_eq(committed.streamlet(), streamlet)
            .then(|| Arc::new(View(committed)) as Arc<dyn Transactions>)
    }

    fn group(&self, group: &str, stream: &Arc<Stream>) -> Arc<dyn StreamGroup> {
        Arc::new(CommittedGroup {
            broker: Arc::clone(&self.broker),
            group: group.to_owned(),
            stream: Arc::clone(stream),
            refused: AtomicBool::new(false),
        })
    }
}

/// A consumer group that follows a job.
struct CommittedGroup {
    broker: Arc<Broker>,
    group: String,
    stream: Arc<Stream>,
    /// The last commit was refused, which the log said once.
    refused: AtomicBool,
}

impl StreamGroup for CommittedGroup {
    fn offsets(&self) -> Result<BTreeMap<StreamletIx, Offset>, String> {
        let offsets = self.broker.group_offsets(&self.group, &self.stream);
        offsets.map_err(|error| format!("the group `{}`: {error}", self.group))
    }

    fn commit(&self, offsets: &BTreeMap<StreamletIx, Offset>) {
        let outcome = self.broker.commit_group_offsets(&self.group, &self.stream, offsets);
        let was_refused = self.refused.swap(outcome.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (outcome, was_refused) {
            let (group, stream) = (&self.group, self.stream.name());
            tracing::warn!(group, stream, "a job's progress is not committed: {error}");
        }
    }
}

struct View(Committed);

impl Transactions for View {
    fn end_offset(&self) -> Result<i64, String> {
        let unknown = "what is known of its transactions cannot be read; see the node's log";
        self.0.end_offset().ok_or_else(|| unknown.to_owned())
    }

    fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        let aborted = self.0.aborted(from, to).into_iter();
        aborted.map(|(producer, first)| AbortedTransaction { producer, first }).collect()
    }

    fn on_readable(&self, offset: i64, notice: OnData) -> Box<dyn Send> {
        Box::new(self.0.on_readable(offset, notice))
    }
}
