//! The checks of rows and manifests: see [`crate::fuzzing`].

use super::manifest::{BEGUN_KEY, OVER_KEY, manifest_key};
use super::row_index::RowIndex;
use super::{Checkpoints, Manifest, RunRef, SavedSink, SavedSource, SavedStage};
use crate::{Backend, FileBackend, WriteBatch};
use std::{path::Path, sync::Arc};
use tidemill_env::World;
use tidemill_state::visit_entries;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceId, StageIx};

/// Looks every row of a run up by its index.
///
/// # Panics
/// Panics if a row is not found where the index points.
pub fn read_rows(run: &[u8]) {
    let Ok(index) = RowIndex::of(run) else { return };
    // Entries in another order are found to be so when they are read together.
    if visit_entries(&[run], &mut |_, _| Ok(())).is_err() {
        return;
    }
    let read = visit_entries(&[run], &mut |key, value| {
        let around = index.around(key).expect("the run has the key");
        let piece = &run[around.start as usize..around.end as usize];
        assert_eq!(around.find(piece, key)?, Some(Some(value)), "{key:?} is in its piece");
        Ok(())
    });
    read.expect("as before");
}

/// Decodes a manifest behind its number.
#[cfg(test)]
pub(crate) fn read_manifest(bytes: &[u8]) -> Result<Manifest, super::CheckpointError> {
    let (number, value) = bytes.split_first_chunk().expect("a number");
    Manifest::decode(&manifest_key(CheckpointNumber(u64::from_be_bytes(*number))), value)
}

/// Takes the bytes as a manifest behind its number (8 bytes, big endian). A manifest that is
/// decoded is encoded back to the same, and a job's checkpoints with it are opened, listed, resumed
/// and continued, or refused.
///
/// # Panics
/// Panics if one of these does not hold.
pub fn manifest(bytes: &[u8]) {
    let Some((number, value)) = bytes.split_first_chunk() else { return };
    let number = CheckpointNumber(u64::from_be_bytes(*number));
    let key = manifest_key(number);
    let Ok(manifest) = Manifest::decode(&key, value) else { return };
    assert_eq!(manifest.number, number);
    assert_eq!(Manifest::decode(&key, &manifest.encode()).expect("as written"), manifest);
    let world = World::simulated(0).world;
    let backend = FileBackend::open(&world, Path::new("/data")).expect("an empty disk");
    let mut batch = WriteBatch::default();
    batch.put(&key, value);
    batch.put(OVER_KEY, &0_u64.to_be_bytes());
    batch.put(BEGUN_KEY, &number.0.to_be_bytes());
    let backend: Arc<dyn Backend> = Arc::new(backend);
    backend.commit(&mut batch).expect("there is room");
    let Ok(mut checkpoints) = Checkpoints::open(backend) else { return };
    for (info, manifest) in checkpoints.list() {
        assert_eq!((info.number, info.bytes), (number, manifest.bytes()));
        for runs in manifest.stages.iter().flat_map(|it| &it.slices) {
            let _none_is_there = checkpoints.looker().pin(Some(number)).map(|it| {
                assert!(runs.iter().all(|run| run.bytes == 0) || it.named(runs).read().is_err());
            });
        }
    }
    let _floor = checkpoints.floor();
    if checkpoints.go_on(number, |name| u32::try_from(name.len()).ok().map(StageIx)).is_ok() {
        checkpoints.confirm().expect("it is where it began");
        let next = checkpoints.begin().expect("there is room");
        assert!(next > number);
    }
}

/// Manifests of each version, behind their number.
#[must_use]
pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let run = |nth| RunRef {
        checkpoint: CheckpointNumber(3),
        stage: StageIx(1),
        slice: SliceId(0),
        nth,
        bytes: 9,
        part_bytes: 4,
        index_bytes: u64::from(nth),
    };
    let stage = SavedStage {
        name: "stage".to_owned(),
        does: "key Int64".to_owned(),
        watermark: Micros(4),
        slices: vec![vec![run(0), run(1)], Vec::new()],
    };
    let source = SavedSource {
        name: "source".to_owned(),
        slice: SliceId(1),
        position: 100,
        watermark: Micros(3),
        ended: false,
        idle: true,
    };
    let manifest = Manifest {
        number: CheckpointNumber(5),
        made: Micros(1_700_000_000_000_000),
        cycle: Cycle(77),
        time: Micros(7),
        sources: vec![source],
        stages: vec![stage],
        sinks: vec![SavedSink { name: "sink".to_owned(), last: Cycle(76) }],
        letters: Cycle(2),
        coordinated: true,
    };
    let behind = |value: &[u8]| [&5_u64.to_be_bytes(), value].concat();
    let newest = manifest.encode();
    // Of the versions before nothing is written any more: the same bytes say something else there.
    let older = |version| [&[version][..], &newest[1..]].concat();
    vec![
        behind(&newest),
        behind(&older(4)),
        behind(&older(3)),
        behind(&older(2)),
        behind(&older(1)),
    ]
}
