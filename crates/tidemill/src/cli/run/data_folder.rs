//! The data folder of a job that was refused: one that the run has made goes again.
//!
//! Invariants: nothing goes that was there before, that something of the job is in, or that another
//! process has open.

use std::{
    fs,
    path::{Path, PathBuf},
};
use tidemill_env::World;

/// The folders that are not there before the job begins, innermost first.
#[derive(Debug)]
pub(super) struct NewFolder {
    missing: Vec<PathBuf>,
}

impl NewFolder {
    /// The folders to make for this data folder.
    pub(super) fn before(data: Option<&Path>) -> Self {
        let all = data.into_iter().flat_map(Path::ancestors);
        let missing = all.take_while(|it| !it.as_os_str().is_empty() && !it.exists());
        Self { missing: missing.map(Path::to_owned).collect() }
    }

    /// Takes it away, if the job left nothing in it but its lock and room for checkpoints of which none
    /// was made. One that has its place on a server says so there, and stays.
    pub(super) fn remove(self, world: &World) {
        let Some(data) = self.missing.first().filter(|it| it.exists()) else { return };
        let (lock, checkpoints) = (data.join("lock"), data.join("checkpoints"));
        // It is made if there is none.
        let Ok(held) = world.disk.lock(&lock) else { return };
        let is_empty = fs::read_dir(data).is_ok_and(|mut names| {
            names.all(|it| it.is_ok_and(|it| [&lock, &checkpoints].contains(&&it.path())))
        });
        if !is_empty || checkpoints.join("owner").exists() {
            return;
        }
        let _none = fs::remove_dir_all(checkpoints);
        let _stays = fs::remove_file(lock);
        drop(held);
        // What is not empty stays, and what that is in.
        let _left = self.missing.iter().try_for_each(fs::remove_dir);
    }
}
