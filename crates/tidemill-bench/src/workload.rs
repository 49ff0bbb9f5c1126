//! The workloads and their options; each gives a report.
//!
//! Invariant: a workload measures, and prints nothing.

use crate::{
    checkpoint, measure::Report, neighbours, overhead, recovery, relay, state, window, windows,
    wordcount,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use std::{path::PathBuf, process, sync::Arc};
use tidemill_env::World;
use tidemill_flow::{OperatorFactory, RunOptions};
use tidemill_operators::custom::filter_bytes;
use tidemill_types::{
    ByteSize, Span,
    job::{CompressionSpec, CycleSpec, Delivery},
};

/// A workload.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Source → relay → sink, three stages that are never fused.
    Relay(RelayArgs),
    /// The middle stage of a relay over TCP; started by `relay`.
    #[command(hide = true)]
    RelayMiddle(RelayArgs),
    /// Lines → split → by word → running count → sink.
    Wordcount(WordcountArgs),
    /// Tumbling 1 s windows over a million keys: count, min, max, mean, variance.
    Window(WindowArgs),
    /// Many stages of sliding windows over one input, beside the largest of them alone.
    Windows(windows::WindowsArgs),
    /// A job without input: its share of a core.
    Idle(IdleArgs),
    /// A relay at a fixed rate whose threads change twice a second: the longest silence.
    Rescale(RelayArgs),
    /// A relay at a fixed rate, alone and beside a second job that saturates a core.
    Neighbours(RelayArgs),
    /// Saves to a backend of checkpoints, and opening it after a crash.
    State(state::StateArgs),
    /// A job with much state, without checkpoints and with them.
    Checkpoint(checkpoint::CheckpointArgs),
    /// A job with much state that is stopped, and goes on in each way to recover.
    Recovery(recovery::RecoveryArgs),
}

/// Input bytes of a cycle of the relay: three buffers. That is large enough to spread the cost of
/// waking the reader over many messages, and small enough for the caches.
const RELAY_CYCLE: ByteSize = ByteSize(768 << 10);
/// Input bytes of a cycle that fits the caches on its way.
const SMALL_CYCLE: ByteSize = ByteSize(256 << 10);
/// Input bytes of a cycle that brings each slice rows enough, where state is larger than caches.
const LARGE_CYCLE: ByteSize = ByteSize(1 << 20);

/// The medium between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Exchange {
    /// Between threads of one process.
    Local,
    /// Between two processes, over loopback TCP.
    Tcp,
}

/// When LZ4 is used on links that leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compression {
    Off,
    Always,
    Selective,
}

/// Options that all workloads have.
#[derive(Args, Debug)]
struct Common {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// Longest time of a cycle, such as `1ms`.
    #[arg(long, default_value = "10ms")]
    cycle: Span,
    /// Most input bytes of a cycle [default: of the relay 768KiB, of windows 1MiB, else 256KiB].
    #[arg(long)]
    cycle_bytes: Option<ByteSize>,
    /// Worker threads (of each process).
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Keep a ledger in this folder: exactly-once. Without it the delivery is at-least-once.
    #[arg(long)]
    data: Option<PathBuf>,
}

/// Options of the relay.
#[derive(Args, Debug)]
pub(crate) struct RelayArgs {
    #[command(flatten)]
    common: Common,
    /// Bytes of a message.
    #[arg(long, default_value_t = 100)]
    message_bytes: usize,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds to run before measuring.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Messages a second (default: as many as the relay takes).
    #[arg(long)]
    rate: Option<f64>,
    /// The medium between two stages.
    #[arg(long, value_enum, default_value = "local")]
    exchange: Exchange,
    /// LZ4 between processes.
    #[arg(long, value_enum, default_value = "off")]
    compression: Compression,
    /// Where the other process listens.
    #[arg(long, hide = true)]
    address: Option<String>,
}

/// Options of word count.
#[derive(Args, Debug)]
pub(crate) struct WordcountArgs {
    #[command(flatten)]
    common: Common,
    /// The text: words with one space between them.
    #[arg(long)]
    text: PathBuf,
    /// Times that the text is sent.
    #[arg(long, default_value_t = 8)]
    repeats: u64,
    /// Slices of the counting stage.
    #[arg(long, default_value_t = 64)]
    slices: u32,
}

/// Options of the window workload.
#[derive(Args, Debug)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    common: Common,
    /// Seconds to measure, rounded up to whole windows.
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Seconds to run before measuring.
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Slices of the windowed stage.
    #[arg(long, default_value_t = 64)]
    slices: u32,
    /// Keys are text of this length, 6 to 1,000 bytes, rather than numbers.
    #[arg(long, default_value_t = 0, value_name = "BYTES", value_parser = key_bytes, hide_default_value = true)]
    key_bytes: usize,
}

/// Options of the idle job.
#[derive(Args, Debug)]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    common: Common,
    /// Slices of its stage.
    #[arg(long, default_value_t = 1_000)]
    slices: u32,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// Bytes of a key that is text: enough for the digits of each number.
fn key_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ (0 | 6..=1_000)) => Ok(bytes),
        _ => Err("6 to 1,000 bytes".to_owned()),
    }
}

impl Common {
    /// The bounds of a cycle; `bytes` is the workload's own default.
    fn cycle(&self, bytes: ByteSize) -> CycleSpec {
        let bytes = self.cycle_bytes.unwrap_or(bytes);
        CycleSpec { time: self.cycle, bytes, records: u64::MAX >> 1 }
    }

    fn delivery(&self) -> Delivery {
        if self.data.is_some() { Delivery::ExactlyOnce } else { Delivery::AtLeastOnce }
    }

