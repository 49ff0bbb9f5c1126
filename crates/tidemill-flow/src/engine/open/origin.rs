//! The point a job resumes from: its start, or a checkpoint that fits its ledger and its sinks.

use super::{OpenedJob, open_error, unopened};
use crate::engine::RunOptions;
use crate::error::StartError;
use crate::runtime::{
    ledger::{Beginning, Opening, stages},
    plan::{Plan, Work},
    restore::{self, ResumePoint},
    sink_lane::SharedSink,
};
use std::sync::Arc;
use tidemill_checkpoints::{CheckpointError, Checkpoints, Manifest};
use tidemill_env::World;
use tidemill_types::{
    CheckpointNumber, Cycle, Micros, StageIx,
    job::{DEAD_LETTER, Delivery},
};

/// The requested point to resume from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumeFrom {
    /// Nothing: it begins at its start.
    Start,
    /// The newest checkpoint, in the same life.
    Newest,
    /// A checkpoint by its number, in the same life.
    Number(CheckpointNumber),
    /// A checkpoint by its number, with which a new life begins.
    Anew(CheckpointNumber),
}

fn checkpoint_error(message: String) -> StartError {
    StartError::Checkpoint { message }
}

/// The error of checkpoints that could not be read or written; an unreachable backend may answer
/// later.
pub(super) fn refused(error: CheckpointError) -> StartError {
    match error {
        CheckpointError::Backend(error) => error.into(),
        error => checkpoint_error(error.to_string()),
    }
}

/// Opens the checkpoints of the job, with the point to resume from.
pub(super) fn open_checkpoints(
    plan: &Plan,
    options: &RunOptions,
) -> Result<Option<(Checkpoints, ResumeFrom)>, StartError> {
    let Some(to) = &options.checkpoint else { return Ok(None) };
    let refuse = |message: &str| Err(checkpoint_error(message.to_owned()));
    if plan.delivery == Delivery::AtLeastOnce || options.data.is_none() {
        return refuse(
            "only a job with a data folder and the delivery `exactly-once` or `at-most-once` has them",
        );
    }
    if options.processes.addresses.len() > 1 {
        return refuse("a job of several processes cannot have them yet");
    }
    for stage in &plan.stages {
        if let Work::Operator { factory } = &stage.work
            && let Some(why) = factory.cannot_save()
        {
            return Err(open_error(&stage.name, format!("without checkpoints only: {why}")));
        }
    }
    let from = match (options.resume, to.from) {
        (false, None) => ResumeFrom::Start,
        (false, Some(number)) => ResumeFrom::Anew(number),
        (true, None) => ResumeFrom::Newest,
        (true, Some(number)) => ResumeFrom::Number(number),
    };
    let checkpoints = Checkpoints::open(Arc::clone(&to.backend)).map_err(refused)?;
    for (checkpoint, error) in checkpoints.damaged() {
        tracing::warn!(job = plan.name, checkpoint = checkpoint.0, %error, "a checkpoint is damaged");
    }
    if from == ResumeFrom::Newest
        && let Err(error) = checkpoints.newest_is_whole()
    {
        let message = format!(
            "{error}; go on from another one, or delete it: the job then goes on from the newest of \
             those that were kept, if its ledger and its sinks fit"
        );
        return Err(checkpoint_error(message));
    }
    Ok(Some((checkpoints, from)))
}

/// Decides the opening of the ledger. A job that would be refused is refused before the ledger is
/// touched.
pub(super) fn opening(
    plan: &Plan,
    from: Option<&(Checkpoints, ResumeFrom)>,
    options: &RunOptions,
) -> Result<Opening, StartError> {
    let life = options.life;
    match from {
        Some((checkpoints, ResumeFrom::Anew(number))) => {
            let manifest = of_number(checkpoints, *number)?;
            fitting(plan, manifest)?;
            let (after, time) = (manifest.cycle, manifest.time);
            Ok(Opening::Anew(Beginning { after, time, life }))
        }
        _ if options.resume => Ok(Opening::Resume),
        _ => Ok(Opening::Anew(Beginning { life, ..Beginning::default() })),
    }
}

fn of_number(
    checkpoints: &Checkpoints,
    number: CheckpointNumber,
) -> Result<&Arc<Manifest>, StartError> {
    checkpoints.get(number).map_err(|error| checkpoint_error(error.to_string()))
}

/// A checkpoint that fits the job, as it is now.
fn fitting(plan: &Plan, manifest: &Manifest) -> Result<ResumePoint, StartError> {
    ResumePoint::new(plan, manifest).map_err(|why| {
        checkpoint_error(format!(
            "the job cannot go on from checkpoint {}: {why}; undo that change, or begin anew, \
             without resuming",
            manifest.number
        ))
    })
}

impl OpenedJob {
    /// Goes on from a checkpoint, if there is one to go on from.
    pub(super) fn go_on(
        &mut self,
        plan: &Plan,
        mut checkpoints: Checkpoints,
        from: ResumeFrom,
    ) -> Result<(), StartError> {
        let stage = |name: &str| restore::stage_of(plan, name);
        let chosen = match from {
            ResumeFrom::Start => None,
            ResumeFrom::Newest => self.newest(plan, &checkpoints)?,
            ResumeFrom::Number(number) | ResumeFrom::Anew(number) => {
                let manifest = of_number(&checkpoints, number)?;
                let before = fitting(plan, manifest)?.since(self.recorded.began);
                if let Some(why) = self.lacks(plan, &before) {
                    let message = format!("the job cannot go on from checkpoint {number}: {why}");
                    return Err(checkpoint_error(message));
                }
                Some((number, before))
            }
        };
        if let Some((number, before)) = chosen {
            let found = match from {
                ResumeFrom::Anew(_) => checkpoints.begin_from(number, stage),
                _ => checkpoints.go_on(number, stage),
            };
            found.map_err(|error| checkpoint_error(error.to_string()))?;
            self.before = before;
        }
        self.checkpoints = Some(checkpoints);
        Ok(())
    }

