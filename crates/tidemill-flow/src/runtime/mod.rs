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
mod by_key;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod connect;
pub(crate) mod credit;
pub(crate) mod cuts;
pub(crate) mod expiry;
pub(crate) mod followed;
pub(crate) mod growth;
pub(crate) mod guarded;
pub(crate) mod hand_over;
pub(crate) mod held;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod lane;
pub(crate) mod layout;
pub(crate) mod ledger;
pub(crate) mod looks;
pub(crate) mod needed;
pub(crate) mod pacer;
pub(crate) mod peer;
pub(crate) mod peer_reader;
pub(crate) mod peer_writer;
pub(crate) mod plan;
pub(crate) mod readers;
pub(crate) mod restore;
pub(crate) mod said;
pub(crate) mod send;
pub(crate) mod shed;
pub(crate) mod sink_lane;
mod small;
pub(crate) mod source_lane;
pub(crate) mod stage_lane;
pub(crate) mod worker;
mod writing;

use crate::error::JobError;
use crate::operator::TooMuch;
use guarded::Blamed;
use job::Job;
use lane::{After, Core, Lane};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_state::UnreadableState;
use tidemill_types::{Cycle, StageIx};

/// Runs a lane once and decides what becomes of it.
pub(crate) fn run(job: &Arc<Job>, lane: &Arc<Lane>) {
    let mut slot = lane.core.lock().expect("a panic while held ends the job");
    let Some(core) = slot.as_mut() else {
        drop(slot);
        return job.settle(lane, After::Done);
    };
    // Operators are guarded where they are called; this guards sources, sinks and the engine.
    let outcome = catch_unwind(AssertUnwindSafe(|| match core {
        Core::Source(source) => source.run(job, lane),
        Core::Stage(operator) => operator.run(job, lane),
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

/// What unwound a thread, and whether that was a panic: an error may come that way too.
pub(crate) fn unwound(panic: &(dyn Any + Send)) -> (String, bool) {
    let not_read = panic.downcast_ref::<UnreadableState>().map(|it| &it.0);
    let error = not_read.or_else(|| panic.downcast_ref::<TooMuch>().map(|it| &it.0));
    error.map_or_else(|| (panic_message(panic), true), |message| (message.clone(), false))
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<Blamed>().map(|it| it.message.clone()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

impl Job {
    /// An error of a stage.
    pub(crate) fn error_at(&self, stage: StageIx, cycle: Cycle, message: String) -> JobError {
        self.error_of(&self.plan[stage].name, cycle, message)
    }

    /// An error of a named part of the job.
    pub(crate) fn error_of(&self, name: &str, cycle: Cycle, message: String) -> JobError {
        let part = name.to_owned();
        JobError { part, slice: None, cycle, row: None, message, panicked: false }
    }
}
