//! `tidemill stream consume`: records become lines of standard output.

use super::super::reader::{ASK_US, nobody_reads};
use super::{
    DONE, ErrorForm, NodeArguments, STOPPED, admin_failed, failed,
    rates::{Rates, RecordCounts},
    render::{RecordForm, render},
    start::start,
    stop_flag,
};
use clap::builder::NonEmptyStringValueParser;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    time::Duration,
};
use tidemill_client::{
    Admin, AdminError, Consumer,
    admin::OffsetAt,
    consumer::{Batch, ConsumeError, ConsumerOptions, Isolation, Start},
    transactions::is_passing,
};
use tidemill_env::World;

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two commits of a group's offsets, in microseconds.
const COMMIT_US: u64 = 5_000_000;
/// Bytes that are gathered before they are written, while more records are there.
const OUT_BYTES: usize = 256 << 10;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ConsumeArguments {
    /// The stream's name.
    name: String,
    /// Goes on when all records are written that were there at the beginning.
    #[arg(long, short)]
    follow: bool,
    /// Where to begin: `earliest`, `latest`, an offset, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHERE", default_value = "earliest", value_parser = start)]
    from: Start,
    /// The form of a record.
    #[arg(long, value_enum, default_value_t = RecordForm::Lines)]
    format: RecordForm,
    /// Ends after this number of records.
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// One streamlet only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    streamlet: Option<i32>,
    /// Begins where this group has left off, and commits how far it gets; `--from` is for
    /// streamlets of which it has no offset.
    // The empty name is a group like others to Kafka, and a variable that is not set to people.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// Only records that are in no transaction, or in a committed one.
    #[arg(long)]
    committed: bool,
    /// Says nothing but errors.
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// The end of consuming.
enum ConsumeEnd {
    Done,
    Stopped,
    /// The output has no reader.
    Unread,
    Output(io::Error),
    Failed(ConsumeError),
}

pub(super) fn consume(arguments: &ConsumeArguments) -> u8 {
    let (world, told) = (World::real(), arguments.node.told_beside());
    let stop = match stop_flag(told) {
        Ok(stop) => stop,
        Err(code) => return code,
    };
    let client = arguments.node.client(&world);
    let admin = client.admin();
    let plan = match plan(arguments, &admin) {
        Ok(plan) => plan,
        Err(error) => return consume_failed(told, &error),
    };
    let isolation = if arguments.committed { Isolation::Committed } else { Isolation::Uncommitted };
    let options = ConsumerOptions { isolation, ..ConsumerOptions::default() };
    let mut consumer = client.consumer(options);
    if let Err(error) = consumer.assign(&arguments.name, &plan.starts) {
        return consume_failed(told, &error);
    }
    let now_us = || world.clock.monotonic_micros();
    let may_draw = !io::stdout().is_terminal();
    let mut rates = Rates::new(now_us(), arguments.node.json, arguments.quiet, may_draw);
    let mut copy =
        Copy { arguments, gathered: PendingLines::default(), counts: RecordCounts::default() };
    let (mut committed_us, mut commits) = (now_us(), Commits::default());
    let mut asked_us = now_us();
    let end = loop {
        if stop.is_set() {
            break ConsumeEnd::Stopped;
        }
        if let Some(end) = copy.step(&mut consumer, &plan) {
            break end;
        }
        if now_us().saturating_sub(asked_us) >= ASK_US {
            asked_us = now_us();
            // What comes next may come late, or never.
            if nobody_reads() {
                break ConsumeEnd::Unread;
            }
        }
        if rates.is_due(now_us()) {
            rates.show(now_us(), copy.counts);
        }
        if now_us().saturating_sub(committed_us) > COMMIT_US {
            committed_us = now_us();
            if let Err(error) = copy.flush() {
                break error;
            }
            match commits.not_the_last(copy.commit(&admin)) {
                Ok(None) => {}
                Ok(Some(_)) if arguments.quiet => {}
                Ok(Some(error)) => {
                    say!("offsets are not committed, it is tried again every 5 s: {error}");
                }
                Err(error) => break ConsumeEnd::Failed(error.into()),
            }
        }
    };
    let last = match copy.flush() {
        Ok(()) => copy.commit(&admin).map_err(|error| ConsumeEnd::Failed(error.into())),
        Err(error) => Err(error),
    };
    let end = match (last, end) {
        (Err(error), ConsumeEnd::Done | ConsumeEnd::Stopped) => error,
        (_, end) => end,
    };
    let said = match &end {
        ConsumeEnd::Done | ConsumeEnd::Unread => "done",
        ConsumeEnd::Stopped => "stopped",
        ConsumeEnd::Output(_) | ConsumeEnd::Failed(_) => "failed",
    };
    let done = format!("stream {}: read", arguments.name);
    rates.finish(now_us(), copy.counts, &done, said, arguments.quiet);
    match end {
        ConsumeEnd::Done | ConsumeEnd::Unread => DONE,
        ConsumeEnd::Stopped => STOPPED,
        ConsumeEnd::Output(error) => failed(told, &format!("standard output: {error}"), None),
        ConsumeEnd::Failed(error) => consume_failed(told, &error),
    }
}

fn consume_failed(told: ErrorForm, error: &ConsumeError) -> u8 {
    match error {
        ConsumeError::Lookup(error) => admin_failed(told, error),
        error => failed(told, error, None),
    }
}

/// Where to begin in each streamlet, and where to end.
struct Plan {
    starts: BTreeMap<i32, Start>,
    /// None: never.
    ends: Option<BTreeMap<i32, i64>>,
}

fn plan(arguments: &ConsumeArguments, admin: &Admin) -> Result<Plan, ConsumeError> {
    let at = if arguments.committed { OffsetAt::LatestCommitted } else { OffsetAt::Latest };
    let mut ends = admin.offsets(&arguments.name, at)?;
    if let Some(only) = arguments.streamlet {
        if !ends.contains_key(&only) {
            return Err(ConsumeError::NoStreamlet {
                stream: arguments.name.clone(),
                streamlet: only,
                count: i32::try_from(ends.len()).unwrap_or(i32::MAX),
            });
        }
        ends.retain(|index, _| *index == only);
    }
    let mut starts: BTreeMap<i32, Start> =
        ends.keys().map(|index| (*index, arguments.from)).collect();
    if let Some(group) = &arguments.group {
        let committed = admin.group_offsets(group)?;
        for (index, offset) in committed.get(&arguments.name).into_iter().flatten() {
            if let Some(start) = starts.get_mut(index) {
                *start = Start::Offset(offset.offset);
            }
        }
    }
    let ends: BTreeMap<i32, i64> =
        ends.into_iter().map(|(index, end)| (index, end.offset)).collect();
    for (index, start) in &starts {
        // The node would say so as well, but not to one who waits for nothing.
        if let (Start::Offset(offset), Some(end)) = (start, ends.get(index))
            && offset > end
        {
            return Err(ConsumeError::OutOfRange {
                stream: arguments.name.clone(),
                streamlet: *index,
                offset: *offset,
                hint: format!("the next record will get offset {end}"),
            });
        }
    }
    Ok(Plan { starts, ends: (!arguments.follow).then_some(ends) })
}

/// The state of commits.
#[derive(Default)]
struct Commits {
    failing: bool,
}

impl Commits {
    /// The decision after a commit that another one follows: end, with the error, or go on. That it
    /// does not work for now is told once.
    fn not_the_last(
        &mut self,
        outcome: Result<(), AdminError>,
    ) -> Result<Option<AdminError>, AdminError> {
        let was_failing = std::mem::replace(&mut self.failing, outcome.is_err());
        match outcome {
            Ok(()) => Ok(None),
            Err(error) if is_passing(&error) => Ok(Some(error).filter(|_| !was_failing)),
            Err(error) => Err(error),
        }
    }
}

/// From the consumer to standard output.
struct Copy<'a> {
    arguments: &'a ConsumeArguments,
    gathered: PendingLines,
    counts: RecordCounts,
}