    /// The newest checkpoint that fits the ledger and the sinks, with its number.
    fn newest(
        &self,
        plan: &Plan,
        checkpoints: &Checkpoints,
    ) -> Result<Option<(CheckpointNumber, ResumePoint)>, StartError> {
        for (info, manifest) in checkpoints.list().into_iter().rev() {
            let lacking = if self.is_of_ledger(manifest.cycle, manifest.time) {
                let before = fitting(plan, &manifest)?.since(self.recorded.began);
                match self.lacks(plan, &before) {
                    None => return Ok(Some((info.number, before))),
                    Some(why) => why,
                }
            } else if info.newest {
                OF_EARLIER_LIFE.to_owned()
            } else {
                continue;
            };
            let (job, number) = (&plan.name, info.number);
            tracing::warn!(job, "checkpoint {number} is not gone on from: {lacking}");
        }
        Ok(None)
    }

    /// Checks that the ledger has every cycle after the point to resume from.
    ///
    /// # Errors
    /// The ledger begins later: the job can be repeated neither from its start nor from a
    /// checkpoint.
    pub(super) fn begins_where_the_ledger_does(
        &self,
        options: &RunOptions,
    ) -> Result<(), StartError> {
        let after = self.recorded.after;
        if self.before.cycle >= after {
            return Ok(());
        }
        let folder = options.data.as_deref().unwrap_or_else(|| "".as_ref());
        let message = match &options.checkpoint {
            Some(_) => format!(
                "it begins after cycle {after}, and there is no checkpoint from then on that the \
                 sinks fit: put back what is missing, or begin anew, without resuming"
            ),
            None => format!(
                "it begins after cycle {after}, so that the job goes on from a checkpoint only: \
                 give its file the `checkpoint` that it had, or begin anew, without resuming"
            ),
        };
        Err(StartError::Ledger { path: folder.join("ledger").display().to_string(), message })
    }

    /// Checks the notes about sources and stages, and writes them for the next resume.
    ///
    /// # Errors
    /// Cycles of the ledger are repeated, and the job is not the one that made them.
    pub(super) fn check_stages(
        &self,
        plan: &Plan,
        world: &World,
        options: &RunOptions,
    ) -> Result<(), StartError> {
        let Some(folder) = options.data.as_deref().filter(|_| self.ledger.is_some()) else {
            return Ok(());
        };
        // Where no cycle is done again, there is nothing to differ from.
        let after = self.before.cycle.max(self.recorded.began);
        let is_again = !self.skips && self.recorded.last() > after;
        let was = match stages::read(&*world.disk, folder) {
            Err(error) if is_again => return Err(unopened(error)),
            was => was.unwrap_or_default(),
        };
        let now = restore::stage_notes(plan);
        if let Some(was) = was.as_ref().filter(|_| is_again) {
            let has_checkpoint = self.before.cycle > Cycle::NONE;
            let again = match has_checkpoint {
                true => format!("the job does again what comes after cycle {after}"),
                false => "without a checkpoint the job does all of it again".to_owned(),
            };
            let holds =
                |stage| self.sinks.iter().any(|(sink, _, held)| *sink == stage && *held > after);
            let is_as_before = restore::check_notes(plan, was, has_checkpoint)
                .and_then(|()| restore::check_feeds(plan, (was, &now), holds));
            is_as_before.map_err(|why| StartError::Ledger {
                path: folder.join("ledger").display().to_string(),
                message: format!(
                    "{again}, and is not the one that was begun: {why}; undo that change, or begin \
                     anew, without resuming"
                ),
            })?;
        }
        if was.as_ref() != Some(&now) {
            stages::write(&*world.disk, folder, now).map_err(unopened)?;
        }
        Ok(())
    }

    /// The ledger may be that of a later life: its times tell.
    fn is_of_ledger(&self, cycle: Cycle, time: Micros) -> bool {
        self.recorded.time(cycle) == Some(time)
    }

    /// The cycles before a checkpoint that a sink or the ledger lacks, in words.
    fn lacks(&self, plan: &Plan, before: &ResumePoint) -> Option<String> {
        // A sink may lack what a later life has not written yet: that is not the reason.
        if !self.is_of_ledger(before.cycle, before.time) {
            return Some(OF_EARLIER_LIFE.to_owned());
        }
        if self.skips {
            // What a sink lacks is not made again.
            return None;
        }
        let lacks = |(stage, sink, held): &&(StageIx, SharedSink, Cycle)| {
            *held < before.sink(*stage) && !sink.lock().is_ok_and(|sink| sink.forgets())
        };
        let lacking = self.sinks.iter().find(lacks);
        let lacks_letters = self.dead_letter_held < before.letters
            && !self.dead_letter.as_ref().is_none_or(|sink| sink.forgets());
        let of_letters = lacks_letters.then_some((DEAD_LETTER, &self.dead_letter_held));
        let of_sink = lacking.map(|(stage, _, held)| (plan[*stage].name.as_str(), held));
        of_sink.or(of_letters).map(|(sink, held)| {
            let cycle = before.cycle;
            format!("sink `{sink}` ends at cycle {held}, and lacks rows up to {cycle}")
        })
    }
}

const OF_EARLIER_LIFE: &str = "it is of an earlier run of the job, whose ledger is gone; the job can \
                               begin anew with it, without resuming";
