//! The parts of a running job.
//!
//! ```text
//! engine ─▶ plan ─▶ layout ─▶ lanes ┬ source_lane ─ pacer, cuts ─▶ commit ─▶ ledger
//!                                   ├ stage_lane ── inbox, send, credit
//!                                   └ sink_lane ──▶ commit ─▶ sinks
//! restore ─▶ lanes of a job that goes on ── writing ─▶ checkpoint ─▶ backend
//! ```

pub(crate) mod blocks;
pub(crate) mod budget;
pub(crate) mod checked_source;
pub(crate) mod checkpoint;
mod checkpoint_writer;
mod coalescer;
pub(crate) mod commit;
pub(crate) mod commit_followers;
pub(crate) mod connect;
pub(crate) mod credit;
pub(crate) mod cuts;
pub(crate) mod expiry;
pub(crate) mod growth;
pub(crate) mod hand_over;
pub(crate) mod inbox;
pub(crate) mod job;
mod key_reads;
pub(crate) mod lane;
pub(crate) mod lane_output;
pub(crate) mod layout;
pub(crate) mod ledger;
pub(crate) mod operator_lane;
pub(crate) mod pacer;
pub(crate) mod panic_guard;
pub(crate) mod peer;
pub(crate) mod peer_reader;
pub(crate) mod peer_writer;
pub(crate) mod plan;
pub(crate) mod read_retry;
pub(crate) mod readers;
pub(crate) mod restore;
pub(crate) mod shedding;
pub(crate) mod sink_lane;
pub(crate) mod slice_slot;
pub(crate) mod snapshots;
pub(crate) mod source_lane;
pub(crate) mod worker;

use crate::error::{JobError, PartError};
use crate::operator::OutputTooLarge;
use job::Job;
use lane::{After, Core, Lane};
use panic_guard::BlamedPanic;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_state::UnreadableState;
use tidemill_types::{Cycle, StageIx};

/// Runs a lane once, and takes its next step.
pub(crate) fn run(job: &Arc<Job>, lane: &Arc<Lane>) {
    let mut slot = lane.core.lock().expect("a panic while held ends the job");
    let Some(core) = slot.as_mut() else {
        drop(slot);
        return job.settle(lane, After::Done);
    };
    // Operators are guarded where they are called; this guards sources, sinks and the engine.
    let outcome = catch_unwind(AssertUnwindSafe(|| match core {
        Core::Source(source) => source.run(job, lane),
        Core::Operator(operator) => operator.run(job, lane),
        Core::Sink(sink) => sink.run(job, lane),
    }));
    let after = match outcome {
        Ok(Ok(after)) => after,
        Ok(Err(error)) => return job.fail(error),
        Err(panic) => {
            let cycle = Cycle(lane.state.lock().map_or(0, |state| state.next().0));
            let (message, panicked) = unwound(&*panic);
            let error = job.error_at(lane.stage, cycle, message);
            return job.fail(JobError { panicked, ..error });
        }
    };
    match after {
        After::HandOver => {
            let core = slot.take().expect("it was there a moment ago");
            drop(slot);
            // The lane is closed last: a layout whose lanes are all closed may be dropped.
            hand_over::take(job, lane, core);
            job.settle(lane, after);
        }
        After::Done => {
            drop(slot);
            job.settle(lane, after);
            job.lane_done(lane);
        }
        After::Ready | After::ReadyOrAt(_) | After::Wait | After::At(_) => {
            drop(slot);
            job.settle(lane, after);
        }
    }
}

/// The message that unwound a thread, and true if it was a panic: an error may come that way too.
pub(crate) fn unwound(panic: &(dyn Any + Send)) -> (String, bool) {
    let not_read = panic.downcast_ref::<UnreadableState>().map(|it| &it.0);
    let error = not_read.or_else(|| panic.downcast_ref::<OutputTooLarge>().map(|it| &it.0));
    error.map_or_else(|| (panic_message(panic), true), |message| (message.clone(), false))
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<BlamedPanic>().map(|it| it.message.clone()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

impl Job {
    /// An error of a stage.
    pub(crate) fn error_at(
        &self,
        stage: StageIx,
        cycle: Cycle,
        error: impl Into<PartError>,
    ) -> JobError {
        self.error_of(&self.plan[stage].name, cycle, error)
    }

    /// An error of a named part of the job.
    pub(crate) fn error_of(
        &self,
        name: &str,
        cycle: Cycle,
        error: impl Into<PartError>,
    ) -> JobError {
        let PartError { kind, message } = error.into();
        let part = name.to_owned();
        JobError { part, slice: None, cycle, row: None, kind, message, panicked: false }
    }
}
