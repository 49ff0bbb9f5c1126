//! Reads of whole groups: many consumers of one application share a streamlet by taking its groups
//! in turn (KerA, table 6.1, `getNextGroups`).
//!
//! ```text
//!               ┌ consumer 1: group 4 ▣▣▣▣         taken: nobody else gets it
//! application ──┤ consumer 2: group 5 ▣▢           still appended to: read as it grows
//!               └ next_groups ─▶ group 6           the oldest that nobody has
//! ```
//!
//! A group is read in the order in which it was appended, so the chunks of one producer come in
//! order; between groups there is no order. A group that a consumer drops goes to the next consumer
//! of its application, from the acknowledged offset on.
//!
//! Invariants: a group has one consumer of an application at a time; only visible chunks are read;
//! data that are not there are an error, never skipped.

use crate::{error::GroupError, streamlet::Streamlet};
use std::{collections::BTreeMap, sync::Arc};
use tidemill_types::GroupIx;

mod applications;
mod cursor;

pub(crate) use applications::Applications;
pub use applications::GroupProgress;
pub use cursor::{GroupChunks, GroupCursor};

/// The groups of a streamlet, at one moment.
pub(crate) struct GroupsNow {
    /// All that have a chunk, oldest first, and whether one of its chunks is visible.
    pub(crate) groups: BTreeMap<GroupIx, bool>,
    /// No group below this that is not among them will ever have a chunk.
    pub(crate) complete_below: GroupIx,
}

impl Streamlet {
    /// Takes up to `most` groups for a consumer of this application, oldest first: of those with
    /// visible data that no other consumer of it has, and that it has not acknowledged to the end.
    /// None there: ask again when there are more data ([`Self::on_data`] at the high watermark), or
    /// when a consumer drops a group, which sends no notification.
    ///
    /// The application's progress is in memory: see [`Self::group_progress`].
    ///
    /// # Errors
    /// There are too many applications.
    pub fn next_groups(
        self: &Arc<Self>,
        application: &str,
        most: usize,
    ) -> Result<Vec<GroupCursor>, GroupError> {
        let now = self.groups_now();
        let mut applications = self.applications.lock();
        let share = applications.get(application)?;
        let taken = share.take(&now, most);
        drop(applications);
        let name: Arc<str> = Arc::from(application);
        let cursor = |(group, from)| GroupCursor::new(self, &name, group, from);
        Ok(taken.into_iter().map(cursor).collect())
    }

    /// The groups and offsets an application has acknowledged, for the caller to keep. None if the
    /// application is unknown. Groups that consumers hold count up to their acknowledged offset.
    #[must_use]
    pub fn group_progress(&self, application: &str) -> Option<GroupProgress> {
        let applications = self.applications.lock();
        applications.progress(application)
    }

    /// Sets the progress of an application, after a restart. Any progress it has here is replaced.
    ///
    /// # Errors
    /// Its consumers hold groups now, or there are too many applications.
    pub fn restore_groups(
        &self,
        application: &str,
        progress: GroupProgress,
    ) -> Result<(), GroupError> {
        let mut applications = self.applications.lock();
        applications.restore(application, progress)
    }

    /// Forgets an application. If it comes again, it begins at the start.
    ///
    /// # Errors
    /// Its consumers hold groups now.
    pub fn forget_application(&self, application: &str) -> Result<(), GroupError> {
        let mut applications = self.applications.lock();
        applications.forget(application)
    }

    /// The first offset that some application has not acknowledged: below it, all that know this
    /// streamlet have read everything. None if there are no applications.
    #[must_use]
    pub fn groups_floor(&self) -> Option<i64> {
        let (start, watermark) = {
            let offsets = self.offsets();
            (offsets.start(), offsets.watermark())
        };
        let applications = self.applications.lock();
        if applications.is_empty() {
            return None;
        }
        let segments = self.segments();
        let open = segments.values().filter_map(|segment| {
            let (first, end) = segment.range();
            let from = applications.first_open(segment.key.group)?;
            (end > from).then(|| first.max(from))
        });
        Some(open.fold(watermark, i64::min).max(start))
    }

    fn groups_now(&self) -> GroupsNow {
        // In this order: a group whose number was given out before the first look is open at the
        // second, or has its chunks at the third.
        let mut complete_below = self.next_group();
        for group in self.open_groups() {
            complete_below = complete_below.min(group);
        }
        let watermark = self.high_watermark();
        let mut groups = BTreeMap::new();
        for (place, segment) in self.segments().iter() {
            *groups.entry(segment.key.group).or_insert(false) |= place.first_offset < watermark;
        }
        GroupsNow { groups, complete_below }
    }

    /// True if the group gets no more segments.
    fn is_complete(&self, group: GroupIx) -> bool {
        group < self.next_group() && !self.open_groups().contains(&group)
    }

    /// The groups that are appended to.
    fn open_groups(&self) -> Vec<GroupIx> {
        let active_groups = self.active_groups.read().clone();
        let open = active_groups.iter().filter_map(|active| {
            let active = active.lock();
            active.open.as_ref().map(|segment| segment.key.group)
        });
        open.collect()
    }
}

#[cfg(test)]
mod tests;
