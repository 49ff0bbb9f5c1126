//! An id is made once, survives a power cut, and is never replaced.

use super::*;
use std::path::PathBuf;

fn id(world: &World, wanted: Option<&str>) -> io::Result<String> {
    cluster_id(world, &PathBuf::from("data"), wanted)
}

#[test]
fn it_is_made_once_and_survives_a_power_cut() {
    let sim = World::simulated(7);
    sim.world.disk.create_dir_all(Path::new("data")).unwrap();
    sim.world.disk.sync_dir(Path::new("")).unwrap();
    let first = id(&sim.world, None).unwrap();
    assert_eq!(first.len(), ID_CHARS);
    assert!(first.bytes().all(|it| DIGITS.contains(&it)), "{first}");
    sim.disk.power_cut();
    assert_eq!(id(&sim.world, None).unwrap(), first);
    assert_eq!(id(&sim.world, Some(&first)).unwrap(), first);
    let other = World::simulated(8);
    other.world.disk.create_dir_all(Path::new("data")).unwrap();
    assert_ne!(id(&other.world, None).unwrap(), first);
}

#[test]
fn one_that_is_wanted_is_taken_the_first_time_and_refused_later() {
    let sim = World::simulated(7);
    sim.world.disk.create_dir_all(Path::new("data")).unwrap();
    assert_eq!(id(&sim.world, Some("mine")).unwrap(), "mine");
    let error = id(&sim.world, Some("yours")).unwrap_err();
    assert!(error.to_string().contains("`mine`"), "{error}");
    assert_eq!(id(&sim.world, None).unwrap(), "mine");
}

#[test]
fn a_damaged_file_is_not_replaced() {
    let sim = World::simulated(7);
    sim.world.disk.create_dir_all(Path::new("data")).unwrap();
    let path = Path::new("data").join(FILE);
    for text in ["", "{", "{\"version\":2,\"cluster_id\":\"x\"}", "{\"version\":1}"] {
        sim.world.disk.create(&path).unwrap().append(text.as_bytes()).unwrap();
        let error = id(&sim.world, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let says = if text.contains('2') { "version 2" } else { "bring it back from a copy" };
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(sim.world.disk.read(&path).unwrap(), text.as_bytes());
    }
}
