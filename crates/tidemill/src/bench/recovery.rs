//! `bench recovery`: a job with much state is stopped, and goes on from its checkpoint: how long it takes
//! to the first output and until all of the state was read back, in each way to recover.
//!
//! ```text
//! all keys once ─▶ a checkpoint that is kept ─▶ stopped ─┬─▶ eager     each from the same checkpoint,
//!                                                        ├─▶ prefetch  with none of its files in the
//!                                                        └─▶ lazy      system's memory
//! ```

use super::keyed::{Keyed, Pace};
use clap::Args;
use rustix::fs::{Advice, fadvise};
use serde_json::{Map, Value, json};
use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, JobHandle, RunOptions};
use tidemill_state::{IndexedBackend, IndexedOptions};
use tidemill_types::{Span, job::Recovery};

/// Checkpoints beside the one that is asked for would change what is gone on from.
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

impl RecoveryArgs {
    fn checkpoints(&self) -> PathBuf {
        self.keyed.data.join("checkpoints")
    }

    fn options(&self, world: &World, recovery: Recovery) -> Result<RunOptions, String> {
        let opened = IndexedBackend::open(world, &self.checkpoints(), IndexedOptions::default());
        let (backend, _) = opened.map_err(|error| error.to_string())?;
        let to =
            CheckpointTo { every: NEVER.into(), backend: Arc::new(backend), from: None, recovery };
        let data = Some(self.keyed.data.join("job"));
        Ok(RunOptions { data, checkpoint: Some(to), ..RunOptions::default() })
    }

    /// Runs the workload and reports.
    pub(super) fn run(&self, world: &World) -> Result<Map<String, Value>, String> {
        let pace = Pace::new(world, Some(self.rate));
        let handle = self.keyed.start(&pace, &self.options(world, Recovery::Eager)?)?;
        while handle.progress().stages[0].rows_in < self.keyed.keys && !handle.is_over() {
            world.clock.sleep_micros(1_000);
        }
        let kept = handle.keep_checkpoint("bench").map_err(|error| error.to_string())?;
        let state_bytes = handle.progress().stages[0].state_bytes;
        ended(&handle)?;
        drop(handle);
        let files = files(&self.checkpoints()).map_err(|error| error.to_string())?;
        let (stored, read_us) = read(world, &files).map_err(|error| error.to_string())?;
        let mut report = Map::new();
        let Value::Object(head) = json!({
            "workload": "recovery",
            "keys": self.keyed.keys,
            "slices": self.keyed.slices,
            "threads": self.keyed.threads,
            "rate": self.rate,
            "state_bytes": state_bytes,
            "stored_bytes": stored,
            "plain_read_ms": read_us as f64 / 1e3,
        }) else {
            unreachable!("an object was written");
        };
        report.extend(head);
        for recovery in [Recovery::Eager, Recovery::Prefetch, Recovery::Lazy] {
            forget(&files).map_err(|error| error.to_string())?;
            let name = json!(recovery).as_str().unwrap_or_default().to_owned();
            let found = self.go_on(world, recovery, kept.cycle.0)?;
            report.insert(name, found);
        }
        Ok(report)
    }

    /// Goes on, in one of the ways; says how long it took.
    fn go_on(&self, world: &World, recovery: Recovery, cycle: u64) -> Result<Value, String> {
        let start_us = world.clock.monotonic_micros();
        let past_ms = || (world.clock.monotonic_micros() - start_us) as f64 / 1e3;
        let options = RunOptions { resume: true, ..self.options(world, recovery)? };
        let handle = self.keyed.start(&Pace::new(world, Some(self.rate)), &options)?;
        let went_on_ms = past_ms();
        let checkpoints = || handle.progress().checkpoints;
        if checkpoints().cycle.0 != cycle {
            return Err(format!("it went on from cycle {}, not {cycle}", checkpoints().cycle));
        }
        let replayed = handle.progress().cycle_cut;
        while handle.progress().cycle_committed <= replayed && !handle.is_over() {
            world.clock.sleep_micros(200);
        }
        let (first_output_ms, left) = (past_ms(), checkpoints().slices_left);
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
            "all_read_ms": all_read,
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
