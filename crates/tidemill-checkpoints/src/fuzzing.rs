//! Any bytes as the content of a backend of checkpoints, for tests and for fuzz targets.

use crate::{
    Backend, BackendError, Checkpoints, IndexedBackend, IndexedOptions, RecoveryReport, WriteBatch,
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tidemill_env::{SimWorld, World};
use tidemill_types::ByteSize;

pub use crate::checkpoints::fuzzing::{manifest, manifest_seeds, read_rows};

const FOLDER: &str = "/data/checkpoints";

/// Writes a store with some files, an index and values behind it. Returns also every value that was
/// ever under each key.
fn written() -> (SimWorld, BTreeMap<Vec<u8>, Vec<Vec<u8>>>) {
    let sim = World::simulated(7);
    let mut values: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let (store, _) = open(&sim.world).expect("an empty disk");
    for round in 0..6_u8 {
        let mut batch = WriteBatch::default();
        for key in 0..6_u8 {
            let key = [b'r', key];
            let value = vec![round ^ key[1]; usize::from(round) * 17 + 3];
            batch.put(&key, &value);
            values.entry(key.to_vec()).or_default().push(value);
        }
        batch.delete(&[b'r', round]);
        store.commit(&mut batch).expect("there is room");
        if round == 3 {
            store.flush().expect("there is room");
        }
    }
    drop(store);
    (sim, values)
}

fn open(world: &World) -> Result<(IndexedBackend, RecoveryReport), BackendError> {
    let options = IndexedOptions {
        file_bytes: ByteSize(600),
        flush_in_background: false,
        ..IndexedOptions::default()
    };
    IndexedBackend::open(world, Path::new(FOLDER), options)
}

/// Takes the bytes as damage to the files of a store. It is not opened, or a value is refused, or
/// the value was once put under that key.
///
/// A damage has five bytes: the file, the position (two bytes), the mask of the byte there, and 0
/// to cut the file at that position.
///
/// # Panics
/// A value was never put under its key.
pub fn store(bytes: &[u8]) {
    let (sim, values) = written();
    let mut names = sim.world.disk.list(Path::new(FOLDER)).expect("it is there");
    names.retain(|name| name != "lock");
    names.sort();
    for damage in bytes.as_chunks::<5>().0 {
        let path = Path::new(FOLDER).join(&names[usize::from(damage[0]) % names.len()]);
        let mut content = sim.world.disk.read(&path).expect("it is there");
        if content.is_empty() {
            continue;
        }
        let at = usize::from(u16::from_be_bytes([damage[1], damage[2]])) % content.len();
        match damage[4] {
            0 => content.truncate(at),
            _ => content[at] ^= damage[3],
        }
        sim.disk.put(&path, &content);
    }
    let Ok((store, _)) = open(&sim.world) else { return };
    for key in store.keys(b"").expect("they are in memory") {
        let were = values.get(&key).expect("nobody put another key");
        if let Ok(value) = store.get(&key) {
            let value = value.expect("a key that is there has a value");
            assert!(were.iter().any(|it| *it == value), "{key:?} has {value:?}");
        }
    }
    // What is committed then is there, whatever was damaged before.
    let mut batch = WriteBatch::default();
    batch.put(b"new", b"value");
    if store.commit(&mut batch).is_ok() {
        assert_eq!(store.get(b"new").expect("it was just put").as_deref(), Some(&b"value"[..]));
    }
    let _any = Checkpoints::open(Arc::new(store));
}

#[cfg(test)]
mod tests;
