//! `tidemill run`: a job in the foreground, with a node inside this process.
//!
//! Results that a sink writes to standard output go there; progress and the summary go to standard
//! error. With `--json`, progress and summary are objects on standard output, unless a sink writes
//! there: then on standard error.

mod data_folder;
mod suggestions;

use super::checkpoint::checkpoint_number;
use super::outcome::{JobEnd, JobSummary};
use super::progress::{Display, Moment, print_json};
use super::reader::{ASK_US, nobody_reads};
use super::signals::StopFlag;
use super::{DONE, FAILED, JobArguments, REFUSED, STOPPED, load, print_all, table};
use data_folder::NewFolder;
use std::path::PathBuf;
use suggestions::what_next;
use tidemill_env::World;
use tidemill_flow::{JobError, JobHandle, RunOptions, engine};
use tidemill_node::plan::{PlanOptions, Planned, plan};
use tidemill_node::{
    Descriptor, Problem, Refused, Registry, Streams, check_resume, open_checkpoints,
};
use tidemill_types::CheckpointNumber;
use tidemill_types::job::{SourceSpec, StartSpec, UntilSpec};

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    job: JobArguments,
    /// The job's folder: its ledger and checkpoints, its dead letters if no sink takes them, and in
    /// `log` the streams that it reads and writes. A node's folder, if that node is not running.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Goes on where an earlier run with the same folder stopped. Rows on standard output come
    /// again, those since the checkpoint it goes on from.
    #[arg(long, requires = "data")]
    resume: bool,
    /// Goes on from this checkpoint: with --resume in place of the newest; without it the job begins
    /// anew there, with the state that it has, and sinks get the rows after it. `tidemill checkpoint
    /// list JOB.yaml --data DIR` shows them.
    #[arg(long, value_name = "NUMBER", requires = "data", value_parser = checkpoint_number())]
    checkpoint: Option<CheckpointNumber>,
    /// Progress and summary as JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Worker threads, in place of the job's `parallelism`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Number of rows of each sink that are shown as a table at the end, but for dead letters and for
    /// standard output, which has them already; 0: none.
    #[arg(long, value_name = "ROWS", default_value_t = 10)]
    preview: usize,
    /// Says nothing but errors and warnings.
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

/// The end of a run that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WayOut {
    Done,
    Stopped,
}

/// Most rows of a table at the end.
const PREVIEW_ROWS_MAX: usize = 1_000;
/// Longest time between two looks at a running job, in microseconds.
const LOOK_US_MAX: u64 = 20_000;

