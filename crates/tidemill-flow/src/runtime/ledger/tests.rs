//! A torn tail is cut; anything else that is wrong is refused and left as it is.

use super::*;
use tidemill_env::World;

fn owner() -> Owner {
    Owner { job: "j".to_owned(), seed: 0, sources: vec![("s".to_owned(), 1)] }
}

fn entry(cycle: u64) -> LedgerEntry {
    let position = cycle * 100;
    let cut = Cut { source: 0, slice: 0, position, ended: false, idle: false };
    LedgerEntry::Cycle { cycle: Cycle(cycle), time: Micros(7), cuts: vec![cut] }
}

/// Writes cycles 1 to 3, damages the file, and says what opening it gives.
#[track_caller]
fn check(damage: impl Fn(&mut Vec<u8>), expected: Result<u64, &str>) {
    let world = World::real();
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ledger, _) = Ledger::open(&*world.disk, folder.path(), &owner(), true).expect("new");
    ledger.append(&[entry(1), entry(2)]).expect("room");
    ledger.append(&[entry(3)]).expect("room");
    let path = folder.path().join("ledger");
    let mut bytes = std::fs::read(&path).expect("it is there");
    damage(&mut bytes);
    std::fs::write(&path, &bytes).expect("room");
    match Ledger::open(&*world.disk, folder.path(), &owner(), true) {
        Ok((mut ledger, recorded)) => {
            let last = recorded.times.last().map_or(0, |(cycle, _)| cycle.0);
            assert_eq!(Ok(last), expected);
            ledger.append(&[entry(last + 1)]).expect("it goes on");
            let again = Ledger::open(&*world.disk, folder.path(), &owner(), true).expect("whole");
            assert_eq!(again.1.cuts.len() as u64, last + 1);
        }
        Err((_, message)) => {
            let wanted = expected.expect_err("refused although it should open");
            assert!(message.contains(wanted), "{message}");
            assert_eq!(std::fs::read(&path).expect("still there"), bytes, "left as it was");
        }
    }
}

#[test]
fn a_whole_ledger_is_read() {
    check(|_| {}, Ok(3));
}

#[test]
fn a_tail_torn_at_any_byte_costs_the_last_cycle_only() {
    for cut in 1..14 {
        check(|bytes| bytes.truncate(bytes.len() - cut), Ok(2));
    }
}

#[test]
fn a_torn_head_is_a_new_ledger() {
    for length in [0, 1, 9, 20] {
        check(|bytes| bytes.truncate(length), Ok(0));
    }
}

#[test]
fn damage_in_the_middle_is_refused() {
    check(|bytes| bytes[30] ^= 1, Err("corrupt record at byte"));
}

#[test]
fn a_flipped_bit_in_the_head_is_refused() {
    check(|bytes| bytes[9] ^= 1, Err("corrupt record at byte 0"));
}

/// A failed sync gives bytes up that can still be read: whoever believes them must write them.
#[test]
fn row_15_what_a_failed_sync_gave_up_is_not_believed_without_being_written() {
    for seed in 0..20 {
        let sim = World::simulated(seed);
        let folder = Path::new("/job");
        sim.disk.create_dir_all(folder).expect("there is room");
        sim.disk.sync_dir(Path::new("/")).expect("it works");
        let open = || Ledger::open(&*sim.world.disk, folder, &owner(), true);
        let mut ledger = open().expect("a new one").0;
        ledger.append(&[entry(1)]).expect("it works");
        sim.disk.fail_sync_after(0);
        // More than a sector, so that what comes next does not happen to write all of it again.
        let many: Vec<_> = (2..100).map(entry).collect();
        ledger.append(&many).expect_err("the sync fails");
        let (mut ledger, recorded) = open().expect("it can be read");
        let last = recorded.last().0;
        ledger.append(&[entry(last + 1)]).expect("the next sync works");
        sim.disk.power_cut();
        let (_, recorded) = open().expect("nothing in the middle is lost");
        assert_eq!(recorded.last().0, last + 1, "seed {seed}");
    }
}
