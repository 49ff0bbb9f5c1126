//! What the sinks of a job hold in the end.

use crate::{
    job::Job,
    kept::{self, Memory, Rows},
};
use std::path::Path;
use tidemill_env::World;

/// What the sinks of all lives hold together; those of a life that was killed end anywhere.
pub(crate) fn of_lives(world: &World, job: &Job, lives: u64) -> Result<Vec<Rows>, String> {
    let mut all: Vec<Rows> = Vec::new();
    for life in 1..=lives {
        let files = job.files(life);
        all.resize(files.len(), Rows::new());
        for (path, all) in files.iter().zip(&mut all) {
            if world.disk.exists(path).map_err(|it| it.to_string())? {
                let bytes = world.disk.read(path).map_err(|it| it.to_string())?;
                all.extend(kept::read(&bytes).map_err(|it| it.to_string())?.0);
            }
        }
    }
    Ok(all)
}

/// What the sinks hold.
pub(crate) fn of(world: &World, job: &Job) -> Result<Vec<Rows>, String> {
    let read = |path: &Path| -> Result<Rows, String> {
        let bytes = world.disk.read(path).map_err(|it| it.to_string())?;
        let (rows, length) = kept::read(&bytes).map_err(|it| it.to_string())?;
        match length == bytes.len() {
            true => Ok(rows),
            false => Err(format!("{} has a torn tail at the end", path.display())),
        }
    };
    let mut all: Vec<Rows> = job.files(0).iter().map(|it| read(it)).collect::<Result<_, _>>()?;
    if job.memory == Memory::None {
        all[0] = kept::once(std::mem::take(&mut all[0])).map_err(|why| format!("sink 0: {why}"))?;
    }
    Ok(all)
}
