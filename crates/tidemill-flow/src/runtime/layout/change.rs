//! A new layout, as of a cycle that no source has begun.

use super::Layout;
use crate::runtime::job::Job;
use std::sync::Arc;
use tidemill_types::Cycle;

impl Job {
    /// The layout of the cycles to come.
    pub(crate) fn newest_layout(&self) -> Arc<Layout> {
        let layouts = self.layouts.read().expect("no panic while held");
        Arc::clone(layouts.last().expect("a job has a layout"))
    }

    /// Begins the layout that `make` makes of the one before, from a cycle that it is given. Nothing is
    /// done as long as the last change is under way.
    pub(crate) fn change_layout(
        &self,
        make: impl FnOnce(&Layout, Cycle) -> Layout,
    ) -> Option<(Cycle, Arc<Layout>)> {
        let mut layouts = self.layouts.write().expect("no panic while held");
        if layouts.len() > 1 {
            let idle = |layout: &Layout| {
                layout
                    .lanes
                    .iter()
                    .flatten()
                    .all(|lane| !lane.state.lock().expect("no panic while held").open)
            };
            let last = layouts.len() - 1;
            if !layouts[..last].iter().all(|layout| idle(layout)) {
                return None;
            }
            layouts.drain(..last);
        }
        // No source can begin a cycle between this look and the new layout: beginning takes the
        // pacer's lock, and looks for a newer layout with it held.
        let pacer = self.pacer.lock().expect("no panic while held");
        let from = pacer.begun().next();
        let old = Arc::clone(&layouts[0]);
        let new = Arc::new(make(&old, from));
        debug_assert!(new.version > old.version, "a layout follows an earlier one");
        layouts.push(Arc::clone(&new));
        for lane in old.lanes.iter().flatten() {
            lane.state.lock().expect("no panic while held").until = Some(from);
        }
        drop(pacer);
        drop(layouts);
        old.lanes.iter().flatten().for_each(|lane| self.wake_lane(lane));
        Some((from, new))
    }
}
