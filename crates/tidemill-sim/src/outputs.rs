//! The rows of the sinks of a finished job.

use crate::{
    job::SimJob,
    journal_sink::{self, CycleRows, SinkMemory},
};
use std::path::Path;
use tidemill_env::World;

/// The rows of the sinks of all lives together; those of a killed life end anywhere.
pub(crate) fn of_lives(world: &World, job: &SimJob, lives: u64) -> Result<Vec<CycleRows>, String> {
    let mut all: Vec<CycleRows> = Vec::new();
    for life in 1..=lives {
        let files = job.files(life);
        all.resize(files.len(), CycleRows::new());
        for (path, all) in files.iter().zip(&mut all) {
            if world.disk.exists(path).map_err(|it| it.to_string())? {
                let bytes = world.disk.read(path).map_err(|it| it.to_string())?;
                all.extend(journal_sink::read(&bytes).map_err(|it| it.to_string())?.0);
            }
        }
    }
    Ok(all)
}

/// The rows of the sinks.
pub(crate) fn of(world: &World, job: &SimJob) -> Result<Vec<CycleRows>, String> {
    let read = |path: &Path| -> Result<CycleRows, String> {
        let bytes = world.disk.read(path).map_err(|it| it.to_string())?;
        let (rows, length) = journal_sink::read(&bytes).map_err(|it| it.to_string())?;
        match length == bytes.len() {
            true => Ok(rows),
            false => Err(format!("{} has a torn tail at the end", path.display())),
        }
    };
    let mut all: Vec<CycleRows> =
        job.files(0).iter().map(|it| read(it)).collect::<Result<_, _>>()?;
    if job.memory == SinkMemory::None {
        all[0] = journal_sink::once(std::mem::take(&mut all[0]))
            .map_err(|why| format!("sink 0: {why}"))?;
    }
    Ok(all)
}
