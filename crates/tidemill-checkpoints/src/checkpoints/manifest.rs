//! The manifest of a checkpoint, and the keys of manifests and runs in a backend.

use super::CheckpointError;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tidemill_state::SavedError;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceId, StageIx};

/// The most bytes of a run under one key, which are committed at once. Other syncs on that disk,
/// such as the ledger's, wait for no more than that.
pub(super) const PART_BYTES: usize = 2 << 20;
/// The same, for a stage whose rows are read back one by one.
pub(super) const FINE_PART_BYTES: usize = 32 << 10;
/// The first byte of a manifest: its version.
const MANIFEST_VERSION: u8 = 5;
/// The version of manifests whose runs have no forms.
const VERSION_WITHOUT_FORMS: u8 = 4;
/// The version of manifests whose runs have no index of keys either.
const VERSION_WITHOUT_INDEX: u8 = 3;
/// The version of manifests whose runs all have parts of [`PART_BYTES`].
const VERSION_OF_ONE_SIZE: u8 = 2;
/// The version of manifests that are all coordinated, without saying so.
const VERSION_COORDINATED: u8 = 1;

/// The largest number of a checkpoint. Others must be able to follow it.
pub(super) const NUMBER_MAX: CheckpointNumber = CheckpointNumber(u64::MAX >> 1);

/// The key of the number of the checkpoint that was begun last.
pub(super) const BEGUN_KEY: &[u8] = b"b";

/// The key of the number of the last checkpoint before the job began anew.
pub(super) const OVER_KEY: &[u8] = b"o";

/// A source slice as of the end of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSource {
    /// The source's name.
    pub name: String,
    /// The slice.
    pub slice: SliceId,
    /// Its position.
    pub position: u64,
    /// Its watermark.
    pub watermark: Micros,
    /// True if it had ended.
    pub ended: bool,
    /// True if it was idle, so that it did not hold event time back.
    pub idle: bool,
}

/// A stage as of the end of a cycle. `R` is the form of its run references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedStage<R = RunRef> {
    /// Its name.
    pub name: String,
    /// A description of its work. A state belongs only to a stage with the same description.
    pub does: String,
    /// Its watermark.
    pub watermark: Micros,
    /// The runs of each slice, the oldest first.
    pub slices: Vec<Vec<R>>,
}

/// A sink as of the end of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSink {
    /// Its name.
    pub name: String,
    /// The last cycle with rows for it: the sink holds that cycle, and so all before.
    pub last: Cycle,
}

/// A reference to a run: its keys and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunRef {
    /// The checkpoint that wrote it.
    pub(super) checkpoint: CheckpointNumber,
    pub(super) stage: StageIx,
    pub(super) slice: SliceId,
    /// Its number among the runs that the checkpoint wrote of the slice, from 0.
    pub(super) nth: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The most bytes of it under one key.
    pub(super) part_bytes: u32,
    /// The bytes of its index of keys ([`super::key_index`]), stored behind it in parts of
    /// [`PART_BYTES`]; 0 if it has none.
    pub(super) index_bytes: u64,
}

/// A run reference of manifests of version 3.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct RunWithoutIndex {
    checkpoint: CheckpointNumber,
    stage: StageIx,
    slice: SliceId,
    nth: u32,
    bytes: u64,
    part_bytes: u32,
}

/// A run reference of manifests before version 3.
#[derive(Deserialize)]
#[cfg_attr(test, derive(Serialize))]
struct RunOfOneSize {
    checkpoint: CheckpointNumber,
    stage: StageIx,
    slice: SliceId,
    nth: u32,
    bytes: u64,
}

/// A complete checkpoint. `R` is the form of its run references.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest<R = RunRef> {
    /// Its number. Numbers of a job's checkpoints ascend from 1, with gaps.
    pub number: CheckpointNumber,
    /// The time of its completion, since 1970.
    pub made: Micros,
    /// The last cycle that it covers, if it is coordinated.
    pub cycle: Cycle,
    /// The recorded time of that cycle.
    pub time: Micros,
    /// The slices of the sources.
    pub sources: Vec<SavedSource>,
    /// The stages.
    pub stages: Vec<SavedStage<R>>,
    /// The sinks.
    pub sinks: Vec<SavedSink>,
    /// The last cycle with a dead letter that went to the sink of dead letters, or a later one.
    pub letters: Cycle,
    /// True if all slices are as of that cycle. Otherwise each is as of a cycle of its own, at most
    /// that one.
    pub coordinated: bool,
}

