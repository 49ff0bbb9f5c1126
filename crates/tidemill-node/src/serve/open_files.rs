//! The limit of open files and sockets of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer a node of some hundred clients and streamlets runs out.
const FILES_MIN: u64 = 4_096;

/// Lets the process have as many open files as the system lets it: each connection and each
/// segment in use is one.
pub(super) fn raise() {
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, maximum: now.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    if let Some(files) = limit().filter(|files| *files < FILES_MIN) {
        tracing::warn!(files, "few open files are allowed: raise the hard limit (ulimit -Hn)");
    }
}

/// The limit; none: any number.
pub(super) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
