//! Where a life begins, and whether it did.

use super::{CHECKPOINTS, Ended, FOLDER, Fate, Job, Known, Life, lock};
use crate::kept::Memory;
use std::{path::Path, sync::Arc};
use tidemill_checkpoints::{IndexedBackend, IndexedOptions};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, JobHandle, RunOptions};
use tidemill_types::Cycle;

/// A checkpoint by its number, with its cycle.
type Checkpoint = (u64, Cycle);

/// Where a life begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Where the one before ended, or with the newest checkpoint.
    Newest,
    /// With a checkpoint that was kept.
    Kept(Checkpoint),
    /// With one that was kept, and with a new ledger and new output: a new life of the job.
    Anew(Checkpoint),
}

impl Origin {
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

/// Where the next life begins.
pub(super) fn of(known: &mut Known, job: &Job, fate: &Fate) -> Origin {
    // A crash may have come before the ledger was replaced, or after it.
    if let Some(checkpoint) = known.begins {
        return Origin::Anew(checkpoint);
    }
    // A job that does nothing twice goes on after the last cycle that it began; a sink that begins
    // anew has nothing of what came before a checkpoint.
    let cannot = job.may_lose() || job.begins_anew() || job.memory == Memory::BeginsAnew;
    if !fate.from_kept || cannot {
        return Origin::Newest;
    }
    let kept = known.kept.last_key_value().map(|(number, cycle)| (*number, *cycle));
    match kept {
        None => Origin::Newest,
        // What it is compared with has the same cycles, of which the first are missing here.
        Some(checkpoint) if fate.begins && !job.is_live() => {
            known.begins = Some(checkpoint);
            Origin::Anew(checkpoint)
        }
        Some(checkpoint) if known.earlier == Some(checkpoint.0) => Origin::Newest,
        Some(checkpoint) => {
            // Those after it go as the life begins, whether or not it comes to run.
            known.cycle = known.cycle.min(checkpoint.1);
            Origin::Kept(checkpoint)
        }
    }
}

/// How it is run; an error if its checkpoints cannot be opened.
pub(super) fn options(
    state_world: &World,
    job: &Job,
    fate: &Fate,
    origin: Origin,
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
        resume: !matches!(origin, Origin::Anew(_)),
        checkpoint: Some(to),
        // A few cycles a file.
        ledger_file_bytes: Some(200),
        ..RunOptions::default()
    })
}

/// Whether it went on from where it should.
pub(super) fn went_on(
    life: &Life,
    job: &Job,
    handle: &JobHandle,
    origin: Origin,
    ended: &mut Ended,
) -> Result<(), String> {
    // Nobody notes meanwhile how far it is by now, such as who kills it.
    let mut known = lock(&life.known);
    let began = handle.progress().checkpoints;
    let is_right = match origin {
        // It is done again from its start.
        _ if job.memory == Memory::BeginsAnew => true,
        // Others may have been completed since.
        Origin::Kept((_, cycle)) | Origin::Anew((_, cycle)) => {
            began.cycle == cycle || began.completed > 0
        }
        Origin::Newest => began.cycle >= known.cycle,
    };
    if let Origin::Anew((number, cycle)) = origin {
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
    let there: Vec<u64> = handle.checkpoints().iter().map(|(info, _)| info.number).collect();
    match known.kept.keys().find(|it| !there.contains(it)) {
        Some(_) if known.damaged => Ok(()),
        Some(gone) => Err(format!("checkpoint {gone} was kept, and there are {there:?}")),
        None => Ok(()),
    }
}
