//! The thread that makes the checkpoints of a job.

use super::{
    CheckpointRequest, Checkpointer, PendingCheckpoint, SlicePiece, interval::CheckpointInterval,
    uncoordinated,
};
use crate::error::AskError;
use crate::progress::Stalled;
use crate::runtime::{
    job::Job,
    plan::{StagePlan, Work},
};
use std::time::Duration;
use tidemill_checkpoints::{CheckpointError, Checkpoints, Manifest, SavedSink, SavedStage};
use tidemill_env::sync::{MutexGuard, PoisonError, atomic::Ordering};
use tidemill_types::{CheckpointNumber, Cycle, Micros, StageIx, job::Every};

/// Longest sleep of the thread without work.
const SLEEP_MAX: Duration = Duration::from_millis(200);
/// Sources that have nothing more to read cut the cycle of a checkpoint after so long, if it has
/// anything to save: records may come in a second or in a week, and be gone from where they came
/// from by then.
const SILENCE_US: u64 = 200_000;
/// The pause after a failed checkpoint, in microseconds.
const AGAIN_AFTER_US: u64 = 1_000_000;

/// Runs the thread: makes a checkpoint at each interval and on request, until the job is over.
pub(crate) fn run(job: &Job, mut checkpoints: Checkpoints, every: &Every) {
    let _closes = Closes(&job.checkpointer);
    make_until_over(job, &mut checkpoints, CheckpointInterval::new(every));
}

/// Closes the queue of requests when the thread ends in any way.
struct Closes<'a>(&'a Checkpointer);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        let mut arrived = self.0.arrived();
        arrived.is_closed = true;
        arrived.requests.clear();
        arrived.keeps.clear();
    }
}

fn make_until_over(job: &Job, checkpoints: &mut Checkpoints, mut pace: CheckpointInterval) {
    let checkpointer = &job.checkpointer;
    let mut due_us = job.now_us().saturating_add(pace.every_us());
    while let Some(is_kept) = wait_until_due(job, checkpoints, due_us) {
        let start_us = job.now_us();
        let alone = checkpointer.uncoordinated.as_ref().filter(|_| !is_kept);
        let made = match alone {
            Some(alone) if alone.is_to_stop() => uncoordinated::save_last(job, checkpoints, alone),
            Some(alone) => uncoordinated::save(job, checkpoints, alone),
            None if is_kept => make(job, checkpoints, Urgency::Now),
            None => make(job, checkpoints, Urgency::No),
        };
        let Some(CompletedCheckpoint { at, bytes }) = made else { return };
        keep(checkpointer, checkpoints);
        let took_us = job.now_us() - start_us;
        pace.completed(took_us, alone.is_some() && checkpointer.arrived().gate.is_rung());
        due_us = start_us.saturating_add(pace.every_us());
        if let Some(alone) = &checkpointer.uncoordinated {
            alone.set_every(pace.every_us());
        }
        let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        progress.completed += 1;
        progress.cycle = at;
        progress.bytes = bytes;
        progress.took_us = took_us;
        progress.every_us = pace.shown_us();
        progress.failure = None;
    }
}

