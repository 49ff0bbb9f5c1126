//! `tidemill-bench wordcount`: lines → split → by word → running count → sink.
//!
//! The text is held in memory and sent several times. Every word comes out with its count so far.

use super::measure::{Meter, Report};
use arrow_schema::SchemaRef;
use serde_json::{Value, json};
use std::sync::Arc;
use tidemill_env::World;
use tidemill_flow::{
    Block, Context, CycleInput, DeadLetter, JobGraph, Operator, OperatorError, OperatorFactory,
    Output, Partition, Payload, Position, Read, ReadRequest, Rows, RowsPool, RunOptions, Selection,
    Sink, SinkError, SliceState, Source, SourceError, SourceFactory, StageKind, rows_schema,
};
use tidemill_state::{KeyTable, SLOTS_AHEAD, State, Structure, prefetch};
use tidemill_types::{
    Cycle, Micros, SliceId,
    job::{CycleSpec, Delivery},
};

/// The setup of word count.
#[derive(Clone, Debug)]
pub(crate) struct WordCount {
    pub(crate) text: Arc<Text>,
    pub(crate) repeats: u64,
    pub(crate) slices: u32,
    pub(crate) threads: usize,
    pub(crate) cycle: CycleSpec,
    pub(crate) delivery: Delivery,
}

/// A text in memory: words with one space between them, lines with one line feed.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    /// Where each line starts, and where the text ends.
    lines: Vec<u32>,
    words: u64,
}

impl Text {
    /// Takes a text; it must be smaller than 2 GiB.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        if i32::try_from(bytes.len()).is_err() {
            return Err("the text must be smaller than 2 GiB".to_owned());
        }
        let mut lines = vec![0];
        lines.extend(memchr::memchr_iter(b'\n', &bytes).map(|at| at as u32 + 1));
        if lines.last() != Some(&(bytes.len() as u32)) {
            lines.push(bytes.len() as u32);
        }
        let words = bytes.split(|byte| byte.is_ascii_whitespace()).filter(|it| !it.is_empty());
        let words = words.count() as u64;
        Ok(Self { bytes, lines, words })
    }

    fn line(&self, index: usize) -> &[u8] {
        let line = &self.bytes[self.lines[index] as usize..self.lines[index + 1] as usize];
        line.strip_suffix(b"\n").unwrap_or(line)
    }
}

/// LineSource of the text; slice `s` of `n` sends every n-th.
struct LineSource {
    text: Arc<Text>,
    repeats: u64,
    slices: u32,
}

struct LineSourceSlice {
    text: Arc<Text>,
    repeats: u64,
    step: usize,
    first: usize,
    next: usize,
    round: u64,
    pool: Arc<RowsPool>,
}

impl SourceFactory for LineSource {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }

    fn slices(&self) -> u32 {
        self.slices
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(LineSourceSlice {
            text: Arc::clone(&self.text),
            repeats: self.repeats,
            step: self.slices as usize,
            first: slice.index(),
            next: slice.index(),
            round: 0,
            pool: RowsPool::new(64),
        }))
    }
}

impl Source for LineSourceSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let mut rows = self.pool.take();
        while rows.bytes() < request.bytes && rows.len() < request.records {
            if self.next + 1 >= self.text.lines.len() {
                (self.next, self.round) = (self.first, self.round + 1);
            }
            if self.round >= self.repeats {
                break;
            }
            rows.push(self.text.line(self.next));
            self.next += self.step;
        }
        if rows.is_empty() {
            return Ok(Read::End);
        }
        let bytes = rows.bytes();
        Ok(Read::Rows { payload: Payload::Rows(rows), bytes })
    }

    fn position(&self) -> Position {
        Position(self.round * self.text.lines.len() as u64 + self.next as u64)
    }

    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

/// LineSource to words.
struct Split;

impl OperatorFactory for Split {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for Split {
    fn cycle(
        &mut self,
        _: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        for block in input.port(0) {
            let Payload::Rows(lines) = &block.payload else { continue };
            for line in lines.iter() {
                let mut start = 0;
                for space in memchr::memchr_iter(b' ', line) {
                    output.push(&line[start..space]);
                    start = space + 1;
                }
                output.push(&line[start..]);
            }
        }
        Ok(())
    }
}

/// Words to words with their running count: 8 bytes of count, little endian, then the word.
pub(crate) struct Count;

/// Words of one slice, and how often each came so far.
#[derive(Default)]
struct WordCounts {
    words: KeyTable,
    counts: Vec<u64>,
}

impl State for WordCounts {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        Vec::new()
    }
}

/// Words that are looked up before they are counted: their counts are asked for meanwhile.
const TAKEN_AT_ONCE: usize = 256;

impl WordCounts {
    /// WordCounts the words of these rows, and tells each with its count.
    fn add(
        &mut self,
        words: &Rows,
        (hashes, rows): (&[u64], &[u32]),
        mut counted: impl FnMut(&[u8], u64),
    ) {
        let (first, later) = rows.split_at(rows.len().min(SLOTS_AHEAD));
        first.iter().for_each(|row| self.words.prefetch(hashes[*row as usize]));
        let mut later = later.iter();
        let mut numbers = [0; TAKEN_AT_ONCE];
        for some in rows.chunks(TAKEN_AT_ONCE) {
            for (row, number) in some.iter().zip(&mut numbers) {
                if let Some(later) = later.next() {
                    self.words.prefetch(hashes[*later as usize]);
                }
                let row = *row as usize;
                *number = self.words.find_or_add(words.get(row), hashes[row]) as usize;
                prefetch(&self.counts, *number);
            }
            self.counts.resize(self.words.len(), 0);
            for (row, number) in some.iter().zip(&numbers) {
                let count = &mut self.counts[*number];
                *count += 1;
                counted(words.get(*row as usize), *count);
            }
        }
    }
}