    fn options(&self) -> RunOptions {
        RunOptions { data: self.data.clone(), ..RunOptions::default() }
    }
}

impl RelayArgs {
    fn relay(&self) -> relay::Relay {
        relay::Relay {
            message_bytes: self.message_bytes,
            seconds: self.seconds,
            warmup: self.warmup,
            rate: self.rate,
            cycle: self.common.cycle(RELAY_CYCLE),
            delivery: self.common.delivery(),
            threads: self.common.threads,
            compression: match self.compression {
                Compression::Off => CompressionSpec::Off,
                Compression::Always => CompressionSpec::Always,
                Compression::Selective => CompressionSpec::Selective { coefficient: 0.5 },
            },
        }
    }
}

/// The user's function: looks at a message and passes it on.
fn user() -> Arc<dyn OperatorFactory> {
    Arc::new(filter_bytes(|message: &[u8]| Ok(!message.is_empty())))
}

impl Workload {
    /// Runs the workload; gives its report as text. The middle process of a relay has none.
    ///
    /// # Errors
    /// The workload could not run; the text says why.
    pub(crate) fn run(&self, world: &World) -> Result<Option<String>, String> {
        let (json, report) = match self {
            Self::Relay(args) => (args.common.json, run_relay(world, args)?),
            Self::RelayMiddle(args) => {
                let address = args.address.as_deref().ok_or("`--address` is missing")?;
                relay::run_middle(world, &args.relay(), user(), address)?;
                return Ok(None);
            }
            Self::Wordcount(args) => (args.common.json, run_wordcount(world, args)?),
            Self::Idle(args) => {
                let Common { json, threads, .. } = args.common;
                (json, overhead::idle(world, args.slices, args.seconds, threads)?)
            }
            Self::Rescale(args) => {
                let rate = Some(args.rate.unwrap_or(20_000.0));
                let relay = relay::Relay { rate, ..args.relay() };
                (args.common.json, overhead::rescale(world, &relay, user())?)
            }
            Self::Neighbours(args) => (args.common.json, run_neighbours(world, args)?),
            Self::Checkpoint(args) => (args.keyed.json, args.run(world)?),
            Self::Windows(args) => (args.json, args.run(world)?),
            Self::Recovery(args) => (args.keyed.json, args.run(world)?),
            Self::State(args) => (args.json, state::run(world, args)?),
            Self::Window(args) => (args.common.json, run_window(world, args)?),
        };
        Ok(Some(text_of(&report, json)))
    }
}

fn run_window(world: &World, args: &WindowArgs) -> Result<Report, String> {
    let setup = window::WindowSetup {
        seconds: args.seconds,
        warmup: args.warmup,
        slices: args.slices,
        key_bytes: args.key_bytes,
        threads: args.common.threads,
        cycle: args.common.cycle(LARGE_CYCLE),
        delivery: args.common.delivery(),
    };
    window::run(world, &setup, &args.common.options())
}

fn run_relay(world: &World, args: &RelayArgs) -> Result<Report, String> {
    if args.exchange == Exchange::Local {
        return relay::run(world, &args.relay(), user(), (&args.common.options(), &[]));
    }
    let free = world.net.listen("127.0.0.1:0").and_then(|it| it.address());
    let address = free.map_err(|error| format!("no free port: {error}"))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // The same options again, so that both processes have the same graph.
    let mut command = process::Command::new(program);
    command.args(["relay-middle", "--address", &address]);
    command.args(["--message-bytes", &args.message_bytes.to_string()]);
    command.args(["--cycle", &args.common.cycle.to_string()]);
    let cycle = args.common.cycle(RELAY_CYCLE);
    command.args(["--cycle-bytes", &cycle.bytes.to_string()]);
    command.args(["--threads", &args.common.threads.to_string()]);
    let word = args.compression.to_possible_value();
    command.args(["--compression", word.as_ref().map_or("off", |it| it.get_name())]);
    let mut child = command.spawn().map_err(|error| format!("second process: {error}"))?;
    let mut options = args.common.options();
    options.processes = relay::processes(0, &address);
    let report = relay::run(world, &args.relay(), user(), (&options, &[child.id()]));
    if report.is_err() {
        // The child would wait for a peer that never comes.
        drop(child.kill());
    }
    child.wait().map_err(|error| error.to_string())?;
    report
}

/// The first job has cycles of 1 ms, the second those of the options and one worker thread.
fn run_neighbours(world: &World, args: &RelayArgs) -> Result<Report, String> {
    let greedy = relay::Relay { rate: None, threads: 1, ..args.relay() };
    let mut quick = relay::Relay { rate: Some(args.rate.unwrap_or(20_000.0)), ..args.relay() };
    quick.cycle.time = Span(1_000);
    neighbours::run(world, &quick, &greedy, &user())
}

fn run_wordcount(world: &World, args: &WordcountArgs) -> Result<Report, String> {
    let path = &args.text;
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let setup = wordcount::WordCount {
        text: Arc::new(wordcount::Text::new(bytes)?),
        repeats: args.repeats,
        slices: args.slices,
        threads: args.common.threads,
        cycle: args.common.cycle(SMALL_CYCLE),
        delivery: args.common.delivery(),
    };
    wordcount::run(world, &setup, &args.common.options())
}

/// A report as one line of JSON, or as a line for each figure.
fn text_of(report: &Report, json: bool) -> String {
    if json {
        return format!("{}\n", Value::Object(report.clone()));
    }
    let line = |(name, value): (&String, &Value)| format!("{name:>32}  {value}\n");
    report.iter().map(line).collect()
}