/// The key of a manifest.
pub(super) fn manifest_key(number: CheckpointNumber) -> [u8; 9] {
    key(b'm', number)
}

/// The key that marks a checkpoint as kept; its value is the name.
pub(super) fn kept_key(number: CheckpointNumber) -> [u8; 9] {
    key(b'k', number)
}

/// The prefix of the keys of all runs that a checkpoint wrote.
pub(super) fn runs_prefix(number: CheckpointNumber) -> [u8; 9] {
    key(b'r', number)
}

fn key(kind: u8, number: CheckpointNumber) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.0.to_be_bytes());
    key
}

/// The checkpoint number in a key.
pub(super) fn number_of(key: &[u8]) -> Option<CheckpointNumber> {
    key.get(1..)?.try_into().ok().map(u64::from_be_bytes).map(CheckpointNumber)
}

impl RunRef {
    /// The count of its parts, without the index.
    pub(super) fn parts(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.part_bytes.max(1)))
    }

    /// The parts of its index, which follow the entries.
    pub(super) fn index_parts(&self) -> Range<u64> {
        let first = self.parts();
        first..first.saturating_add(self.index_bytes.div_ceil(PART_BYTES as u64))
    }

    pub(super) fn key(&self, part: u64) -> [u8; 25] {
        let mut key = [0; 25];
        key[..9].copy_from_slice(&runs_prefix(self.checkpoint));
        key[9..13].copy_from_slice(&self.stage.0.to_be_bytes());
        key[13..17].copy_from_slice(&self.slice.0.to_be_bytes());
        key[17..21].copy_from_slice(&self.nth.to_be_bytes());
        key[21..].copy_from_slice(&(part as u32).to_be_bytes());
        key
    }
}

impl Manifest {
    /// All of its runs.
    pub fn runs(&self) -> impl Iterator<Item = &RunRef> {
        self.stages.iter().flat_map(|stage| &stage.slices).flatten()
    }

    /// The bytes of its runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of_run = |run: &RunRef| run.bytes.saturating_add(run.index_bytes);
        self.runs().fold(0, |sum, run| sum.saturating_add(of_run(run)))
    }

    /// The name and number of a slice whose runs are out of order, if there is one: each run is newer
    /// than the one before it, and none is newer than the checkpoint.
    fn disorder(&self) -> Option<(&str, usize)> {
        let is_in_order = |runs: &Vec<RunRef>| {
            runs.is_sorted_by(|a, b| (a.checkpoint, a.nth) < (b.checkpoint, b.nth))
                && runs.last().is_none_or(|last| last.checkpoint <= self.number)
        };
        self.stages.iter().find_map(|stage| {
            let slice = stage.slices.iter().position(|runs| !is_in_order(runs))?;
            Some((&stage.name[..], slice))
        })
    }

    /// Encodes it, behind its version.
    ///
    /// # Panics
    /// Panics if runs of a slice are out of order, which is an error of the engine. A manifest that is
    /// read with such runs is refused as damaged.
    pub(super) fn encode(&self) -> Vec<u8> {
        assert_eq!(self.disorder(), None, "the runs of a slice are in order");
        postcard::to_extend(self, vec![MANIFEST_VERSION]).expect("plain values can be written")
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Self, CheckpointError> {
        let number = number_of(key).unwrap_or(CheckpointNumber::NONE);
        let failed =
            |message: String| CheckpointError::Saved { number, error: SavedError::new(message) };
        let unreadable = |error: String| failed(format!("its manifest cannot be read: {error}"));
        fn whole<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Result<M, String> {
            let (manifest, rest) =
                postcard::take_from_bytes(bytes).map_err(|error| error.to_string())?;
            match rest {
                [] => Ok(manifest),
                more => Err(format!("it has {} bytes too many", more.len())),
            }
        }
        let of_one_size = |bytes: &[u8]| {
            whole::<Manifest<RunOfOneSize>>(bytes).map(Self::of_before).map_err(unreadable)
        };
        let manifest = match value.split_first() {
            Some((&(MANIFEST_VERSION | VERSION_WITHOUT_FORMS), rest)) => {
                whole(rest).map_err(unreadable)
            }
            Some((&VERSION_WITHOUT_INDEX, rest)) => {
                whole::<Manifest<RunWithoutIndex>>(rest).map(Self::of_before).map_err(unreadable)
            }
            Some((&VERSION_OF_ONE_SIZE, rest)) => of_one_size(rest),
            Some((&VERSION_COORDINATED, rest)) => of_one_size(&[rest, &[1]].concat()),
            Some((version, _)) => {
                Err(failed(format!("its version {version} is not known to this build")))
            }
            None => Err(failed("its manifest is empty".to_owned())),
        };
        let manifest: Self = manifest?;
        if manifest.number != number {
            return Err(failed("its manifest is that of another".to_owned()));
        }
        if let Some((stage, slice)) = manifest.disorder() {
            return Err(failed(format!("the runs of slice {slice} of `{stage}` are out of order")));
        }
        Ok(manifest)
    }
}

