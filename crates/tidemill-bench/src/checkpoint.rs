//! `tidemill-bench checkpoint`: a job with much state, without checkpoints and with them, in one
//! run: their cost and the longest pause they cause (ChronoStream V-B, figure 8).
//!
//! ```text
//! all keys once ─▶ steady: random keys ─┬─▶ first checkpoint (all of the state) ─▶ later ones
//! 1. without checkpoints: measured      2. with them: measured in both phases, then gone on from
//! 3. without them once more: a machine is faster at one time than at another
//! ```

use super::keyed::{EventPace, Keyed};
use super::measure::{Meter, Moment, Report};
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use tidemill_checkpoints::{IndexedBackend, IndexedOptions};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, JobHandle, RunOptions};
use tidemill_types::{Cycle, Span, job::Recovery};

/// Events that are timed together, as ChronoStream does.
const TIMED: u64 = 100_000;

/// The stage has caught up with its rate if it is no further behind, in microseconds: about two
/// cycles.
const CAUGHT_UP_US: u64 = 20_000;
/// Longest wait for the stage to catch up; after it the stage is measured as it is.
const CATCHES_UP_FOR_US: u64 = 10_000_000;

/// Options of the workload.
#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    pub(super) keyed: Keyed,
    /// From the beginning of one checkpoint to that of the next.
    #[arg(long, default_value = "10s")]
    every: Span,
    /// Seconds to measure without checkpoints, and with them after the first.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Events a second, once every key was there. Without it, as many as it can.
    #[arg(long)]
    rate: Option<f64>,
    /// When the state is read back: `eager`, `lazy` or `prefetch`.
    #[arg(long, default_value = "eager", value_parser = recovery)]
    recovery: Recovery,
}

fn recovery(text: &str) -> Result<Recovery, String> {
    serde_json::from_value(json!(text)).map_err(|error| error.to_string())
}

/// The progress of a stage, sampled at many moments.
struct ProgressSamples {
    pace: Arc<EventPace>,
    /// Time in microseconds, and events processed.
    samples: Vec<(u64, u64)>,
    /// The first and the last moment of sampling.
    moments: (Moment, Moment),
}

/// Samples the progress of a stage.
struct ProgressSampler {
    pace: Arc<EventPace>,
    meter: Arc<Meter>,
}

impl ProgressSampler {
    /// Samples until `is_enough` holds for the time in microseconds and the events.
    fn sample(&self, handle: &JobHandle, is_enough: impl Fn(u64, u64) -> bool) -> ProgressSamples {
        let (mut samples, from) = (Vec::new(), self.meter.moment(&[]));
        loop {
            let clock = &self.pace.world.clock;
            let now_us = clock.monotonic_micros();
            let events = handle.progress().stages[0].rows_in;
            samples.push((now_us, events));
            let began_us = samples[0].0;
            if is_enough(now_us - began_us, events) || handle.is_over() {
                let moments = (from, self.meter.moment(&[]));
                return ProgressSamples { pace: Arc::clone(&self.pace), samples, moments };
            }
            clock.sleep_micros(500);
        }
    }

    /// Waits until the stage has processed the events that fill its keys: paced events queue behind
    /// them, and are late until then.
    fn catch_up(&self, handle: &JobHandle) {
        let pace = Arc::clone(&self.pace);
        let is_behind = |events| {
            let due_us = pace.due_us(events)?;
            Some(pace.world.clock.monotonic_micros() > due_us + CAUGHT_UP_US)
        };
        let is_enough = |past_us, events| {
            !pace.is_paced() || is_behind(events) == Some(false) || past_us >= CATCHES_UP_FOR_US
        };
        self.sample(handle, is_enough);
    }
}

/// Samples of one run, or of several.
struct MeasuredRuns(Vec<ProgressSamples>);

impl MeasuredRuns {
    fn sum(&self, of: impl Fn(&ProgressSamples) -> f64) -> f64 {
        self.0.iter().map(of).sum()
    }

