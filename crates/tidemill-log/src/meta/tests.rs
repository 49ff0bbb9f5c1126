//! Metadata are read back, damaged or not.

use super::*;
use tidemill_env::SimDisk;

#[test]
fn n4_damaged_metadata_are_never_taken_for_absent() {
    let disk = SimDisk::new(1);
    let folder = Path::new("");
    assert_eq!(read::<LogMeta>(&disk, folder).unwrap(), None);
    write(&disk, folder, &LogMeta { life: Life(7) }).unwrap();
    write(&disk, folder, &LogMeta { life: Life(8) }).unwrap();
    let length = disk.read(Path::new("meta")).unwrap().len() as u64;
    for at in 0..length {
        disk.flip("meta", at, 0x10).unwrap();
        assert!(read::<LogMeta>(&disk, folder).is_err(), "byte {at}");
        disk.flip("meta", at, 0x10).unwrap();
    }
    for cut in 0..length {
        let bytes = disk.read(Path::new("meta")).unwrap();
        let other = SimDisk::new(1);
        other.put("meta", &bytes[..cut as usize]);
        assert!(read::<LogMeta>(&other, folder).is_err(), "cut at {cut}");
    }
}

#[test]
fn e1_a_power_cut_at_any_step_leaves_the_old_or_the_new() {
    for operations in 0..8 {
        for seed in 0..8 {
            let disk = SimDisk::new(seed);
            let folder = Path::new("");
            write(&disk, folder, &LogMeta { life: Life(1) }).unwrap();
            disk.fail_after(operations);
            let outcome = write(&disk, folder, &LogMeta { life: Life(2) });
            disk.power_cut();
            let left = read::<LogMeta>(&disk, folder).unwrap().expect("never none").life;
            assert!(
                left == Life(2) || (left == Life(1) && outcome.is_err()),
                "{operations} {seed}"
            );
        }
    }
}