/// Waits until a checkpoint is due; returns true if it is to be kept. None: the job is over.
fn wait_until_due(job: &Job, checkpoints: &mut Checkpoints, due_us: u64) -> Option<bool> {
    let checkpointer = &job.checkpointer;
    loop {
        take_requests(checkpointer, checkpoints);
        let (now_us, arrived) = (job.now_us(), checkpointer.arrived());
        let is_kept = !arrived.keeps.is_empty();
        let is_due = match &checkpointer.uncoordinated {
            Some(alone) if alone.is_to_stop() => !alone.is_left(),
            Some(alone) => arrived.gate.is_rung() || (now_us >= due_us && alone.has_unsaved()),
            None => now_us >= due_us,
        };
        if is_due || is_kept {
            return Some(is_kept);
        }
        if is_over(job) {
            return None;
        }
        if arrived.requests.is_empty() {
            let left = Duration::from_micros(due_us.saturating_sub(now_us)).min(SLEEP_MAX);
            let left = if left.is_zero() { SLEEP_MAX } else { left };
            let waited = checkpointer.wakeup.wait_timeout(arrived, left);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Takes the requests: deletes at once, and queues those that keep the next checkpoint. Returns
/// true if a checkpoint was deleted.
fn take_requests(checkpointer: &Checkpointer, checkpoints: &mut Checkpoints) -> bool {
    let asked = std::mem::take(&mut checkpointer.arrived().requests);
    let mut has_deleted = false;
    for asked in asked {
        match asked {
            CheckpointRequest::Keep(name, sender) => {
                checkpointer.arrived().keeps.push_back((name, sender))
            }
            CheckpointRequest::Delete(number, sender) => {
                let deleted = checkpoints.delete(number);
                has_deleted |= deleted.is_ok();
                checkpointer.show(checkpoints);
                // Who asked may have gone.
                let _gone = sender.send(deleted);
            }
        }
    }
    has_deleted
}

/// As [`take_requests`], while no checkpoint can be completed: requests to keep one fail.
fn take_requests_meanwhile(
    checkpointer: &Checkpointer,
    checkpoints: &mut Checkpoints,
    error: &AskError,
) -> bool {
    let has_deleted = take_requests(checkpointer, checkpoints);
    let keeps = std::mem::take(&mut checkpointer.arrived().keeps);
    for (_, sender) in keeps {
        // Who asked may have gone.
        let _gone = sender.send(Err(error.clone()));
    }
    has_deleted
}

/// Keeps a completed checkpoint for the first request. Each request gets a checkpoint of its own,
/// so that deleting one never deletes that of another.
fn keep(checkpointer: &Checkpointer, checkpoints: &mut Checkpoints) {
    let first = checkpointer.arrived().keeps.pop_front();
    let kept = first
        .map(|(name, sender)| (checkpoints.keep_newest(&name).map_err(AskError::from), sender));
    // Who is answered finds it among all.
    checkpointer.show(checkpoints);
    if let Some((kept, sender)) = kept {
        // Who asked may have gone.
        let _gone = sender.send(kept);
    }
}

fn is_over(job: &Job) -> bool {
    job.over.load(Ordering::Acquire)
}

/// A checkpoint that is complete.
pub(super) struct CompletedCheckpoint {
    /// Its cycle.
    pub(super) at: Cycle,
    /// Bytes of its changes.
    pub(super) bytes: u64,
}

/// The urgency of the cycle of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It may for a moment.
    No,
    /// Sources that have nothing to read cut it all the same.
    Now,
    /// As [`Self::Now`]; the job stops after it.
    Last,
}

/// Picks the cycle: one that no source has begun, so that no lane has processed it.
pub(super) fn begin(job: &Job, is_whole: bool, urgency: Urgency) -> Cycle {
    let checkpointer = &job.checkpointer;
    let mut arrived = checkpointer.arrived();
    arrived.watermarks.clear();
    arrived.sinks.clear();
    arrived.slices = 0;
    arrived.sources.clear();
    drop(arrived);
    checkpointer.is_whole.store(is_whole, Ordering::Release);
    // Beginning a cycle takes the pacer's lock.
    let mut pacer = job.pacer.lock().expect("no panic while held");
    let at = pacer.begun().next();
    checkpointer.at.store(at.0, Ordering::Release);
    if urgency == Urgency::Last {
        pacer.stop_at(at);
    }
    drop(pacer);
    if urgency != Urgency::No {
        want(job, at);
    }
    at
}

/// Returns true if there were cycles since the newest checkpoint. Under `at-most-once` the slices
/// know that themselves.
fn has_unsaved(job: &Job, at: Cycle) -> bool {
    let newest = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).cycle;
    job.checkpointer.uncoordinated.is_none() && at > newest.next()
}

/// Sources do not wait until the time of this cycle is up.
fn want(job: &Job, at: Cycle) {
    job.pacer.lock().expect("no panic while held").want(at);
    job.wake_sources();
}

/// Makes a checkpoint of all slices at one cycle. None: the job was over before.
pub(super) fn make(
    job: &Job,
    checkpoints: &mut Checkpoints,
    urgency: Urgency,
) -> Option<CompletedCheckpoint> {
    let at = begin(job, true, urgency);
    let number = until_written(job, checkpoints, Checkpoints::begin)?;
    let is_frozen = |arrived: &mut PendingCheckpoint| {
        arrived.expected(job, at).is_some_and(|it| arrived.slices >= it)
            && job.committer.is_durable(at)
    };
    let bytes = put_until(job, checkpoints, at, is_frozen)?;
    complete(job, checkpoints, (number, at))?;
    Some(CompletedCheckpoint { at, bytes })
}

/// Puts the pieces that come, until all are there; gives back their bytes. None: the job was over
/// before.
pub(super) fn put_until(
    job: &Job,
    checkpoints: &mut Checkpoints,
    at: Cycle,
    mut is_all: impl FnMut(&mut PendingCheckpoint) -> bool,
) -> Option<u64> {
    let mut bytes = 0;
    let (mut is_wanted, mut silent_us) = (false, job.now_us().saturating_add(SILENCE_US));
    let checkpointer = &job.checkpointer;
    loop {
        let mut arrived = checkpointer.arrived();
        if is_over(job) {
            return None;
        }
        if let Some(SlicePiece { slice, mut delta }) = arrived.pieces.pop_front() {
            drop(arrived);
            checkpointer.waiting.fetch_sub(delta.bytes(), Ordering::Relaxed);
            match checkpoints.put_changes(slice, &mut delta) {
                Ok(run_bytes) => bytes += run_bytes,
                Err(error) => {
                    job.fail(job.error_at(slice.stage, at, format!("it cannot be saved: {error}")));
                    return None;
                }
            }
            checkpointer.give_back(delta);
            // What could not be written is kept. No further piece is taken until it is: those that
            // wait are bounded, and lanes write nothing more out.
            until_written(job, checkpoints, Checkpoints::flush_if_long)?;
        } else if is_all(&mut arrived) {
            return Some(bytes);
        } else if let Some(stalled) = arrived.is_awaited().then(|| job.stalls.first()).flatten() {
            // That may be for days, and whoever asks has given up long before.
            drop(arrived);
            let Stalled { part, why, .. } = stalled;
            take_requests_meanwhile(checkpointer, checkpoints, &AskError::Stalled { part, why });
        } else if !is_wanted && !arrived.requests.is_empty() {
            // Whoever asks for something waits for this checkpoint first.
            is_wanted = true;
            drop(arrived);
            want(job, at);
        } else if job.now_us() >= silent_us {
            silent_us = u64::MAX;
            drop(arrived);
            if has_unsaved(job, at) {
                want(job, at);
            }
        } else {
            checkpointer.wait(arrived);
        }
    }
}

/// Writes the manifest of a checkpoint. None: the job was over before.
pub(super) fn complete(
    job: &Job,
    checkpoints: &mut Checkpoints,
    (number, at): (CheckpointNumber, Cycle),
) -> Option<()> {
    let manifest = manifest(job, checkpoints, (number, at));
    until_written(job, checkpoints, |it| it.complete(manifest.clone()))?;
    job.checkpointer.at.store(u64::MAX, Ordering::Release);
    Some(())
}

/// Repeats a write until it succeeds, or the job is over. Requests are answered meanwhile: a
/// deletion may make room.
pub(super) fn until_written<T>(
    job: &Job,
    checkpoints: &mut Checkpoints,
    mut write: impl FnMut(&mut Checkpoints) -> Result<T, CheckpointError>,
) -> Option<T> {
    loop {
        let error = match write(checkpoints) {
            Ok(written) => return Some(written),
            Err(error) => error,
        };
        note(job, &error);
        let until_us = job.now_us() + AGAIN_AFTER_US;
        while job.now_us() < until_us {
            if take_requests_meanwhile(&job.checkpointer, checkpoints, &error.clone().into()) {
                break;
            }
            if is_over(job) {
                return None;
            }
            let arrived = job.checkpointer.arrived();
            if arrived.requests.is_empty() {
                job.checkpointer.wait(arrived);
            }
        }
    }
}

/// Notes and logs that a checkpoint could not be written.
fn note(job: &Job, error: &CheckpointError) {
    let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
    if progress.failure.is_none() {
        tracing::warn!(job = job.plan.name, %error, "a checkpoint cannot be written; trying again");
    }
    progress.failures += 1;
    progress.failure = Some(error.to_string());
}

fn manifest(
    job: &Job,
    checkpoints: &Checkpoints,
    (number, at): (CheckpointNumber, Cycle),
) -> Manifest {
    let arrived = job.checkpointer.arrived();
    let operator = |(stage, plan): (StageIx, &StagePlan)| {
        let Work::Operator { factory } = &plan.work else { return None };
        Some(SavedStage {
            name: plan.name.clone(),
            does: factory.does(),
            watermark: arrived.watermarks.get(&stage).copied().unwrap_or(Micros::MAX),
            slices: checkpoints.chains(stage, plan.slices),
        })
    };
    let sink = |(stage, plan): (StageIx, &StagePlan)| {
        // One that does not come to this cycle has ended before.
        let ended_with = || Cycle(plan.count.last_rows.load(Ordering::Acquire));
        let last = arrived.sinks.get(&stage).copied().unwrap_or_else(ended_with);
        let is_sink = matches!(plan.work, Work::Sink);
        is_sink.then(|| SavedSink { name: plan.name.clone(), last })
    };
    let ended = arrived.ended.values().filter(|(cycle, _)| *cycle < at).map(|(_, saved)| saved);
    Manifest {
        number,
        made: job.wall(),
        cycle: at,
        time: arrived.time,
        sources: ended.chain(arrived.sources.values()).cloned().collect(),
        stages: job.plan.indexed().filter_map(operator).collect(),
        sinks: job.plan.indexed().filter_map(sink).collect(),
        letters: Cycle(job.letters_durable.load(Ordering::Acquire)).min(at),
        coordinated: job.checkpointer.is_whole_at(at),
    }
}

impl Checkpointer {
    fn wait(&self, arrived: MutexGuard<'_, PendingCheckpoint>) {
        drop(self.wakeup.wait_timeout(arrived, SLEEP_MAX).unwrap_or_else(PoisonError::into_inner));
    }
}
