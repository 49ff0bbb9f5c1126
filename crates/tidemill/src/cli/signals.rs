//! Ctrl-C: the first stops the job at the end of a cycle, the second ends the process at once. And
//! a file that may not be as long as it would have to be is an error, which does not end it.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Where files may be so long and no longer (`ulimit -f`), a write beyond that fails, as on a disk
/// that is full. By itself the system ends the process without a word.
pub(super) fn let_long_files_fail() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(|_unused| ())
}

/// True if the job shall stop.
#[derive(Clone, Debug)]
pub(super) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Begins to listen to SIGINT and SIGTERM.
    pub(super) fn listen() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the second signal finds the flag set by the first.
            let code = i32::from(super::STOPPED);
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
