//! Whether a file can be written is found out without a change to anything.

use super::*;
use std::{collections::BTreeMap, path::PathBuf};

/// Everything that a disk holds.
fn contents(sim: &SimWorld) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for path in sim.disk.list(&folder).unwrap() {
            match sim.disk.read(&path) {
                Ok(bytes) => drop(found.insert(path, bytes)),
                Err(_) if path != folder => folders.push(path),
                Err(_) => {}
            }
        }
    }
    found
}

fn sink(sim: &SimWorld, path: &str, format: Format) -> Box<dyn Sink> {
    FileSink::new(&sim.world, path, format, batch().schema()).unwrap()
}

#[test]
fn what_can_be_written_is_left_as_it_is() {
    for format in [Format::Json, Format::Csv, Format::Text, Format::Arrow, Format::Parquet] {
        let sim = World::simulated(1);
        let mut earlier = sink(&sim, "out/f", format);
        earlier.open(false).unwrap();
        earlier.write(Cycle(1), &[block(batch())]).unwrap();
        earlier.commit(Cycle(1)).unwrap();
        earlier.close().unwrap();
        // As a job that was killed leaves it.
        sim.disk.put("out/f.partial", b"half");
        let before = contents(&sim);
        assert!(before.len() >= 2, "{before:?}");
        let mut again = sink(&sim, "out/f", format);
        again.check().unwrap();
        assert_eq!(contents(&sim), before, "{format:?}");
        again.open(false).unwrap();
        assert_ne!(contents(&sim), before, "{format:?}");

        sink(&sim, "on/the/way/f", format).check().unwrap();
        assert!(!sim.disk.exists(Path::new("on")).unwrap(), "no folder is made either");
        sink(&sim, "f", format).check().unwrap();
    }
}

#[test]
fn what_cannot_be_written_is_said_and_left_as_it_is() {
    for format in [Format::Json, Format::Parquet] {
        let sim = World::simulated(1);
        sim.disk.put("f", b"somebody's");
        let before = contents(&sim);
        let mut under_a_file = sink(&sim, "f/g/h", format);
        let error = under_a_file.check().unwrap_err();
        assert!(error.message.starts_with("`f/g/h` cannot be written: ") && !error.is_retry());
        let mut refused = sink(&sim, "f", format);
        sim.disk.fail_after(0);
        let error = refused.check().unwrap_err();
        assert!(error.message.starts_with("`f` cannot be written: ") && !error.is_retry());
        // There will be room again.
        sim.disk.set_capacity(before.values().map(|it| it.len() as u64).sum());
        assert!(refused.check().unwrap_err().is_retry());
        assert_eq!(contents(&sim), before, "{format:?}");
        sim.disk.set_capacity(u64::MAX);
        refused.check().unwrap();
    }
}

#[test]
fn a_real_disk_is_left_as_it_is_too() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let sink = |path: &Path| FileSink::new(&world, path, Format::Json, batch().schema()).unwrap();
    let path = folder.path().join("out.ndjson");
    std::fs::write(&path, "an earlier job's\n").unwrap();
    sink(&path).check().unwrap();
    sink(&folder.path().join("on/the/way/out.ndjson")).check().unwrap();
    assert_eq!(world.disk.list(folder.path()).unwrap(), std::slice::from_ref(&path));
    assert_eq!(std::fs::read(&path).unwrap(), b"an earlier job's\n");
    // Nobody may make a file there, whatever his rights are.
    let error = sink(Path::new("/proc/on/the/way/out.ndjson")).check().unwrap_err();
    assert!(error.message.starts_with("`/proc/on/the/way/out.ndjson` cannot be written: "));
}
