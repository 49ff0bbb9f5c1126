//! Several consumers that share one stream by taking its groups in turn, without a node.
//!
//! ```bash
//! cargo run --release --example shared_stream -- data/shared --records 1000000 --consumers 4
//! ```
//!
//! Shows a log in a folder, chunks of records, reads of whole groups, and progress that the program
//! keeps over a restart: what one run has read the next does not read again.

use clap::Parser;
use std::{
    error::Error,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tidemill::log::{
    AppendOptions, CHUNK_HEAD_BYTES, ChunkHead, GroupCursor, GroupProgress, Log, LogOptions,
    ReadLimit, StreamSpec, Streamlet, World,
    records::{ChunkBuilder, Compression, Header, Records, inflate},
};

/// Fills a stream, and reads it with several consumers.
#[derive(Parser)]
pub(crate) struct Options {
    /// The folder of the log.
    #[arg(default_value = "data/shared")]
    pub(crate) folder: PathBuf,
    /// Records that are added.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Consumers that read at once.
    #[arg(long, default_value_t = 4)]
    pub(crate) consumers: usize,
}

/// Records of a chunk at most, and the most bytes that one may inflate to.
const CHUNK_RECORDS: u64 = 1_000;
const CHUNK_BYTES_MAX: usize = 16 << 20;
const APPLICATION: &str = "sums";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a run has read: records, and the sum of the numbers in them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) records: AtomicU64,
    pub(crate) sum: AtomicU64,
}

/// Adds records with the numbers from `first` on, in chunks of two lanes, so that two groups fill.
fn fill(streamlet: &Arc<Streamlet>, first: u64, count: u64) -> Outcome<()> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    let none: [Header<'_>; 0] = [];
    for (lane, start) in (first..first + count).step_by(CHUNK_RECORDS as usize).enumerate() {
        for number in start..(start + CHUNK_RECORDS).min(first + count) {
            builder.append(0, None, Some(&number.to_le_bytes()), none.into_iter())?;
        }
        let chunk = builder.finish().ok_or("a chunk has records")?;
        streamlet.append(&chunk, AppendOptions { order_key: lane as u64 })?.wait()?;
    }
    Ok(())
}

/// Reads a group as far as it goes, and acknowledges what was read. Gives back whether that is more
/// than before.
fn read_group(group: &mut GroupCursor, seen: &Seen) -> Outcome<bool> {
    let (mut scratch, mut count) = (Vec::new(), 0);
    loop {
        let found = group.read(ReadLimit::default())?;
        let is_empty = found.chunks.is_empty();
        for chunk in &found.chunks {
            let head = ChunkHead::read(chunk)?;
            let body = &chunk[CHUNK_HEAD_BYTES..head.bytes];
            let plain = inflate(&head, body, CHUNK_BYTES_MAX, &mut scratch)?;
            for record in Records::new(&head, plain) {
                let number = record?.value.and_then(|it| it.try_into().ok());
                let number = number.map(u64::from_le_bytes).ok_or("a record is a number")?;
                count += 1;
                seen.sum.fetch_add(number, Ordering::Relaxed);
            }
        }
        group.acknowledge();
        if found.ended || is_empty {
            seen.records.fetch_add(count, Ordering::Relaxed);
            return Ok(count > 0 || found.ended);
        }
    }
}

/// One consumer: takes groups until they bring no more. Those that are appended to can be taken again
/// and again, as more may come.
fn consume(streamlet: &Arc<Streamlet>, seen: &Seen) -> Outcome<()> {
    loop {
        let mut groups = streamlet.next_groups(APPLICATION, 2)?;
        let went_on = groups.iter_mut().map(|group| read_group(group, seen));
        if !went_on.collect::<Outcome<Vec<bool>>>()?.contains(&true) {
            return Ok(());
        }
    }
}

/// Opens the log, adds records, and has them read; the progress is kept in a file beside the log.
pub(crate) fn run(options: &Options) -> Outcome<Seen> {
    let log = Log::open(&World::real(), &options.folder, LogOptions::default())?;
    let stream = match log.get("numbers") {
        Some(stream) => stream,
        None => log.create("numbers", StreamSpec { active_groups: 2, ..StreamSpec::default() })?,
    };
    let streamlet = stream.streamlet(0).ok_or("a stream has a streamlet")?;
    let kept = options.folder.join("progress.json");
    if let Ok(text) = std::fs::read(&kept) {
        let (done_below, done, partly) = serde_json::from_slice(&text)?;
        streamlet.restore_groups(APPLICATION, GroupProgress { done_below, done, partly })?;
    }
    let first = streamlet.end_offset().try_into()?;
    fill(&streamlet, first, options.records)?;
    let seen = Seen::default();
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..options.consumers.max(1))
            .map(|_| scope.spawn(|| consume(&streamlet, &seen)))
            .collect();
        consumers.into_iter().try_for_each(|it| it.join().map_err(|_| "a consumer panicked")?)
    })?;
    if let Some(it) = streamlet.group_progress(APPLICATION) {
        std::fs::write(&kept, serde_json::to_vec(&(it.done_below, it.done, it.partly))?)?;
    }
    log.close();
    Ok(seen)
}

fn main() -> Outcome<()> {
    let seen = run(&Options::parse())?;
    let (records, sum) = (seen.records.into_inner(), seen.sum.into_inner());
    println!("{records} records, the sum of their numbers is {sum}");
    Ok(())
}
