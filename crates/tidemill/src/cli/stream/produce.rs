//! `tidemill stream produce`: lines of standard input become records.

use super::{
    DONE, ErrorForm, FAILED, NodeArguments, REFUSED, STOPPED, admin_failed, failed,
    lines::{InputEnd, Lines, split},
    rates::{Rates, RecordCounts},
    settings::pair,
    stop_flag, wrong,
};
use std::{borrow::Cow, io, time::Duration};
use tidemill_client::producer::{
    Acks, Codec, Compression, FlushError, Header, NewRecord, ProduceError, Producer,
    ProducerOptions, StreamWriter,
};
use tidemill_connectors::ForeignEncoding;
use tidemill_env::World;
use tidemill_node::record_key::checked_key;
use tidemill_types::{ByteSize, Span, limits::RECORD_BYTES_MAX};

/// Longest time to send the last records.
const FLUSH_PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ProduceArguments {
    /// The stream's name.
    name: String,
    /// The content of a line: anything, or a JSON object as jobs read it.
    #[arg(long, value_enum, default_value_t = LineForm::Lines)]
    format: LineForm,
    /// The field of a JSON line that is the record's key, such as `user.id`.
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// A header for each record; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
    /// The streamlet that all records go to.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    streamlet: Option<i32>,
    /// Compression of records on their way and in the log.
    #[arg(long, value_enum, default_value_t = CodecName::None)]
    compression: CodecName,
    /// When a record counts: at once, when the leader has it, or when it is durable.
    #[arg(long, value_enum, default_value_t = AcksName::All)]
    acks: AcksName,
    /// Longest time that records are gathered before they are sent.
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    linger: Span,
    /// Most bytes that are gathered.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    batch_bytes: ByteSize,
    /// Says nothing but errors.
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LineForm {
    /// Each line is a value, whatever it is.
    Lines,
    /// Each line is a JSON object, and is checked to be one; empty lines are left out.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CodecName {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AcksName {
    /// At once.
    #[value(name = "0")]
    None,
    /// When the leader has it.
    #[value(name = "1")]
    Leader,
    /// When it is durable.
    #[value(name = "all", alias = "-1")]
    All,
}

/// Why a record was not sent.
enum LineError {
    /// A line is not of the announced form.
    Line(u64, String),
    /// Standard input is no UTF-8, whatever its lines are.
    Encoding(ForeignEncoding),
    Produce(ProduceError),
    Input(io::Error),
}

/// The end of reading.
enum ProduceEnd {
    Done,
    Stopped,
    Failed(LineError),
}

impl ProduceArguments {
    fn options(&self) -> ProducerOptions {
        let codec = match self.compression {
            CodecName::None => Codec::None,
            CodecName::Gzip => Codec::Gzip,
            CodecName::Snappy => Codec::Snappy,
            CodecName::Lz4 => Codec::Lz4,
            CodecName::Zstd => Codec::Zstd,
        };
        let acks = match self.acks {
            AcksName::None => Acks::None,
            AcksName::Leader => Acks::Leader,
            AcksName::All => Acks::All,
        };
        ProducerOptions {
            acks,
            compression: Compression::of(codec),
            linger: self.linger.duration(),
            batch_bytes: usize::try_from(self.batch_bytes.0).unwrap_or(usize::MAX),
            ..ProducerOptions::default()
        }
    }
}

pub(super) fn produce(arguments: &ProduceArguments) -> u8 {
    let (world, told) = (World::real(), arguments.node.told_beside());
    if arguments.key.is_some() && arguments.format != LineForm::Json {
        return wrong(told, "--key names a field of JSON: say --format json", None, REFUSED);
    }
    let stop = match stop_flag(told) {
        Ok(stop) => stop,
        Err(code) => return code,
    };
    let producer = arguments.node.client(&world).producer(arguments.options());
    let stream = match producer.stream(&arguments.name) {
        Ok(stream) => stream,
        Err(error) => return produce_failed(told, &error),
    };
    let now_us = || world.clock.monotonic_micros();
    let mut rates = Rates::new(now_us(), arguments.node.json, arguments.quiet, true);
    let lines = Lines::read(&world, io::stdin(), RECORD_BYTES_MAX);
    let mut sent = Sent { arguments, stream: &stream, lines: 0, records: 0, bytes: 0 };
    let mut end = loop {
        if stop.is_set() {
            break ProduceEnd::Stopped;
        }
        let outcome = match lines.next(LOOK) {
            None => Ok(()),
            Some(Ok(block)) => sent.send_all(&block, || stop.is_set()),
            Some(Err(InputEnd::End)) => break ProduceEnd::Done,
            Some(Err(InputEnd::TooLong(max))) => {
                let message = format!("it is longer than {max} bytes");
                Err(LineError::Line(sent.lines + 1, message))
            }
            Some(Err(InputEnd::Failed(error))) => Err(LineError::Input(error)),
        };
        if let Err(trouble) = outcome {
            break ProduceEnd::Failed(trouble);
        }
        if rates.is_due(now_us()) {
            rates.show(now_us(), RecordCounts { records: sent.records, bytes: sent.bytes });
        }
    };
    let flushed = flush(&producer, || {
        if rates.is_due(now_us()) {
            rates.show(now_us(), RecordCounts { records: sent.records, bytes: sent.bytes });
        }
    });
    if let Err(FlushError::Lost { first, .. }) = &flushed
        && matches!(end, ProduceEnd::Done)
    {
        end = ProduceEnd::Failed(LineError::Produce(first.clone()));
    }
    let stats = producer.stats();
    let share = stats.delivered_records as f64 / sent.records.max(1) as f64;
    let bytes = if share >= 1.0 { sent.bytes } else { (sent.bytes as f64 * share) as u64 };
    let counts = RecordCounts { records: stats.delivered_records, bytes };
    let said = match &end {
        ProduceEnd::Done => "done",
        ProduceEnd::Stopped => "stopped",
        ProduceEnd::Failed(_) => "failed",
    };
    let done = format!("stream {}: sent", arguments.name);
    rates.finish(now_us(), counts, &done, said, arguments.quiet);
    if let Err(error) = &flushed {
        let _code = failed(told, error, None);
    }
    match end {
        ProduceEnd::Done if flushed.is_ok() => DONE,
        ProduceEnd::Stopped if flushed.is_ok() => STOPPED,
        ProduceEnd::Done | ProduceEnd::Stopped => FAILED,
        ProduceEnd::Failed(LineError::Line(number, message)) => {
            failed(told, &format!("standard input, line {number}: {message}"), None)
        }
        ProduceEnd::Failed(LineError::Encoding(encoding)) => {
            failed(told, &encoding.refusal("standard input"), None)
        }
        ProduceEnd::Failed(LineError::Input(error)) => {
            failed(told, &format!("standard input: {error}"), None)
        }
        ProduceEnd::Failed(LineError::Produce(_)) if flushed.is_err() => FAILED,
        ProduceEnd::Failed(LineError::Produce(error)) => produce_failed(told, &error),
    }
}

fn produce_failed(told: ErrorForm, error: &ProduceError) -> u8 {
    match error {
        ProduceError::Lookup(error) => admin_failed(told, error),
        error => failed(told, error, None),
    }
}

/// Flushes, and shows that it goes on.
fn flush(producer: &Producer, mut show: impl FnMut()) -> Result<(), FlushError> {
    let mut waited = Duration::ZERO;
    loop {
        match producer.flush(LOOK) {
            Err(FlushError::TimedOut { .. }) if waited < FLUSH_PATIENCE => {
                waited += LOOK;
                show();
            }
            other => return other,
        }
    }
}

/// The records sent so far.
struct Sent<'a> {
    arguments: &'a ProduceArguments,
    stream: &'a StreamWriter,
    /// Lines that were looked at.
    lines: u64,
    records: u64,
    bytes: u64,
}

