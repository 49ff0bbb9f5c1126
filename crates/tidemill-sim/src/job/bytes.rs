//! Byte records in a simulated job: a source of them, columns of text that become some, functions of a
//! record, and blocks that are passed on as they are.
//!
//! They have random numbers of their own, so that the rest of a job is the same without them.

use super::{SimJob, SimStage, SimStream, StageInput, named};
use crate::sim_source::{self, SourceFeed};
use std::sync::Arc;
use tidemill_env::Random;
use tidemill_flow::{OperatorFactory, Partition, partition::hash_bytes, rows_schema};
use tidemill_operators::{
    custom::{self, state::Map},
    transform::transform,
};

/// One job in this many has byte records.
const ONE_IN: u64 = 5;
/// The filter drops one record in this many.
const DROPPED_ONE_IN: u64 = 5;

/// The random numbers for byte records.
pub(super) fn aside(random: &Random) -> Random {
    Random::new(random.clone().next() ^ 0x6279_7465_7300)
}

/// A source of them, in some jobs.
pub(super) fn source(aside: &mut Random) -> Option<SourceFeed> {
    (aside.below(ONE_IN) == 0).then(|| {
        let live = aside.below(3) == 0;
        let mut feed = SourceFeed::of(aside, live);
        feed.is_bytes = true;
        feed
    })
}

/// An operator that passes each record on, alone or with its block.
pub(super) fn same(aside: &mut Random) -> Arc<dyn OperatorFactory> {
    match aside.below(2) {
        0 => Arc::new(custom::filter_bytes(|_| Ok(true))),
        _ => Arc::new(custom::per_record_bytes(|record, output| {
            output.push(record);
            Ok(())
        })),
    }
}

fn how(aside: &mut Random) -> Partition {
    match aside.below(6) {
        0 => Partition::Random,
        1 => Partition::All,
        2 => Partition::Local,
        3 => Partition::One,
        _ => Partition::Key(vec![0]),
    }
}

/// No record, one or two of each.
fn some() -> Arc<dyn OperatorFactory> {
    Arc::new(custom::per_record_bytes(|record, output| {
        for nth in 0..hash_bytes(record) % 3 {
            output.push_with(|bytes| {
                bytes.extend_from_slice(record);
                bytes.push(b'0' + nth as u8);
            });
        }
        Ok(())
    }))
}

/// All but a few, so that some blocks go on whole and others do not.
fn most() -> Arc<dyn OperatorFactory> {
    let keeps = |record: &[u8]| Ok(!hash_bytes(record).is_multiple_of(DROPPED_ONE_IN));
    Arc::new(custom::filter_bytes(keeps))
}

/// Counts each record: the state has bytes as its keys.
fn counted() -> Arc<dyn OperatorFactory> {
    let counts = custom::keyed_record(
        sim_source::schema(),
        Map::<Vec<u8>, i64>::default,
        |counts, record, emit, _| {
            let bytes = record.bytes("value")?.unwrap_or_default();
            let count = counts.get_or_default(bytes.to_vec());
            *count += 1;
            let count = *count;
            emit.row(|row| {
                row.put(i64::from(hash_bytes(bytes) as u32)).put(count);
                row.time(tidemill_types::Micros(count));
            })
        },
    );
    Arc::new(counts)
}

impl SimJob {
    /// Adds stages of byte records to a job that has some, or a column that can become some.
    pub(super) fn add_bytes(&mut self, aside: &mut Random, others: &mut Vec<SimStream>) {
        let of_source = |(stage, feed): (usize, &SourceFeed)| {
            feed.is_bytes.then(|| SimStream { stage, schema: rows_schema(), is_read: false })
        };
        let mut streams: Vec<SimStream> =
            self.feeds().iter().enumerate().filter_map(of_source).collect();
        if aside.below(ONE_IN) == 0 {
            self.add_text(aside, others, &mut streams);
        }
        if streams.is_empty() {
            return;
        }
        for _ in 0..1 + aside.below(3) {
            let read = aside.below(streams.len() as u64) as usize;
            let (name, factory) = match aside.below(4) {
                0 => ("some", some()),
                1 => ("most", most()),
                2 => ("same", same(aside)),
                _ => ("counted", counted()),
            };
            let how = how(aside);
            let mut reads = Vec::new();
            for (at, stream) in streams.iter_mut().enumerate() {
                if at == read || (how != Partition::Local && aside.below(3) == 0) {
                    stream.is_read = true;
                    reads.push(StageInput { stage: stream.stage, port: 0, how: how.clone() });
                }
            }
            let writes = if name == "counted" { &mut *others } else { &mut streams };
            self.add(name, factory, aside, reads, writes);
        }
        others.append(&mut streams);
    }

    /// Returns true if any of its records are bytes.
    pub(crate) fn has_bytes(&self) -> bool {
        let is_text = |it: &SimStage| it.name.starts_with("text");
        self.sources.iter().any(|it| it.is_bytes) || self.stages.iter().any(is_text)
    }

    /// A stream of records becomes texts, and these byte records.
    fn add_text(
        &mut self,
        aside: &mut Random,
        others: &mut [SimStream],
        streams: &mut Vec<SimStream>,
    ) {
        let from = aside.below(others.len() as u64) as usize;
        let select = named(&[("text", "cast(value as varchar)")]);
        let made = transform(&others[from].schema, None, None, Some(&select));
        let factory = made.expect("every stream has a value");
        others[from].is_read = true;
        let reads = |stage, how| vec![StageInput { stage, port: 0, how }];
        let mut texts = Vec::new();
        self.add("text", factory, aside, reads(others[from].stage, Partition::Local), &mut texts);
        let how = how(aside);
        self.add("bytes", some(), aside, reads(texts[0].stage, how), streams);
    }

    /// A stage that passes the byte records of a source on.
    pub(super) fn add_same(&mut self, aside: &mut Random, source: usize) {
        let (factory, how) = (same(aside), how(aside));
        // Each record once.
        let how = if how == Partition::All { Partition::Random } else { how };
        let slices = if how == Partition::Local { 0 } else { 1 + aside.below(8) as u32 };
        let stage = self.feeds().len() + self.stage_count();
        let reads = vec![StageInput { stage: source, port: 0, how }];
        self.stages.push(SimStage { name: format!("same{stage}"), factory, slices, reads });
    }
}