    fn events_per_s(&self) -> f64 {
        self.sum(ProgressSamples::events) / self.sum(ProgressSamples::seconds)
    }

    fn report(&self) -> Value {
        let most =
            |of: fn(&ProgressSamples) -> u64| self.0.iter().map(of).max().unwrap_or(0) as f64 / 1e3;
        json!({
            "cpu_us_per_event": self.sum(ProgressSamples::cpu_s) * 1e6 / self.sum(ProgressSamples::events).max(1.0),
            "seconds": self.sum(ProgressSamples::seconds),
            "events_per_s": self.events_per_s(),
            "longest_ms": most(ProgressSamples::longest_us),
            "latency_p50_ms": self.latency_ms(0.5),
            "latency_p99_ms": self.latency_ms(0.99),
            "latency_max_ms": self.latency_ms(1.0),
            "look_gap_max_ms": most(ProgressSamples::longest_gap_us),
            "stolen_s": self.sum(ProgressSamples::stolen_s),
        })
    }

    /// A quantile of the delay behind the rate, over all samples. None without a rate.
    fn latency_ms(&self, quantile: f64) -> Option<f64> {
        let mut behind: Vec<u64> = self.0.iter().flat_map(ProgressSamples::behind).collect();
        behind.sort_unstable();
        let last = behind.len().checked_sub(1)?;
        Some(behind[(last as f64 * quantile) as usize] as f64 / 1e3)
    }
}

impl ProgressSamples {
    fn events(&self) -> f64 {
        (self.samples[self.samples.len() - 1].1 - self.samples[0].1) as f64
    }

    fn seconds(&self) -> f64 {
        (self.samples[self.samples.len() - 1].0 - self.samples[0].0) as f64 / 1e6
    }

    fn cpu_s(&self) -> f64 {
        self.moments.1.cpu_since(&self.moments.0)
    }

    fn stolen_s(&self) -> f64 {
        self.moments.1.stolen_since(&self.moments.0)
    }

    /// The delay behind the rate at each sample, in microseconds. None without a rate.
    fn behind(&self) -> impl Iterator<Item = u64> {
        let due_us = |events| self.pace.due_us(events);
        let behind =
            move |(now_us, events): &(u64, u64)| Some(now_us.saturating_sub(due_us(*events)?));
        self.samples.iter().filter_map(behind)
    }

    /// The longest time between two samples. Between them this thread only sleeps: if it does so for
    /// much longer than it wants to, the machine stood still, and not the job.
    fn longest_gap_us(&self) -> u64 {
        self.samples.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(0)
    }

    /// The longest time in which [`TIMED`] events were processed.
    fn longest_us(&self) -> u64 {
        let mut end = 0;
        let mut longest_us = 0;
        for (from_us, from) in &self.samples {
            while self.samples.get(end).is_some_and(|(_, events)| *events < from + TIMED) {
                end += 1;
            }
            let Some((to_us, _)) = self.samples.get(end) else { break };
            longest_us = longest_us.max(to_us - from_us);
        }
        longest_us
    }
}

impl CheckpointArgs {
    /// A job without checkpoints, half of the time.
    fn without(
        &self,
        world: &World,
        meter: &Arc<Meter>,
        name: &str,
    ) -> Result<ProgressSamples, String> {
        let sampler =
            ProgressSampler { pace: EventPace::new(world, self.rate), meter: Arc::clone(meter) };
        let data = Some(self.keyed.data.join(name));
        let options = RunOptions { data, ..RunOptions::default() };
        let handle = self.keyed.start(&sampler.pace, &options)?;
        sampler.sample(&handle, |_, events| events >= self.keyed.keys);
        sampler.catch_up(&handle);
        let us = (self.seconds * 1e6) as u64 / 2;
        let samples = sampler.sample(&handle, |past_us, _| past_us >= us);
        handle.stop();
        handle.wait().map_err(|error| error.to_string())?;
        Ok(samples)
    }