impl OperatorFactory for Count {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(WordCounts::default())
    }

    fn cannot_save(&self) -> Option<String> {
        Some("the words of the benchmark are not saved".to_owned())
    }
}

impl Operator for Count {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        for slice in context.slices.clone().map(SliceId) {
            let counts: &mut WordCounts = context.state(slice);
            for block in input.port(0) {
                let (Payload::Rows(words), Some(routing)) = (&block.payload, &block.routing) else {
                    continue;
                };
                let Selection::Rows(rows) = block.rows_of(slice) else { continue };
                counts.add(words, (&routing.hashes, rows), |word, count| {
                    output.push_with(|bytes| {
                        bytes.extend_from_slice(&count.to_le_bytes());
                        bytes.extend_from_slice(word);
                    });
                });
            }
        }
        Ok(())
    }
}

/// Looks at every count.
struct CountSink {
    meter: Arc<Meter>,
}

impl Sink for CountSink {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let (mut words, mut distinct) = (0, 0);
        for block in blocks {
            let Payload::Rows(rows) = &block.payload else { continue };
            for record in rows.iter() {
                words += 1;
                let count = record.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
                distinct += u64::from(count == 1);
            }
        }
        self.meter.add_results(distinct);
        self.meter.add(words);
        Ok(())
    }

    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Runs word count and reports.
pub(crate) fn run(
    world: &World,
    setup: &WordCount,
    options: &RunOptions,
) -> Result<Report, String> {
    let meter = Meter::new(world);
    let mut graph = JobGraph::new("wordcount");
    graph.delivery = setup.delivery;
    graph.cycle = setup.cycle;
    graph.workers = setup.threads;
    // Little is under way at once, so that it stays in the cache.
    graph.buffer.high_watermark.0 = 2 << 20;
    graph.buffer.low_watermark.0 = 1 << 20;
    let lines = LineSource {
        text: Arc::clone(&setup.text),
        repeats: setup.repeats,
        slices: setup.threads as u32,
    };
    let source = graph.add("lines", StageKind::Source { factory: Arc::new(lines), preload: false });
    let split = graph.add("split", StageKind::Operator { factory: Arc::new(Split), slices: 0 });
    let count =
        graph.add("count", StageKind::Operator { factory: Arc::new(Count), slices: setup.slices });
    let sink = Box::new(CountSink { meter: Arc::clone(&meter) });
    let sink = graph.add("sink", StageKind::Sink { sink });
    graph.link(source, split, Partition::Local);
    graph.link(split, count, Partition::Key(vec![0]));
    graph.link(count, sink, Partition::One);
    let handle = tidemill_flow::engine::start(graph, world, options);
    let handle = handle.map_err(|error| error.to_string())?;
    meter.wait(|| meter.items() > 0, || handle.is_over());
    let from = meter.moment(&[]);
    let total = setup.text.words * setup.repeats;
    meter.wait(|| meter.items() >= total / 5, || handle.is_over());
    let (steady_items, steady_us) = (meter.items(), meter.now_us());
    meter.wait(|| meter.items() >= total, || handle.is_over());
    let to = meter.moment(&[]);
    let steady_s = (meter.now_us() - steady_us).max(1) as f64 / 1e6;
    let steady = (meter.items() - steady_items) as f64 / steady_s;
    handle.wait().map_err(|error| error.to_string())?;
    let Value::Object(more) = json!({
        "repeats": setup.repeats,
        "slices": setup.slices,
        "threads": setup.threads,
        "delivery": setup.delivery,
        "steady_per_s": steady.round() as u64,
        "distinct": meter.results(),
        "missing": total.saturating_sub(meter.items()),
    }) else {
        unreachable!("an object was written");
    };
    Ok(meter.report("wordcount", (from, to), &[], more))
}

#[cfg(test)]
mod tests {
    use super::{SLOTS_AHEAD, TAKEN_AT_ONCE, WordCounts};
    use std::collections::BTreeMap;
    use tidemill_flow::{RowsPool, partition::hash_bytes};

    #[test]
    fn each_word_comes_with_its_count_so_far() {
        let mut words = RowsPool::new(1).take();
        let count = 2 * TAKEN_AT_ONCE + SLOTS_AHEAD + 1;
        (0..count).for_each(|it| words.push(format!("word {}", it * it % 97).as_bytes()));
        let hashes: Vec<u64> = words.iter().map(hash_bytes).collect();
        let rows: Vec<u32> = (0..count as u32).rev().collect();
        let (mut counts, mut expected) = (WordCounts::default(), BTreeMap::new());
        for _ in 0..2 {
            let mut told = Vec::new();
            counts.add(&words, (&hashes, &rows), |word, count| told.push((word.to_vec(), count)));
            for (row, (word, count)) in rows.iter().zip(&told) {
                assert_eq!(word, words.get(*row as usize));
                let so_far = expected.entry(word.clone()).or_insert(0);
                *so_far += 1;
                assert_eq!(count, so_far);
            }
            assert_eq!(told.len(), rows.len());
        }
    }
}