impl Sent<'_> {
    fn send_all(&mut self, mut block: &[u8], stopped: impl Fn() -> bool) -> Result<(), LineError> {
        if self.lines == 0 {
            if let Some(encoding) = ForeignEncoding::of(block) {
                return Err(LineError::Encoding(encoding));
            }
            // A byte order mark is no data.
            block = block.strip_prefix(b"\xef\xbb\xbf").unwrap_or(block);
        }
        let headers: Vec<Header<'_>> = self
            .arguments
            .header
            .iter()
            .map(|(key, value)| Header { key: key.as_bytes(), value: Some(value.as_bytes()) })
            .collect();
        for line in split(block) {
            self.lines += 1;
            let key = match self.arguments.format {
                LineForm::Lines => None,
                LineForm::Json if line.trim_ascii().is_empty() => continue,
                LineForm::Json => self.key_of(line)?,
            };
            let record = NewRecord {
                key: key.as_deref(),
                value: Some(line),
                headers: &headers,
                timestamp_ms: None,
                streamlet: self.arguments.streamlet,
            };
            self.stream.send(&record).map_err(LineError::Produce)?;
            self.records += 1;
            self.bytes += line.len() as u64;
            // Sending may wait for room: whoever wants to stop need not wait for the whole block.
            if self.lines.is_multiple_of(1024) && stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Checks a line of JSON by the rules of HTTP and of jobs; the key in it, if one is asked for.
    fn key_of(&self, line: &[u8]) -> Result<Option<Vec<u8>>, LineError> {
        let wrong = |message: String| LineError::Line(self.lines, message);
        let names = self.arguments.key.as_deref().map(|it| it.split('.'));
        let key = checked_key(line, names.into_iter().flatten()).map_err(wrong)?;
        match (&self.arguments.key, key) {
            (Some(field), None) => {
                Err(wrong(format!("there is no field `{field}`, the key, or it is null")))
            }
            (_, key) => Ok(key.map(Cow::into_owned)),
        }
    }
}
