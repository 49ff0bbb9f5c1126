//! Metadata are read back, damaged or not.

use super::*;
use tidemill_env::SimDisk;

fn of(incarnation: u32) -> LogMeta {
    LogMeta { incarnation: Incarnation(incarnation), closed: false }
}

#[test]
fn metadata_of_a_log_are_these_bytes_and_older_ones_are_read() {
    let json = "{\n  \"incarnation\": 7,\n  \"closed\": true\n}";
    let meta = LogMeta { closed: true, ..of(7) };
    let text = format!("{TITLE}{:08x}\n{json}", crc32c(json.as_bytes()));
    assert_eq!(bytes_of(&meta), text.as_bytes());
    assert_eq!(parse::<LogMeta>(text.as_bytes()), Ok(meta));
    let json = "{\n  \"life\": 7\n}";
    let text = format!("{TITLE}{:08x}\n{json}", crc32c(json.as_bytes()));
    assert_eq!(parse::<LogMeta>(text.as_bytes()), Ok(of(7)));
}

#[test]
fn n4_damaged_metadata_are_never_taken_for_absent() {
    let disk = SimDisk::new(1);
    let folder = Path::new("");
    assert_eq!(read::<LogMeta>(&disk, folder).unwrap(), None);
    write(&disk, folder, &of(7)).unwrap();
    write(&disk, folder, &of(8)).unwrap();
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
            write(&disk, folder, &of(1)).unwrap();
            disk.fail_after(operations);
            let outcome = write(&disk, folder, &of(2));
            disk.power_cut();
            let left = read::<LogMeta>(&disk, folder).unwrap().expect("never none");
            assert!(left == of(2) || (left == of(1) && outcome.is_err()), "{operations} {seed}");
        }
    }
}
