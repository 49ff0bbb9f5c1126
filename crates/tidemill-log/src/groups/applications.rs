//! The progress of applications, and the groups that their consumers hold. No lock, no disk.

use super::GroupsNow;
use crate::error::GroupError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_types::GroupIx;

/// Applications of one streamlet; more are refused.
const APPLICATIONS_MAX: usize = 1000;

/// The progress of an application that reads a streamlet by groups, as a value to store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupProgress {
    /// All groups below this one are read to their end.
    pub done_below: GroupIx,
    /// So are these.
    pub done: BTreeSet<GroupIx>,
    /// Groups that were read in part: the first offset that was not acknowledged.
    pub partly: BTreeMap<GroupIx, i64>,
}

/// One application.
#[derive(Debug, Default)]
pub(crate) struct ApplicationProgress {
    progress: GroupProgress,
    held: BTreeSet<GroupIx>,
}

impl ApplicationProgress {
    /// Gives out groups: each with the offset to go on from.
    pub(super) fn take(&mut self, now: &GroupsNow, most: usize) -> Vec<(GroupIx, i64)> {
        let progress = &mut self.progress;
        let left =
            |group: &GroupIx| *group >= progress.done_below && !progress.done.contains(group);
        let open = || now.groups.iter().filter(|(group, _)| left(group));
        // Numbers that no group has any more, or ever had, are behind too.
        let settled = open().next().map_or(now.complete_below, |it| now.complete_below.min(*it.0));
        let visible: Vec<GroupIx> = open().filter(|it| *it.1).map(|it| *it.0).collect();
        progress.done_below = progress.done_below.max(settled);
        progress.done = progress.done.split_off(&progress.done_below);
        progress.partly = progress.partly.split_off(&progress.done_below);
        let free = visible.into_iter().filter(|group| !self.held.contains(group));
        let taken: Vec<GroupIx> = free.take(most).collect();
        self.held.extend(&taken);
        let from = |group| self.progress.partly.get(&group).copied().unwrap_or(0);
        taken.into_iter().map(|group| (group, from(group))).collect()
    }

    /// The first offset of a group that was not acknowledged; none if all was.
    fn first_open(&self, group: GroupIx) -> Option<i64> {
        let progress = &self.progress;
        if group < progress.done_below || progress.done.contains(&group) {
            return None;
        }
        Some(progress.partly.get(&group).copied().unwrap_or(i64::MIN))
    }
}

/// All applications of a streamlet.
#[derive(Debug, Default)]
pub(crate) struct Applications(BTreeMap<String, ApplicationProgress>);

impl Applications {
    pub(super) fn get(&mut self, name: &str) -> Result<&mut ApplicationProgress, GroupError> {
        if !self.0.contains_key(name) && self.0.len() >= APPLICATIONS_MAX {
            return Err(GroupError::TooMany(APPLICATIONS_MAX));
        }
        Ok(self.0.entry(name.to_owned()).or_default())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn progress(&self, name: &str) -> Option<GroupProgress> {
        self.0.get(name).map(|share| share.progress.clone())
    }

    pub(super) fn restore(&mut self, name: &str, to: GroupProgress) -> Result<(), GroupError> {
        let share = self.get(name)?;
        if !share.held.is_empty() {
            return Err(GroupError::Held(share.held.len()));
        }
        share.progress = to;
        Ok(())
    }

    pub(super) fn forget(&mut self, name: &str) -> Result<(), GroupError> {
        match self.0.get(name) {
            Some(share) if !share.held.is_empty() => Err(GroupError::Held(share.held.len())),
            _ => {
                self.0.remove(name);
                Ok(())
            }
        }
    }

    /// The lowest offset of a group that some application has not acknowledged; none if all have
    /// read all of it.
    pub(super) fn first_open(&self, group: GroupIx) -> Option<i64> {
        self.0.values().filter_map(|share| share.first_open(group)).min()
    }

    /// A consumer has read its group up to `next`, or to its end.
    pub(super) fn acknowledge(&mut self, name: &str, group: GroupIx, next: i64, ended: bool) {
        let Some(share) = self.0.get_mut(name).filter(|it| it.held.contains(&group)) else {
            return;
        };
        if ended {
            share.progress.partly.remove(&group);
            share.progress.done.insert(group);
        } else {
            share.progress.partly.insert(group, next);
        }
    }

    /// A consumer let its group go.
    pub(super) fn give_back(&mut self, name: &str, group: GroupIx) {
        if let Some(share) = self.0.get_mut(name) {
            share.held.remove(&group);
        }
    }
}