pub(super) fn run(arguments: &RunArguments) -> u8 {
    let world = World::real();
    let new_folder = NewFolder::before(arguments.data.as_deref());
    let prepared = load::load(&arguments.job).and_then(|descriptor| {
        if arguments.resume {
            let base_dir = options(arguments).base_dir;
            check_resume(&descriptor, arguments.data.as_deref(), &base_dir, &world)?;
        }
        if arguments.data.is_some() {
            load::advise(&descriptor);
        } else {
            load::advise_of_one_run(&descriptor);
        }
        let streams = open_streams(arguments, &descriptor, &world)?;
        let options = PlanOptions { streams: streams.clone(), ..options(arguments) };
        let planned = plan(&descriptor, &options, &world, &Registry::default());
        if let (Err(_), Some(streams)) = (&planned, &streams) {
            streams.close();
        }
        let planned = planned?;
        load::warn(&descriptor.spec.name, &planned.warnings);
        Ok((descriptor, planned, streams))
    });
    let (descriptor, planned, streams) = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => {
            load::show_refusal(&refused, arguments.json);
            return REFUSED;
        }
    };
    let stop = match StopFlag::listen() {
        Ok(stop) => stop,
        Err(error) => {
            say!("error: signals cannot be heard: {error}");
            return FAILED;
        }
    };
    let Planned { graph, previews, letters, warnings: _ } = planned;
    let start_job = |checkpoint| {
        let (data, resume) = (arguments.data.clone(), arguments.resume);
        let run_options = RunOptions { data, resume, checkpoint, ..RunOptions::default() };
        engine::start(graph, &world, &run_options)
    };
    let start = world.clock.monotonic_micros();
    let checkpoints =
        open_checkpoints(&descriptor.spec, arguments.data.as_deref(), arguments.checkpoint, &world);
    let handle = match checkpoints.and_then(start_job) {
        Ok(handle) => handle,
        Err(error) => {
            new_folder.remove(&world);
            load::show_refusal(&load::whole(&descriptor.file, error.to_string()), arguments.json);
            return REFUSED;
        }
    };
    let to_stderr = writes_to_stdout(&descriptor);
    let mut display = match (arguments.json, arguments.quiet) {
        (true, _) => Display::Json { to_stderr, is_lost: false },
        (_, true) => Display::Quiet,
        _ => Display::for_person(),
    };
    let watched = (&mut display, is_for_a_reader(&descriptor));
    let asked = watch(&handle, &world, &stop, watched, start);
    display.clear();
    let result = handle.wait();
    if let Some(streams) = streams {
        streams.close();
    }
    let progress = handle.progress();
    let end = match result {
        Err(error) if is_of_stdout(&descriptor, &error) && nobody_reads() => JobEnd::Unread,
        Err(error) => JobEnd::Failed(error.to_string()),
        Ok(_) if progress.finished => JobEnd::Done,
        Ok(_) => match asked {
            Some(StopRequest::BySignal) => JobEnd::Stopped,
            Some(StopRequest::ForWantOfReaders) => JobEnd::Unread,
            None => JobEnd::Done,
        },
    };
    let outcome = JobSummary {
        job: &descriptor.spec.name,
        end,
        progress,
        seconds: world.clock.monotonic_micros().saturating_sub(start) as f64 / 1e6,
        cpu_seconds: cpu_seconds(),
        previews: &previews,
        letters: &letters,
    };
    let shown = show(arguments, &descriptor, &outcome, to_stderr);
    match (display, &outcome.end) {
        // Said when it happened; a summary that was written is no end of a whole text.
        (Display::Json { is_lost: true, .. }, JobEnd::Done | JobEnd::Stopped) => FAILED,
        _ => shown,
    }
}

/// The streams in the job's folder, if the job has any.
fn open_streams(
    arguments: &RunArguments,
    descriptor: &Descriptor,
    world: &World,
) -> Result<Option<Streams>, Refused> {
    let spec = &descriptor.spec;
    let source = spec.sources.iter().find(|(_, it)| it.stream.is_some());
    let sink = spec.sinks.iter().find(|(_, it)| it.stream.is_some());
    let path = match (source, sink) {
        (Some((name, _)), _) => ["sources", name, "stream"],
        (None, Some((name, _))) => ["sinks", name, "stream"],
        (None, None) => return Ok(None),
    };
    let Some(data) = &arguments.data else { return Ok(None) };
    let by_group = |it: &SourceSpec| matches!(it.start, Some(StartSpec::Group(_)));
    let groups = spec.sources.values().any(by_group);
    Streams::open(world, data, groups)
        .map(Some)
        .map_err(|error| Refused(vec![descriptor.locate(Problem::new(path, error.to_string()))]))
}

fn options(arguments: &RunArguments) -> PlanOptions {
    PlanOptions {
        base_dir: load::base_dir(&arguments.job),
        job_file: Some(arguments.job.file.clone()),
        data: arguments.data.clone(),
        node: None,
        preview_rows: if arguments.json || arguments.quiet {
            0
        } else {
            arguments.preview.min(PREVIEW_ROWS_MAX)
        },
        threads: arguments.threads.map(usize::from),
        resume: arguments.resume,
        from_checkpoint: arguments.checkpoint.is_some(),
        streams: None,
    }
}

fn writes_to_stdout(descriptor: &Descriptor) -> bool {
    descriptor.spec.sinks.values().any(|sink| sink.stdout.is_some())
}

/// True if an error is that of a sink that writes to standard output. A stage may have the name of
/// its sink; its errors name a slice.
fn is_of_stdout(descriptor: &Descriptor, error: &JobError) -> bool {
    let sink = descriptor.spec.sinks.get(&error.part).filter(|_| error.slice.is_none());
    sink.is_some_and(|sink| sink.stdout.is_some())
}

