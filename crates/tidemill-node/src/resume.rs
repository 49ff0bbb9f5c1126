//! Checks of a job that is resumed.
//!
//! Invariant: a job that would begin anew unannounced is refused; one that may be meant gets a warning.

use crate::descriptor::Descriptor;
use crate::diagnostic::{Problem, Refused};
use std::path::Path;
use tidemill_env::World;

/// Refuses to resume a job that keeps no ledger, or has no folder for one: it would begin anew, and
/// replace its output. Warns of a folder in which nothing has begun.
///
/// # Errors
/// The job cannot go on.
pub fn check_resume(
    descriptor: &Descriptor,
    data: Option<&Path>,
    base_dir: &Path,
    world: &World,
) -> Result<(), Refused> {
    let refused = |problem: Problem| Err(Refused(vec![descriptor.locate(problem)]));
    if !descriptor.spec.goes_on() {
        let problem = Problem::new(["delivery"], "a job without a ledger cannot resume");
        return refused(problem.expected(
            "`exactly-once`, `at-most-once` with a `checkpoint`, or a job that is not to resume",
        ));
    }
    let Some(folder) = data else {
        let message = "a job without a data folder cannot resume: its ledger would be there";
        return refused(Problem::new::<String>([], message));
    };
    warn_of_nothing_to_resume(descriptor, folder, base_dir, world);
    Ok(())
}

/// Warns of a job that is to go on in a folder where nothing has begun, if a file of it is there: it
/// may be the wrong folder, and the job begins anew and replaces that file. It is not refused: one
/// that was killed before it had its folder is started again in the same words.
fn warn_of_nothing_to_resume(
    descriptor: &Descriptor,
    folder: &Path,
    base_dir: &Path,
    world: &World,
) {
    let disk = &*world.disk;
    if tidemill_flow::has_begun(disk, folder) {
        return;
    }
    let mut files = descriptor.spec.sinks.values().filter_map(|it| Some(&it.file.as_ref()?.path));
    let is_there = |path: &Path| disk.exists(&base_dir.join(path)).unwrap_or(false);
    if let Some(path) = files.find(|path| is_there(path.as_ref())) {
        let (folder, job) = (folder.display(), &descriptor.spec.name);
        tracing::warn!(
            job,
            "{folder} holds no earlier run to resume: the job begins anew and replaces {path}"
        );
    }
}
