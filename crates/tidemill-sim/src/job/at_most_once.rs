//! Jobs that may lose records (`at-most-once`), and must not count one twice.
//!
//! The records of the sources bound the count and sum of each row.

use super::{SimJob, SimStage, StageInput, named};
use crate::{
    journal_sink::CycleRows,
    sim_source::{self, SourceFeed},
};
use arrow_cast::parse::string_to_timestamp_nanos;
use arrow_schema::SchemaRef;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_env::Random;
use tidemill_flow::{OperatorFactory, Partition};
use tidemill_operators::window::windowed;
use tidemill_types::{
    Span,
    job::{Delivery, SlidingWindow, WindowSpec},
};

/// The kind of rows of a sink.
#[derive(Clone, Debug)]
pub(super) enum SinkRows {
    /// Records of a source: all of them, or those that came too late for a window.
    Records { source: usize, all: bool },
    /// Count and sum of the records of a key that are in a window; in microseconds.
    Windows { source: usize, size: i64, every: i64, schema: SchemaRef },
    /// The sum of a key with each of its records.
    Sums { source: usize },
}

/// Count and sum, at most.
type Most = BTreeMap<(i64, i64), (i64, i64)>;

impl SimJob {
    /// A job whose rows can be compared with the records of its sources.
    pub(crate) fn that_may_lose(random: &mut Random) -> Self {
        let (mut job, mut aside) = Self::with_sources(random);
        job.delivery = Delivery::AtMostOnce;
        for source in 0..job.sources.len() {
            job.read.push((source, 0));
            job.told.push(SinkRows::Records { source, all: true });
            if job.sources[source].is_bytes {
                job.add_same(&mut aside, source);
                job.read.push((job.sources.len() + job.stages.len() - 1, 0));
                job.told.push(SinkRows::Records { source, all: true });
                continue;
            }
            for _ in 0..1 + random.below(2) {
                let slices = 1 + random.below(8) as u32;
                if random.below(3) == 0 {
                    let (name, factory, how) = super::sums(job.is_live());
                    job.counts((name, factory, slices), (source, how), SinkRows::Sums { source });
                } else {
                    job.windows(random, source, slices);
                }
            }
        }
        job
    }

    fn windows(&mut self, random: &mut Random, source: usize, slices: u32) {
        let every = 1_000 + random.below(30_000) as i64;
        let size = if random.below(2) == 0 { every } else { every * 3 };
        let window = match size == every {
            true => WindowSpec::Tumbling(Span(size)),
            false => WindowSpec::Sliding(SlidingWindow { size: Span(size), every: Span(every) }),
        };
        let calls = named(&[("n", "count(*)"), ("sum", "sum(value)")]);
        let made = windowed(&sim_source::schema(), &["key".to_owned()], Some(&window), &calls);
        let factory = made.expect("a stage that fits its input");
        let schema = Arc::clone(&factory.outputs()[0]);
        let key = schema.index_of("key").expect("it is the first");
        self.counts(
            ("window", factory, slices),
            (source, Partition::Key(vec![key])),
            SinkRows::Windows { source, size, every, schema },
        );
        // Those that came too late.
        self.read.push((self.sources.len() + self.stages.len() - 1, 1));
        self.told.push(SinkRows::Records { source, all: false });
    }

    fn counts(
        &mut self,
        (name, factory, slices): (&str, Arc<dyn OperatorFactory>, u32),
        (read, how): (usize, Partition),
        told: SinkRows,
    ) {
        let stage = self.sources.len() + self.stages.len();
        let name = format!("{name}{stage}");
        self.stages.push(SimStage {
            name,
            factory,
            slices,
            reads: vec![StageInput { stage: read, port: 0, how }],
        });
        self.read.push((stage, 0));
        self.told.push(told);
    }

    /// The number of records that were lost on the way to its sinks.
    ///
    /// # Errors
    /// A row counts a record that no source has, or one record twice.
    pub(crate) fn lost(&self, outputs: &[CycleRows]) -> Result<u64, String> {
        let (mut kept, mut all) = (0_u64, 0_u64);
        for (nth, (told, rows)) in self.told.iter().zip(outputs).enumerate() {
            let lines = rows.iter().flat_map(|(cycle, text)| {
                text.lines().map(|line| (*cycle, line)).collect::<Vec<_>>()
            });
            let wrong = |(cycle, line): (u64, &str), why: String| {
                Err(format!("sink {nth}, cycle {cycle}: `{line}` {why}"))
            };
            match told {
                SinkRows::Records { source, all: is_all } => {
                    let feed = &self.sources[*source];
                    let mut left: BTreeMap<String, u64> = BTreeMap::new();
                    for line in feed.lines() {
                        *left.entry(line).or_default() += 1;
                        all += u64::from(*is_all);
                    }
                    for (cycle, line) in lines {
                        match left.get_mut(line).filter(|left| **left > 0) {
                            Some(left) => *left -= 1,
                            None => return wrong((cycle, line), "came once too often".to_owned()),
                        }
                        kept += u64::from(*is_all);
                    }
                }
                SinkRows::Windows { source, size, every, schema } => {
                    let most = in_windows(&self.sources[*source], *size, *every);
                    let at = |name| schema.index_of(name).expect("a column of every window");
                    let at = ["key", "window_start", "n", "sum"].map(at);
                    let mut seen = BTreeSet::new();
                    for (cycle, line) in lines {
                        let [key, start, n, sum] = fields(line, at)?;
                        if !seen.insert((key, start)) {
                            return wrong((cycle, line), "is a window that was written".to_owned());
                        }
                        let (n_max, sum_max) = most.get(&(key, start)).copied().unwrap_or_default();
                        if n > n_max || sum > sum_max {
                            let why = format!("has more than {n_max} records with {sum_max}");
                            return wrong((cycle, line), why);
                        }
                    }
                }
                SinkRows::Sums { source } => {
                    let mut most: BTreeMap<i64, i64> = BTreeMap::new();
                    for (key, value, _) in self.sources[*source].records() {
                        *most.entry(key).or_default() += value;
                    }
                    for (cycle, line) in lines {
                        let [key, sum] = fields(line, [0, 1])?;
                        let sum_max = most.get(&key).copied().unwrap_or_default();
                        if sum > sum_max {
                            return wrong((cycle, line), format!("is more than {sum_max}"));
                        }
                    }
                }
            }
        }
        Ok(all - kept)
    }
}

/// Of each key and window, by its start.
fn in_windows(feed: &SourceFeed, size: i64, every: i64) -> Most {
    let mut most = Most::new();
    for (key, value, time) in feed.records() {
        let mut start = time.div_euclid(every) * every;
        while start + size > time {
            let (n, sum) = most.entry((key, start)).or_default();
            (*n, *sum) = (*n + 1, *sum + value);
            start -= every;
        }
    }
    most
}

/// Numbers, or times in microseconds, of a row.
fn fields<const N: usize>(line: &str, at: [usize; N]) -> Result<[i64; N], String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut numbers = [0; N];
    for (number, at) in numbers.iter_mut().zip(at) {
        let word = words.get(at).ok_or_else(|| format!("`{line}` has no column {at}"))?;
        let time = || string_to_timestamp_nanos(word).map(|nanos| nanos / 1_000);
        *number = word.parse().or_else(|_| time()).map_err(|error| format!("`{line}`: {error}"))?;
    }
    Ok(numbers)
}
