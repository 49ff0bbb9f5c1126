//! The end of a recovery: segments are synced, for many streamlets at once; then marks are written,
//! and files are closed.
//!
//! Invariant: a mark claims only durable data.

use crate::{
    error::LogError,
    log_core::{LogCore, at},
    segment::Segment,
};
use std::{collections::BTreeSet, path::Path, sync::Arc};

/// Files that are open at once, at the most, more or less.
const FILES_MAX: usize = 500;

/// A streamlet's segments that a recovery has changed and not synced.
#[derive(Default)]
pub(crate) struct UnsyncedSegments {
    /// Those whose mark is to be written.
    pub(super) touched: Vec<Arc<Segment>>,
    /// Those that must be durable before that.
    pub(super) pending: Vec<Arc<Segment>>,
    /// The floor that marks may claim for the whole streamlet then.
    pub(super) floor: i64,
}

/// The segments of many recoveries that are still to be synced.
#[derive(Default)]
pub(crate) struct PendingSyncs {
    waiting: Vec<UnsyncedSegments>,
    files: usize,
}

impl PendingSyncs {
    /// Takes one over, and finishes all that wait if they are many.
    pub(crate) fn add(&mut self, shared: &LogCore, one: UnsyncedSegments) -> Result<(), LogError> {
        if one.touched.is_empty() {
            return Ok(());
        }
        self.files += one.touched.len();
        self.waiting.push(one);
        if self.files >= FILES_MAX { self.all(shared) } else { Ok(()) }
    }

    /// Finishes all that wait.
    pub(crate) fn all(&mut self, shared: &LogCore) -> Result<(), LogError> {
        self.files = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let pending: Vec<_> = waiting.iter().flat_map(|it| it.pending.iter().cloned()).collect();
        let many = shared.file_system_sync.is_better_for(pending.len());
        if !many || !sync_together(shared, &pending)? {
            sync_each(shared, &pending)?;
        }
        for one in &waiting {
            for segment in &one.touched {
                segment.mark(one.floor).map_err(at(&segment.path))?;
            }
            one.touched.iter().for_each(|segment| segment.state().file = None);
        }
        Ok(())
    }
}

/// One sync for all; false if that was not possible, or told of an error, which may be an old one.
fn sync_together(shared: &LogCore, pending: &[Arc<Segment>]) -> Result<bool, LogError> {
    let mut jobs = Vec::with_capacity(pending.len());
    for segment in pending {
        let job = segment.begin_sync_of_all(shared).map_err(at(&segment.path))?;
        jobs.push((segment, job));
    }
    let Some(Ok(())) = shared.file_system_sync.sync() else { return Ok(false) };
    // For the drive's own cache, as ever.
    if jobs.last().is_some_and(|(_, job)| job.file.sync().is_err()) {
        return Ok(false);
    }
    for (segment, job) in jobs {
        segment.state().doubtful = false;
        let _nobody_waits = segment.end_sync(&job);
    }
    Ok(true)
}

fn sync_each(shared: &LogCore, pending: &[Arc<Segment>]) -> Result<(), LogError> {
    let mut jobs = Vec::with_capacity(pending.len());
    for segment in pending {
        let job = segment.begin_sync(shared).map_err(at(&segment.path))?;
        job.file.sync().map_err(at(&segment.path))?;
        jobs.push((segment, job));
    }
    let folder = |it: &Arc<Segment>| it.path.parent().unwrap_or(Path::new("")).to_owned();
    let folders: BTreeSet<_> = pending.iter().map(folder).collect();
    for folder in folders {
        shared.sync_names(&folder).map_err(at(&folder))?;
    }
    for (segment, job) in jobs {
        let _nobody_waits = segment.end_sync(&job);
    }
    Ok(())
}
