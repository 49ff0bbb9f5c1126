//! The beginning of a life, and the check that it began there.

use super::{CHECKPOINTS, FOLDER, KnownState, Life, LifePlan, LivesOutcome, SimJob, lock};
use crate::journal_sink::SinkMemory;
use std::{path::Path, sync::Arc};
use tidemill_checkpoints::{IndexedBackend, IndexedOptions};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, JobHandle, RunOptions};
use tidemill_types::{CheckpointNumber, Cycle};

/// A checkpoint by its number, with its cycle.
type Checkpoint = (CheckpointNumber, Cycle);

/// The beginning of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeOrigin {
    /// Where the one before ended, or with the newest checkpoint.
    Newest,
    /// With a checkpoint that was kept.
    Kept(Checkpoint),
    /// With one that was kept, and with a new ledger and new output: a new life of the job.
    Anew(Checkpoint),
}

impl LifeOrigin {
    fn checkpoint(self) -> Option<Checkpoint> {
        match self {
            Self::Newest => None,
            Self::Kept(checkpoint) | Self::Anew(checkpoint) => Some(checkpoint),
        }
    }

    pub(super) fn is_kept(self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// The beginning of the next life.
pub(super) fn of(known: &mut KnownState, job: &SimJob, fate: &LifePlan) -> LifeOrigin {
    // A crash may have come before the ledger was replaced, or after it.
    if let Some(checkpoint) = known.begins {
        return LifeOrigin::Anew(checkpoint);
    }
    // A job that does nothing twice goes on after the last cycle that it began; a sink that begins
    // anew has nothing of what came before a checkpoint.
    let cannot = job.may_lose() || job.begins_anew() || job.memory == SinkMemory::BeginsAnew;
    if !fate.from_kept || cannot {
        return LifeOrigin::Newest;
    }
    let kept = known.kept.last_key_value().map(|(number, cycle)| (*number, *cycle));
    match kept {
        None => LifeOrigin::Newest,
        // What it is compared with has the same cycles, of which the first are missing here.
        Some(checkpoint) if fate.begins && !job.is_live() => {
            known.begins = Some(checkpoint);
            LifeOrigin::Anew(checkpoint)
        }
        Some(checkpoint) if known.earlier == Some(checkpoint.0) => LifeOrigin::Newest,
        Some(checkpoint) => {
            // Those after it go as the life begins, whether or not it comes to run.
            known.cycle = known.cycle.min(checkpoint.1);
            LifeOrigin::Kept(checkpoint)
        }
    }
}

/// The options of its run; an error if its checkpoints cannot be opened.
pub(super) fn options(
    state_world: &World,
    job: &SimJob,
    fate: &LifePlan,
    origin: LifeOrigin,
) -> Result<RunOptions, String> {
    if job.begins_anew() {
        return Ok(RunOptions::default());
    }
    let indexed = IndexedOptions {
        file_bytes: fate.file_bytes,
        flush_bytes: fate.flush_bytes,
        flush_in_background: true,
    };
    let backend = IndexedBackend::open(state_world, Path::new(CHECKPOINTS), indexed);
    let (backend, _) = backend.map_err(|error| error.to_string())?;
    let to = CheckpointTo {
        every: job.every(fate.every),
        backend: Arc::new(backend),
        from: origin.checkpoint().map(|it| it.0),
        recovery: fate.recovery,
    };
    Ok(RunOptions {
        data: Some(FOLDER.into()),
        resume: !matches!(origin, LifeOrigin::Anew(_)),
        checkpoint: Some(to),
        // A few cycles a file.
        ledger_file_bytes: Some(200),
        ..RunOptions::default()
    })
}

/// Checks that it resumed from the right point.
pub(super) fn went_on(
    life: &Life,
    job: &SimJob,
    handle: &JobHandle,
    origin: LifeOrigin,
    ended: &mut LivesOutcome,
) -> Result<(), String> {
    // Nobody notes meanwhile how far it is by now, such as who kills it.
    let mut known = lock(&life.known);
    let began = handle.progress().checkpoints;
    let is_right = match origin {
        // It is done again from its start.
        _ if job.memory == SinkMemory::BeginsAnew => true,
        // Others may have been completed since.
        LifeOrigin::Kept((_, cycle)) | LifeOrigin::Anew((_, cycle)) => {
            began.cycle == cycle || began.completed > 0
        }
        LifeOrigin::Newest => began.cycle >= known.cycle,
    };
    if let LifeOrigin::Anew((number, cycle)) = origin {
        // Checkpoints of the life before are there still, but no longer for those that go on.
        known.begins = None;
        known.kept.retain(|it, _| *it == number);
        known.earlier = Some(number);
        (ended.after, ended.begun) = (cycle, ended.begun + 1);
    }
    if !is_right && !known.damaged {
        let cycle = known.cycle;
        return Err(format!("it began at {}, but {cycle} or {origin:?} was complete", began.cycle));
    }
    known.cycle = began.cycle;
    ended.went_on += u64::from(began.cycle > Cycle::NONE);
    let there: Vec<CheckpointNumber> =
        handle.checkpoints().iter().map(|(info, _)| info.number).collect();
    match known.kept.keys().find(|it| !there.contains(it)) {
        Some(_) if known.damaged => Ok(()),
        Some(gone) => Err(format!("checkpoint {gone} was kept, and there are {there:?}")),
        None => Ok(()),
    }
}
