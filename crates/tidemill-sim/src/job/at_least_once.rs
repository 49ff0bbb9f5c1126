//! Jobs that may repeat records (`at-least-once`): they keep no ledger, and each life begins at the
//! committed positions of its sources. No record is lost.

use super::{SimJob, SimStage, StageInput, named};
use crate::{journal_sink::CycleRows, sim_source};
use std::collections::BTreeMap;
use tidemill_env::Random;
use tidemill_flow::Partition;
use tidemill_operators::transform::transform;
use tidemill_types::job::Delivery;

impl SimJob {
    /// A job in which each record makes one row in two sinks or more.
    pub(crate) fn that_may_repeat(random: &mut Random) -> Self {
        let (mut job, mut aside) = Self::with_sources(random);
        job.delivery = Delivery::AtLeastOnce;
        // What a source is told of must outlast the machine.
        job.syncs = true;
        job.followed =
            job.sources.iter().map(|_| sim_source::CommittedOffsets::default()).collect();
        let count = job.sources.len();
        for source in 0..count {
            job.read.push((source, 0));
            if job.sources[source].is_bytes {
                job.add_same(&mut aside, source);
                job.read.push((count + source, 0));
                continue;
            }
            let select = named(&[("key", "key"), ("value", "value")]);
            let made = transform(&sim_source::schema(), None, None, Some(&select));
            let factory = made.expect("a stage that fits its input");
            let (how, slices) = match random.below(3) {
                0 => (Partition::Local, 0),
                1 => (Partition::Random, 1 + random.below(8) as u32),
                _ => (Partition::Key(vec![0]), 1 + random.below(8) as u32),
            };
            let name = format!("same{}", count + source);
            job.stages.push(SimStage {
                name,
                factory,
                slices,
                reads: vec![StageInput { stage: source, port: 0, how }],
            });
            job.read.push((count + source, 0));
        }
        job
    }

    /// The number of repeated rows; outputs are those of all lives.
    ///
    /// # Errors
    /// A record has made none, in some sink, or no dead letter.
    pub(crate) fn repeated(&self, outputs: &[CycleRows]) -> Result<u64, String> {
        let mut repeated = 0;
        for (source, feed) in self.sources.iter().enumerate() {
            let lines = counts(feed.lines());
            for sink in [2 * source, 2 * source + 1] {
                repeated += beside(sink, &lines, &counts(lines_of(&outputs[sink])))?;
            }
        }
        let refused = self.sources.iter().enumerate().flat_map(|(source, feed)| {
            let letter = move |(slice, number)| format!("source{source} {slice}:{number}");
            feed.refused().map(letter).collect::<Vec<_>>()
        });
        let letters = 2 * self.sources.len();
        let is = lines_of(&outputs[letters]).filter_map(|line| letter(&line));
        Ok(repeated + beside(letters, &counts(refused), &counts(is))?)
    }
}

fn counts(lines: impl IntoIterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    lines.into_iter().for_each(|line| *counts.entry(line).or_default() += 1);
    counts
}

fn lines_of(rows: &CycleRows) -> impl Iterator<Item = String> + '_ {
    rows.iter().flat_map(|(_, text)| text.lines().map(str::to_owned))
}

/// The number of lines beyond the required ones.
fn beside(
    sink: usize,
    should: &BTreeMap<String, u64>,
    is: &BTreeMap<String, u64>,
) -> Result<u64, String> {
    let has = |line: &String| is.get(line).copied().unwrap_or_default();
    match should.iter().find(|(line, count)| has(line) < **count) {
        Some((line, count)) => {
            Err(format!("sink {sink} has `{line}` {} times, of {count}: it is lost", has(line)))
        }
        None => Ok(is.values().sum::<u64>() - should.values().sum::<u64>()),
    }
}

/// Source and position of the record that a dead letter is of.
fn letter(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (stage, _cycle, position) = (words.next()?, words.next()?, words.next()?);
    Some(format!("{stage} {position}"))
}