impl From<RunWithoutIndex> for RunRef {
    fn from(run: RunWithoutIndex) -> Self {
        let RunWithoutIndex { checkpoint, stage, slice, nth, bytes, part_bytes } = run;
        Self { checkpoint, stage, slice, nth, bytes, part_bytes, index_bytes: 0 }
    }
}

impl From<RunOfOneSize> for RunRef {
    fn from(run: RunOfOneSize) -> Self {
        let RunOfOneSize { checkpoint, stage, slice, nth, bytes } = run;
        let part_bytes = PART_BYTES as u32;
        RunWithoutIndex { checkpoint, stage, slice, nth, bytes, part_bytes }.into()
    }
}

impl Manifest {
    /// Converts a manifest with the run references of an earlier version.
    fn of_before<R: Into<RunRef>>(before: Manifest<R>) -> Self {
        let Manifest { number, made, cycle, time, sources, stages, sinks, letters, coordinated } =
            before;
        let runs = |runs: Vec<R>| runs.into_iter().map(R::into).collect();
        let stage = |SavedStage { name, does, watermark, slices }| SavedStage {
            name,
            does,
            watermark,
            slices: slices.into_iter().map(runs).collect(),
        };
        let stages = stages.into_iter().map(stage).collect();
        Self { number, made, cycle, time, sources, stages, sinks, letters, coordinated }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As a build wrote it that knew no index of keys.
    pub(in super::super) fn encode_without_index(manifest: &Manifest) -> Vec<u8> {
        let run = |run: &RunRef| {
            let RunRef { checkpoint, stage, slice, nth, bytes, part_bytes, .. } = *run;
            RunWithoutIndex { checkpoint, stage, slice, nth, bytes, part_bytes }
        };
        encode_as(manifest, VERSION_WITHOUT_INDEX, run)
    }

    /// As a build wrote it that knew no other version than the second.
    pub(in super::super) fn encode_of_one_size(manifest: &Manifest) -> Vec<u8> {
        let run = |run: &RunRef| {
            let RunRef { checkpoint, stage, slice, nth, bytes, .. } = *run;
            RunOfOneSize { checkpoint, stage, slice, nth, bytes }
        };
        encode_as(manifest, VERSION_OF_ONE_SIZE, run)
    }

    fn encode_as<R: Serialize>(
        manifest: &Manifest,
        version: u8,
        run: impl Fn(&RunRef) -> R,
    ) -> Vec<u8> {
        let Manifest { number, made, cycle, time, letters, coordinated, .. } = *manifest;
        let stage = |stage: &SavedStage| SavedStage {
            name: stage.name.clone(),
            does: stage.does.clone(),
            watermark: stage.watermark,
            slices: stage.slices.iter().map(|runs| runs.iter().map(&run).collect()).collect(),
        };
        let before = Manifest {
            number,
            made,
            cycle,
            time,
            sources: manifest.sources.clone(),
            stages: manifest.stages.iter().map(stage).collect(),
            sinks: manifest.sinks.clone(),
            letters,
            coordinated,
        };
        postcard::to_extend(&before, vec![version]).expect("plain values can be written")
    }
}