    /// Runs the workload and reports.
    pub(super) fn run(&self, world: &World) -> Result<Report, String> {
        let us = (self.seconds * 1e6) as u64;
        let meter = Meter::new(world);
        let before = self.without(world, &meter, "before")?;

        let folder = self.keyed.data.join("checkpoints");
        let opened = IndexedBackend::open(world, &folder, IndexedOptions::default());
        let (backend, _) = opened.map_err(|error| error.to_string())?;
        let to = CheckpointTo {
            every: self.every.into(),
            backend: Arc::new(backend),
            from: None,
            recovery: self.recovery,
        };
        let data = Some(self.keyed.data.join("with"));
        let mut options = RunOptions { data, checkpoint: Some(to), ..RunOptions::default() };
        let sampler =
            ProgressSampler { pace: EventPace::new(world, self.rate), meter: Arc::clone(&meter) };
        let handle = self.keyed.start(&sampler.pace, &options)?;
        sampler.sample(&handle, |_, events| events >= self.keyed.keys);
        // One that began before all keys were there does not count.
        let completed = || handle.progress().checkpoints;
        let filled = completed().completed;
        sampler.catch_up(&handle);
        let first = sampler.sample(&handle, |_, _| completed().completed > filled);
        let (first, first_checkpoint) = (MeasuredRuns(vec![first]).report(), completed());
        let later = sampler.sample(&handle, |past_us, _| past_us >= us);
        let (later, last) = (MeasuredRuns(vec![later]).report(), completed());
        handle.stop();
        handle.wait().map_err(|error| error.to_string())?;
        drop(handle);

        options.resume = true;
        let start_us = world.clock.monotonic_micros();
        let handle = self.keyed.start(&EventPace::new(world, self.rate), &options)?;
        let past_us = || world.clock.monotonic_micros() - start_us;
        let resumed_us = past_us();
        let from = handle.progress().checkpoints.cycle;
        // A cycle that is done, and then all of the state.
        while handle.progress().cycle_committed <= from && !handle.is_over() {
            world.clock.sleep_micros(200);
        }
        let first_output_us = past_us();
        let left = handle.progress().checkpoints.slices_left;
        while handle.progress().checkpoints.slices_left > 0 && !handle.is_over() {
            world.clock.sleep_micros(200);
        }
        let all_read_us = past_us();
        handle.stop();
        handle.wait().map_err(|error| error.to_string())?;
        drop(handle);

        let without = MeasuredRuns(vec![before, self.without(world, &meter, "after")?]);
        let apart: Vec<f64> =
            without.0.iter().map(|samples| samples.events() / samples.seconds()).collect();
        let without = without.report();
        let ratio = |with: &Value, of: &str| {
            with[of].as_f64().unwrap_or(0.0) / without[of].as_f64().unwrap_or(1.0)
        };
        let report = json!({
            "workload": "checkpoint",
            "keys": self.keyed.keys,
            "every": self.every.to_string(),
            "slices": self.keyed.slices,
            "threads": self.keyed.threads,
            "rate": self.rate,
            "events_timed_together": TIMED,
            "without": without,
            "without_events_per_s": apart,
            "first": first,
            "first_bytes": first_checkpoint.bytes,
            "first_took_ms": first_checkpoint.took_us as f64 / 1e3,
            "later": later,
            "later_checkpoints": last.completed - first_checkpoint.completed,
            "last_bytes": last.bytes,
            "last_took_ms": last.took_us as f64 / 1e3,
            "recovery": self.recovery,
            "went_on": from > Cycle::NONE,
            "resumed_ms": resumed_us as f64 / 1e3,
            "first_output_ms": first_output_us as f64 / 1e3,
            "slices_left_then": left,
            "all_read_ms": all_read_us as f64 / 1e3,
            "rate_ratio": ratio(&later, "events_per_s"),
            "longest_ratio": ratio(&later, "longest_ms"),
            "cpu_ratio": ratio(&later, "cpu_us_per_event"),
        });
        match report {
            Value::Object(report) => Ok(report),
            _ => unreachable!("an object was written"),
        }
    }
}
