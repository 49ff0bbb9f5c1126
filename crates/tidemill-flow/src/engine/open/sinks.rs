//! Sinks of a job: looked at before it begins, and opened when it does.

use super::{Opened, open_error};
use crate::error::StartError;
use crate::runtime::{
    commit::guarded,
    plan::{Parts, Plan},
};
use crate::sink::{SinkError, is_lost_to_going_on};
use std::sync::Arc;
use tidemill_env::sync::Mutex;
use tidemill_types::job::DEAD_LETTER;

/// Why a sink could not be opened.
fn sink_error(name: &str, error: SinkError) -> StartError {
    match error.passes {
        true => StartError::Away { message: format!("`{name}`: {}", error.message) },
        false => open_error(name, error.message),
    }
}

/// Refuses sinks with which a job that does nothing twice cannot go on.
pub(super) fn go_on(plan: &Plan, parts: &Parts) -> Result<(), StartError> {
    let names = plan.stages.iter().map(|stage| stage.name.as_str());
    let letters = (DEAD_LETTER, &parts.dead_letter);
    for (name, sink) in names.zip(&parts.sinks).chain([letters]) {
        if let Some(message) = sink.as_deref().and_then(is_lost_to_going_on) {
            return Err(open_error(name, message.to_owned()));
        }
    }
    Ok(())
}

/// Whether all sinks can be opened, as far as that can be known; nothing of them is changed.
pub(super) fn check(plan: &Plan, parts: &mut Parts) -> Result<(), StartError> {
    for (id, sink) in plan.ids().zip(&mut parts.sinks).filter(|(id, _)| plan.is_here(*id)) {
        let Some(sink) = sink else { continue };
        guarded(|| sink.check()).map_err(|error| sink_error(&plan[id].name, error))?;
    }
    match &mut parts.dead_letter {
        Some(sink) => guarded(|| sink.check()).map_err(|error| sink_error(DEAD_LETTER, error)),
        None => Ok(()),
    }
}

impl Opened {
    pub(super) fn open_sinks(&mut self, plan: &Plan, parts: Parts) -> Result<(), StartError> {
        let ledger_last = self.recorded.last();
        // Before the first cycle is in the ledger no sink has committed any: what a sink holds then
        // is of an earlier job, and a crash came before it was replaced.
        let resume = ledger_last > self.recorded.began;
        for (id, sink) in plan.ids().zip(parts.sinks) {
            let Some(mut sink) = sink.filter(|_| plan.is_here(id)) else { continue };
            let name = &plan[id].name;
            let opened = guarded(|| Ok((sink.open(resume)?, sink.has_begun())));
            let (held, begun) = opened.map_err(|error| sink_error(name, error))?;
            // A cycle is in the ledger before any of it is written.
            let newest = held.max(begun);
            if newest > ledger_last {
                let message = format!(
                    "it holds cycle {newest}, but the ledger ends at {ledger_last}: they do not \
                     belong together"
                );
                return Err(open_error(name, message));
            }
            self.sinks.push((id, Arc::new(Mutex::new(sink)), held));
        }
        self.dead_letter = parts.dead_letter;
        if let Some(sink) = &mut self.dead_letter {
            let held = guarded(|| sink.open(resume));
            let held = held.map_err(|error| sink_error(DEAD_LETTER, error))?;
            self.dead_letter_held = held;
        }
        Ok(())
    }
}