/// True if the job does not end by itself, and is of no use without a reader of standard output.
/// One that ends may write other files, for which its rows need not be read to the end.
fn is_for_a_reader(descriptor: &Descriptor) -> bool {
    let is_live = |it: &SourceSpec| {
        it.file.is_none()
            && it.until.or_else(|| it.kafka.as_ref()?.until) != Some(UntilSpec::Latest)
    };
    writes_to_stdout(descriptor) && descriptor.spec.sources.values().any(is_live)
}

/// Why a job was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopRequest {
    BySignal,
    ForWantOfReaders,
}

/// Shows progress until the job is over. Says why it was asked to stop, if it was.
fn watch(
    handle: &JobHandle,
    world: &World,
    stop: &StopFlag,
    (display, is_for_a_reader): (&mut Display, bool),
    start: u64,
) -> Option<StopRequest> {
    let mut asked = None;
    let mut look_for_readers_us = start;
    let mut look_us = 500;
    let mut before = Moment { micros: start, progress: handle.progress() };
    while !handle.is_over() {
        if asked.is_none() && is_for_a_reader {
            let now_us = world.clock.monotonic_micros();
            if now_us.saturating_sub(look_for_readers_us) >= ASK_US {
                look_for_readers_us = now_us;
                if nobody_reads() {
                    asked = Some(StopRequest::ForWantOfReaders);
                    handle.stop();
                }
            }
        }
        if stop.is_set() && asked.is_none() {
            asked = Some(StopRequest::BySignal);
            handle.stop();
            if matches!(display, Display::Bars(..) | Display::Lines) {
                say!("stopping at the end of the cycle; Ctrl-C again to end at once");
            }
        }
        world.clock.sleep_micros(look_us);
        // A short job ends soon after its last record, a long one costs nothing to watch.
        look_us = (look_us * 2).min(LOOK_US_MAX);
        let micros = world.clock.monotonic_micros();
        if micros.saturating_sub(before.micros) >= display.period_us() {
            let now = Moment { micros, progress: handle.progress() };
            display.show(&now, &before, start);
            before = now;
        }
    }
    asked
}

/// CPU time of this process, in seconds, over all threads.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn show(
    arguments: &RunArguments,
    job: &Descriptor,
    outcome: &JobSummary<'_>,
    to_stderr: bool,
) -> u8 {
    let mut shown = DONE;
    if arguments.json {
        shown = print_json(&outcome.json(), to_stderr);
    } else if !arguments.quiet {
        say_on!("{}", outcome.text());
    }
    if let JobEnd::Failed(error) = &outcome.end {
        say!("{}: error: {error}", job.file);
        return FAILED;
    }
    let is_read = outcome.end != JobEnd::Unread;
    if is_read && !arguments.json && !arguments.quiet && arguments.preview > 0 {
        shown = show_tables(outcome, to_stderr);
    }
    if shown != DONE {
        return shown;
    }
    if is_read && !arguments.json && !arguments.quiet && arguments.preview > 0 {
        let program = std::env::args_os().next().unwrap_or_else(|| "tidemill".into());
        let end = if outcome.end == JobEnd::Stopped { WayOut::Stopped } else { WayOut::Done };
        say_on!("{}", what_next(&program.to_string_lossy(), arguments, &job.spec, end));
    }
    match outcome.end {
        JobEnd::Stopped => STOPPED,
        JobEnd::Done | JobEnd::Unread | JobEnd::Failed(_) => DONE,
    }
}

/// Tables go to standard output, unless a sink writes its rows there.
fn show_tables(outcome: &JobSummary<'_>, to_stderr: bool) -> u8 {
    for preview in outcome.previews {
        let sink = outcome.progress.sinks.iter().find(|sink| sink.name == preview.sink);
        let text = table::render(preview, sink.map_or(0, |sink| sink.rows));
        if to_stderr {
            say!("\n{text}");
            continue;
        }
        let shown = print_all(&format!("\n{text}\n"));
        if shown != DONE {
            return shown;
        }
    }
    DONE
}
