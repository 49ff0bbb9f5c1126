//! Sinks of a job: checked before it begins, and opened when it does.

use super::{OpenedJob, open_error};
use crate::error::StartError;
use crate::runtime::{
    commit::call_sink,
    plan::{GraphParts, Plan},
};
use crate::sink::why_not_resumable;
use std::sync::Arc;
use tidemill_env::sync::Mutex;
use tidemill_types::job::DEAD_LETTER;

/// Refuses sinks that a job without replay cannot resume with.
pub(super) fn go_on(plan: &Plan, parts: &GraphParts) -> Result<(), StartError> {
    let names = plan.stages.iter().map(|stage| stage.name.as_str());
    let letters = (DEAD_LETTER, &parts.dead_letter);
    for (name, sink) in names.zip(&parts.sinks).chain([letters]) {
        if let Some(message) = sink.as_deref().and_then(why_not_resumable) {
            return Err(open_error(name, message.to_owned()));
        }
    }
    Ok(())
}

/// Checks that all sinks can be opened, and changes nothing.
pub(super) fn check(plan: &Plan, parts: &mut GraphParts) -> Result<(), StartError> {
    for (id, sink) in plan.ids().zip(&mut parts.sinks).filter(|(id, _)| plan.is_here(*id)) {
        let Some(sink) = sink else { continue };
        call_sink(|| sink.check()).map_err(|error| StartError::of_part(&plan[id].name, error))?;
    }
    match &mut parts.dead_letter {
        Some(sink) => {
            call_sink(|| sink.check()).map_err(|error| StartError::of_part(DEAD_LETTER, error))
        }
        None => Ok(()),
    }
}

impl OpenedJob {
    pub(super) fn open_sinks(&mut self, plan: &Plan, parts: GraphParts) -> Result<(), StartError> {
        let ledger_last = self.recorded.last();
        // Before the first cycle is in the ledger no sink has committed any: what a sink holds then
        // is of an earlier job, and a crash came before it was replaced.
        let resume = ledger_last > self.recorded.began;
        for (id, sink) in plan.ids().zip(parts.sinks) {
            let Some(mut sink) = sink.filter(|_| plan.is_here(id)) else { continue };
            let name = &plan[id].name;
            let opened = call_sink(|| Ok((sink.open(resume)?, sink.has_begun())));
            let (held, begun) = opened.map_err(|error| StartError::of_part(name, error))?;
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
            let held = call_sink(|| sink.open(resume));
            let held = held.map_err(|error| StartError::of_part(DEAD_LETTER, error))?;
            self.dead_letter_held = held;
        }
        Ok(())
    }
}
