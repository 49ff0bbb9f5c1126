//! `tidemill-bench recovery`: a job with much state is stopped, and goes on from its checkpoint: how long it takes
//! to the first output and until all of the state was read back, in each way to recover.
//!
//! ```text
//! all keys once ─▶ a checkpoint that is kept ─▶ stopped ───▶ eager     with none of the checkpoint's
//!                                                                      files in the system's memory
//! and once more, with an index of the keys ────────────────┬─▶ prefetch
//!                                                          └─▶ lazy
//! ```

use super::keyed::{EventPace, Keyed};
use super::measure::Report;
use clap::Args;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_checkpoints::{IndexedBackend, IndexedOptions};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, JobHandle, RunOptions};
use tidemill_types::{Span, job::Recovery};

/// No periodic checkpoint: only the requested one is recovered from.
const NEVER: Span = Span(1 << 50);
/// Bytes that the reference reads at once.
const READ_BYTES: usize = 1 << 20;

/// Options of the workload.
#[derive(Args, Debug)]
pub(crate) struct RecoveryArgs {
    #[command(flatten)]
    pub(super) keyed: Keyed,
    /// Events a second when the job goes on.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Longest wait for slices that nothing has asked for, in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// The checkpoint that a job recovers from.
struct FilledState {
    state_bytes: u64,
    /// Of the checkpoint.
    cycle: u64,
    /// The last committed cycle; any later cycle belongs to the recovered job.
    last: u64,
}

impl RecoveryArgs {
    /// Where a job is that goes on so: one that reads all at once saves no index of its keys.
    fn folder(&self, recovery: Recovery) -> PathBuf {
        self.keyed.data.join(if recovery == Recovery::Eager { "whole" } else { "by-key" })
    }

    fn options(&self, world: &World, recovery: Recovery) -> Result<RunOptions, String> {
        let folder = self.folder(recovery).join("checkpoints");
        let opened = IndexedBackend::open(world, &folder, IndexedOptions::default());
        let (backend, _) = opened.map_err(|error| error.to_string())?;
        let to =
            CheckpointTo { every: NEVER.into(), backend: Arc::new(backend), from: None, recovery };
        let data = Some(self.folder(recovery).join("job"));
        Ok(RunOptions { data, checkpoint: Some(to), ..RunOptions::default() })
    }

    /// Runs the workload and reports.
    pub(super) fn run(&self, world: &World) -> Result<Report, String> {
        let mut report = Report::new();
        let Value::Object(head) = json!({
            "workload": "recovery",
            "keys": self.keyed.keys,
            "slices": self.keyed.slices,
            "threads": self.keyed.threads,
            "rate": self.rate,
        }) else {
            unreachable!("an object was written");
        };
        report.extend(head);
        let all: [&[Recovery]; 2] = [&[Recovery::Eager], &[Recovery::Prefetch, Recovery::Lazy]];
        for recoveries in all {
            let filled = self.fill(world, recoveries[0])?;
            let files = files(&self.folder(recoveries[0]).join("checkpoints"));
            let files = files.map_err(|error| error.to_string())?;
            let (stored, read_us) = read(world, &files).map_err(|error| error.to_string())?;
            for recovery in recoveries {
                forget(&files).map_err(|error| error.to_string())?;
                let name = json!(recovery).as_str().unwrap_or_default().to_owned();
                let mut found = self.go_on(world, *recovery, &filled)?;
                found["state_bytes"] = json!(filled.state_bytes);
                found["stored_bytes"] = json!(stored);
                found["plain_read_ms"] = json!(read_us as f64 / 1e3);
                report.insert(name, found);
            }
        }
        Ok(report)
    }

    /// Makes a checkpoint of all keys.
    fn fill(&self, world: &World, recovery: Recovery) -> Result<FilledState, String> {
        let pace = EventPace::new(world, Some(self.rate));
        let handle = self.keyed.start(&pace, &self.options(world, recovery)?)?;
        while handle.progress().stages[0].rows_in < self.keyed.keys && !handle.is_over() {
            world.clock.sleep_micros(1_000);
        }
        let kept = handle.keep_checkpoint("bench").map_err(|error| error.to_string())?;
        let state_bytes = handle.progress().stages[0].state_bytes;
        ended(&handle)?;
        let last = handle.progress().cycle_committed.0;
        Ok(FilledState { state_bytes, cycle: kept.cycle.0, last })
    }

    /// Goes on, in one of the ways; says how long it took.
    fn go_on(
        &self,
        world: &World,
        recovery: Recovery,
        filled: &FilledState,
    ) -> Result<Value, String> {
        let start_us = world.clock.monotonic_micros();
        let past_ms = || (world.clock.monotonic_micros() - start_us) as f64 / 1e3;
        let options = RunOptions { resume: true, ..self.options(world, recovery)? };
        let handle = self.keyed.start(&EventPace::new(world, Some(self.rate)), &options)?;
        let went_on_ms = past_ms();
        let checkpoints = || handle.progress().checkpoints;
        if checkpoints().cycle.0 != filled.cycle {
            let (found, cycle) = (checkpoints().cycle, filled.cycle);
            return Err(format!("it went on from cycle {found}, not {cycle}"));
        }
        // One that is done again, mostly, and then one that is new.
        let until = |cycle: u64| {
            while handle.progress().cycle_committed.0 <= cycle && !handle.is_over() {
                world.clock.sleep_micros(200);
            }
            past_ms()
        };
        let first_output_ms = until(filled.cycle);
        let left = checkpoints().slices_left;
        let first_new_ms = until(filled.last);
        let until_us = world.clock.monotonic_micros() + (self.seconds * 1e6) as u64;
        let all_read = loop {
            if checkpoints().slices_left == 0 {
                break Some(past_ms());
            }
            if world.clock.monotonic_micros() >= until_us || handle.is_over() {
                break None;
            }
            world.clock.sleep_micros(200);
        };
        ended(&handle)?;
        Ok(json!({
            "went_on_ms": went_on_ms,
            "first_output_ms": first_output_ms,
            "slices_left_then": left,
            "first_new_ms": first_new_ms,
            "all_read_ms": all_read,
            "read_keys": handle.progress().stages[0].read_keys,
        }))
    }
}

fn ended(handle: &JobHandle) -> Result<(), String> {
    handle.stop();
    handle.wait().map(|_| ()).map_err(|error| error.to_string())
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?
        .map(|it| it.map(|it| it.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|it| it.is_file());
    files.sort();
    Ok(files)
}

/// Nothing of these files is in the system's memory afterwards.
fn forget(files: &[PathBuf]) -> std::io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes of these files, and how long one thread takes to read them from the disk, in microseconds.
fn read(world: &World, files: &[PathBuf]) -> std::io::Result<(u64, u64)> {
    forget(files)?;
    let start_us = world.clock.monotonic_micros();
    let (mut bytes, mut buffer) = (0, vec![0; READ_BYTES]);
    for path in files {
        let mut file = File::open(path)?;
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
        }
    }
    Ok((bytes, world.clock.monotonic_micros() - start_us))
}
