//! Kills in the middle of an operation of the disk.

use super::SimDisk;
use std::fmt;

/// The action that kills the rest of a process when its disk does.
#[derive(Default)]
pub(super) struct KillAction(Option<Box<dyn FnOnce() + Send>>);

impl KillAction {
    pub(super) fn perform(self) {
        if let Some(action) = self.0 {
            action();
        }
    }
}

impl fmt::Debug for KillAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KillAction").field(&self.0.is_some()).finish()
    }
}

impl SimDisk {
    /// After `operations` more that change the disk, the processes that use it are killed: none of
    /// theirs comes to pass any more, not even one that clears up. For handles of a
    /// [`Self::process`].
    pub fn kill_after(&self, operations: u64) {
        self.kill_after_with(operations, || ());
    }

    /// As [`Self::kill_after`]; the action kills the rest of the process. It must not use the disk.
    pub(in crate::sim) fn kill_after_with(
        &self,
        operations: u64,
        action: impl FnOnce() + Send + 'static,
    ) {
        let mut state = self.state();
        state.kill_in = Some(operations);
        state.on_kill = KillAction(Some(Box::new(action)));
    }
}
