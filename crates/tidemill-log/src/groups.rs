//! Reads of whole groups: many consumers of one application share a streamlet by taking its groups
//! in turn (`kera.txt` table 5.1, `getNextGroups`).
//!
//! ```text
//!               ┌ consumer 1: group 4 ▣▣▣▣         taken: nobody else gets it
//! application ──┤ consumer 2: group 5 ▣▢           still appended to: read as it grows
//!               └ next_groups ─▶ group 6           the oldest that nobody has
//! ```
//!
//! A group is read in the order in which it was appended, so the chunks of one lane come in order;
//! between groups there is no order. What a consumer acknowledged is behind for its application;
//! a group that a consumer lets go goes back, from where it was acknowledged.
//!
//! Invariants: a group has one consumer of an application at a time; only visible chunks are read;
//! data that are not there are an error, never skipped.

use crate::{error::GroupError, streamlet::Streamlet};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

mod cursor;
mod share;

pub use cursor::{GroupChunks, GroupCursor};
pub(crate) use share::Applications;
pub use share::GroupProgress;

/// The groups of a streamlet, at one moment.
pub(crate) struct GroupsNow {
    /// All that have a chunk, oldest first, and whether one of its chunks is visible.
    pub(crate) groups: BTreeMap<u64, bool>,
    /// No group below this that is not among them will ever have a chunk.
    pub(crate) settled_below: u64,
}

impl Streamlet {
    /// Takes up to `most` groups for a consumer of this application, oldest first: of those with
    /// visible data that no other consumer of it has, and that it has not acknowledged to the end.
    /// None there: ask again when there are more data ([`Self::on_data`] at the high watermark),
    /// or when a consumer let a group go, which makes no notice.
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
        let mut applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let share = applications.get(application)?;
        let taken = share.take(&now, most);
        drop(applications);
        let name: Arc<str> = Arc::from(application);
        let cursor = |(group, from)| GroupCursor::new(self, &name, group, from);
        Ok(taken.into_iter().map(cursor).collect())
    }

    /// What an application has acknowledged, to be kept by the caller; none if it is not known
    /// here. Groups that consumers hold count as far as they acknowledged them.
    #[must_use]
    pub fn group_progress(&self, application: &str) -> Option<GroupProgress> {
        let applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        applications.progress(application)
    }

    /// Lets an application go on where it was, after a restart; in place of what is known of it.
    ///
    /// # Errors
    /// Its consumers hold groups now, or there are too many applications.
    pub fn restore_groups(
        &self,
        application: &str,
        progress: GroupProgress,
    ) -> Result<(), GroupError> {
        let mut applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        applications.restore(application, progress)
    }

    /// Forgets an application. If it comes again, it begins at the start.
    ///
    /// # Errors
    /// Its consumers hold groups now.
    pub fn forget_application(&self, application: &str) -> Result<(), GroupError> {
        let mut applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        applications.forget(application)
    }

    /// The first offset that some application has not acknowledged: below it, all that know this
    /// streamlet have read everything. None if there are no applications.
    #[must_use]
    pub fn groups_floor(&self) -> Option<i64> {
        let (start, watermark) = {
            let progress = self.progress();
            (progress.start(), progress.watermark())
        };
        let applications = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut settled_below = self.next_group();
        for group in self.open_groups() {
            settled_below = settled_below.min(group);
        }
        let watermark = self.high_watermark();
        let mut groups = BTreeMap::new();
        for ((first, _), segment) in self.segments().iter() {
            *groups.entry(segment.key.group).or_insert(false) |= *first < watermark;
        }
        GroupsNow { groups, settled_below }
    }

    /// Whether a group gets no more segments.
    fn is_complete(&self, group: u64) -> bool {
        group < self.next_group() && !self.open_groups().contains(&group)
    }

    /// The groups that are appended to.
    fn open_groups(&self) -> Vec<u64> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner).clone();
        let open = slots.iter().filter_map(|slot| {
            let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.open.as_ref().map(|segment| segment.key.group)
        });
        open.collect()
    }
}

#[cfg(test)]
mod tests;