/// Lines that are still to be written, and how far those are that were.
#[derive(Default)]
struct PendingLines {
    out: Vec<u8>,
    /// The next offset of each streamlet that lines were gathered of.
    taken: BTreeMap<i32, i64>,
    /// The positions behind the records that were written. A group commits only these: a record in
    /// gathered for a reader that has gone away comes again.
    written: BTreeMap<i32, i64>,
}

impl PendingLines {
    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let lines = std::mem::take(&mut self.out);
        let taken = std::mem::take(&mut self.taken);
        out.write_all(&lines)?;
        out.flush()?;
        self.written.extend(taken);
        self.out = lines;
        self.out.clear();
        Ok(())
    }
}

impl Copy<'_> {
    /// Takes the next records; if there are none, writes the gathered ones and waits a little.
    fn step(&mut self, consumer: &mut Consumer, plan: &Plan) -> Option<ConsumeEnd> {
        let polled = match consumer.poll(Duration::ZERO) {
            Ok(None) => {
                if let Err(end) = self.flush() {
                    return Some(end);
                }
                if plan.is_reached(&self.arguments.name, consumer) {
                    return Some(ConsumeEnd::Done);
                }
                consumer.poll(LOOK)
            }
            polled => polled,
        };
        let batch = match polled {
            Ok(Some(batch)) => batch,
            Ok(None) => return None,
            Err(error) => return Some(ConsumeEnd::Failed(error)),
        };
        let end = self.write(&batch, plan);
        consumer.recycle(batch);
        end
    }

    fn write(&mut self, batch: &Batch, plan: &Plan) -> Option<ConsumeEnd> {
        let streamlet = batch.streamlet();
        let last = plan.ends.as_ref().and_then(|it| it.get(&streamlet));
        for record in batch.records() {
            if self.arguments.max.is_some_and(|max| self.counts.records >= max) {
                return Some(ConsumeEnd::Done);
            }
            let record = match record {
                Ok(record) => record,
                Err(error) => return Some(ConsumeEnd::Failed(error)),
            };
            // What was written after the beginning is for the next time.
            if last.is_some_and(|last| record.offset >= *last) {
                break;
            }
            render(&mut self.gathered.out, self.arguments.format, streamlet, &record);
            let field = |it: Option<&[u8]>| it.map_or(0, <[u8]>::len) as u64;
            self.counts.records += 1;
            self.counts.bytes += field(record.key) + field(record.value);
            self.gathered.taken.insert(streamlet, record.offset.saturating_add(1));
        }
        if self.arguments.max.is_some_and(|max| self.counts.records >= max) {
            return Some(ConsumeEnd::Done);
        }
        if self.gathered.out.len() >= OUT_BYTES { self.flush().err() } else { None }
    }

    fn flush(&mut self) -> Result<(), ConsumeEnd> {
        self.gathered.flush(&mut io::stdout().lock()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => ConsumeEnd::Unread,
            _ => ConsumeEnd::Output(error),
        })
    }

    /// Commits the records that were written.
    fn commit(&self, admin: &Admin) -> Result<(), AdminError> {
        let Some(group) = &self.arguments.group else { return Ok(()) };
        let written = &self.gathered.written;
        if written.is_empty() {
            return Ok(());
        }
        let offsets = BTreeMap::from([(self.arguments.name.clone(), written.clone())]);
        admin.commit_group_offsets(group, &offsets)
    }
}

impl Plan {
    /// True if all records that were there at the beginning were read.
    fn is_reached(&self, name: &str, consumer: &Consumer) -> bool {
        let Some(ends) = &self.ends else { return false };
        let positions = consumer.positions();
        ends.iter().all(|(index, end)| {
            let position = positions.get(&(name.to_owned(), *index));
            position.copied().flatten().is_some_and(|it| it >= *end)
        })
    }
}

#[cfg(test)]
mod tests;
