//! `bench wordcount`: lines → split → by word → running count → sink.
//!
//! The text is held in memory and sent several times. Every word comes out with its count so far.

use super::measure::Meter;
use arrow_schema::SchemaRef;
use hashbrown::HashTable;
use serde_json::{Map, Value, json};
use std::{ops::Range, sync::Arc};
use tidemill_env::World;
use tidemill_flow::{
    Block, Context, CycleInput, DeadLetter, JobGraph, NodeKind, Operator, OperatorError,
    OperatorFactory, Output, Partition, Payload, Position, Read, ReadRequest, RowsPool, RunOptions,
    Sink, SinkError, SliceState, Source, SourceError, SourceFactory, rows_schema,
};
use tidemill_state::{State, Structure};
use tidemill_types::{
    Cycle, Micros, SliceId,
    job::{CycleSpec, Delivery},
};

/// What word count is run with.
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

/// Lines of the text; slice `s` of `n` sends every n-th.
struct Lines {
    text: Arc<Text>,
    repeats: u64,
    slices: u32,
}

struct LinesSlice {
    text: Arc<Text>,
    repeats: u64,
    step: usize,
    first: usize,
    next: usize,
    round: u64,
    pool: Arc<RowsPool>,
}

impl SourceFactory for Lines {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }

    fn slices(&self) -> u32 {
        self.slices
    }

    fn open(&self, slice: u32) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(LinesSlice {
            text: Arc::clone(&self.text),
            repeats: self.repeats,
            step: self.slices as usize,
            first: slice as usize,
            next: slice as usize,
            round: 0,
            pool: RowsPool::new(64),
        }))
    }
}

impl Source for LinesSlice {
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

/// Lines to words.
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

/// Words of one slice, found by their hash; long ones each once in `bytes`.
#[derive(Default)]
struct Counts {
    table: HashTable<Entry>,
    bytes: Vec<u8>,
}

impl State for Counts {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        Vec::new()
    }
}

/// A word and its count.
struct Entry {
    word: Word,
    hash: u64,
    count: u64,
}

/// A word: itself if it is short, as most are, so that telling it apart needs no second look at memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u128);

/// In the last byte of a long word, where short ones have their length.
const IS_LONG: u8 = u8::MAX;

impl Word {
    /// A word of up to 15 bytes.
    #[inline]
    fn short(word: &[u8]) -> Option<Self> {
        let (low, high) = match word.len() {
            length @ 8..16 => {
                let last = u64::from_le_bytes(*word.last_chunk()?);
                (
                    u64::from_le_bytes(*word.first_chunk()?),
                    last.checked_shr(8 * (16 - length) as u32),
                )
            }
            length @ 4..8 => {
                let first = u64::from(u32::from_le_bytes(*word.first_chunk()?));
                let last = u64::from(u32::from_le_bytes(*word.last_chunk()?));
                (first | last << (8 * (length - 4)), None)
            }
            0..4 => (word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)), None),
            _ => return None,
        };
        let (low, high) = (u128::from(low), u128::from(high.unwrap_or(0)));
        Some(Self(low | high << 64 | (word.len() as u128) << 120))
    }

    fn long(start: u32, length: u32) -> Self {
        Self(u128::from(start) | u128::from(length) << 32 | u128::from(IS_LONG) << 120)
    }

    /// Where a long word stands.
    fn place(self) -> Option<Range<usize>> {
        let (start, length) = (self.0 as u32 as usize, (self.0 >> 32) as u32 as usize);
        ((self.0 >> 120) as u8 == IS_LONG).then_some(start..start + length)
    }
}

impl Counts {
    #[inline]
    fn add(&mut self, word: &[u8], hash: u64) -> u64 {
        // All words of a slice share the top bits of the hash, where a table looks first.
        let hash = hash.rotate_left(32);
        let Some(short) = Word::short(word) else { return self.add_long(word, hash) };
        match self.table.find_mut(hash, |entry| entry.word == short) {
            Some(entry) => {
                entry.count += 1;
                entry.count
            }
            None => self.insert(short, hash),
        }
    }

    fn add_long(&mut self, word: &[u8], hash: u64) -> u64 {
        let Self { table, bytes } = self;
        let is_same = |entry: &Entry| {
            entry.hash == hash && entry.word.place().is_some_and(|place| bytes[place] == *word)
        };
        if let Some(entry) = table.find_mut(hash, is_same) {
            entry.count += 1;
            return entry.count;
        }
        let long = Word::long(bytes.len() as u32, word.len() as u32);
        bytes.extend_from_slice(word);
        self.insert(long, hash)
    }

    fn insert(&mut self, word: Word, hash: u64) -> u64 {
        self.table.insert_unique(hash, Entry { word, hash, count: 1 }, |entry| entry.hash);
        1
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
        Box::new(Counts::default())
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
            let counts: &mut Counts = context.state(slice);
            for block in input.port(0) {
                let (Payload::Rows(words), Some(routing)) = (&block.payload, &block.routing) else {
                    continue;
                };
                block.rows_of(slice).for_each(|row| {
                    let word = words.get(row);
                    let count = counts.add(word, routing.hashes[row]);
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
struct Counted {
    meter: Arc<Meter>,
}

impl Sink for Counted {
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
) -> Result<Map<String, Value>, String> {
    let meter = Meter::new(world);
    let mut graph = JobGraph::new("wordcount");
    graph.delivery = setup.delivery;
    graph.cycle = setup.cycle;
    graph.workers = setup.threads;
    // Little is under way at once, so that it stays in the cache.
    graph.buffer.high_watermark.0 = 2 << 20;
    graph.buffer.low_watermark.0 = 1 << 20;
    let lines = Lines {
        text: Arc::clone(&setup.text),
        repeats: setup.repeats,
        slices: setup.threads as u32,
    };
    let source = graph.add("lines", NodeKind::Source { factory: Arc::new(lines), preload: false });
    let split = graph.add("split", NodeKind::Stage { factory: Arc::new(Split), slices: 0 });
    let count =
        graph.add("count", NodeKind::Stage { factory: Arc::new(Count), slices: setup.slices });
    let sink = Box::new(Counted { meter: Arc::clone(&meter) });
    let sink = graph.add("sink", NodeKind::Sink { sink });
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
    use super::Counts;
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeMap;

    proptest! {
        /// Few letters, and a zero byte, so that words are alike but for their lengths and ends.
        #[test]
        fn words_of_all_lengths_are_told_apart(
            words in vec(vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(255)], 0..20), 0..80),
        ) {
            let (mut counts, mut expected) = (Counts::default(), BTreeMap::<&[u8], u64>::new());
            for word in words.iter().chain(&words) {
                let count = expected.entry(word).or_default();
                *count += 1;
                // All in one bucket too: the hash does not tell them apart.
                let hash = word.len() as u64 / 8;
                prop_assert_eq!(counts.add(word, hash), *count);
            }
        }
    }
}
