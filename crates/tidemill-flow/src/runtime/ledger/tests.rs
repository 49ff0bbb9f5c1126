//! A torn tail is cut; anything else that is wrong is refused and left as it is; what no checkpoint
//! needs goes, and nothing else.

use super::*;
use proptest::prelude::*;
use tidemill_env::{Random, World};
use tidemill_wire::ledger::Cut;

fn owner() -> Owner {
    Owner { job: "j".to_owned(), seed: 0, sources: vec![("s".to_owned(), 1)] }
}

const AT_START: Opening =
    Opening::Anew(Beginning { after: Cycle::NONE, time: Micros(0), life: None });

fn anew(cycle: u64) -> Opening {
    Opening::Anew(Beginning { after: Cycle(cycle), time: Micros(7), life: None })
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
    let (mut ledger, _) =
        Ledger::open(&world.disk, folder.path(), &owner(), Opening::Resume).expect("new");
    ledger.append(&[entry(1), entry(2)]).expect("room");
    ledger.append(&[entry(3)]).expect("room");
    let path = folder.path().join("ledger");
    let mut bytes = std::fs::read(&path).expect("it is there");
    damage(&mut bytes);
    std::fs::write(&path, &bytes).expect("room");
    match Ledger::open(&world.disk, folder.path(), &owner(), Opening::Resume) {
        Ok((mut ledger, recorded)) => {
            let last = recorded.times.last().map_or(0, |(cycle, _)| cycle.0);
            assert_eq!(Ok(last), expected);
            ledger.append(&[entry(last + 1)]).expect("it goes on");
            let again =
                Ledger::open(&world.disk, folder.path(), &owner(), Opening::Resume).expect("whole");
            assert_eq!(again.1.cuts.len() as u64, last + 1);
        }
        Err(LedgerError { message, .. }) => {
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
fn a_job_begins_anew_in_its_own_folder_and_not_in_that_of_another() {
    let world = World::real();
    let folder = tempfile::tempdir().expect("a folder");
    let open = |job: &str, sources: u32, opening| {
        let sources = vec![("s".to_owned(), sources)];
        let owner = Owner { job: job.to_owned(), seed: 0, sources };
        Ledger::open(&world.disk, folder.path(), &owner, opening)
    };
    let (mut ledger, _) = open("mine", 1, AT_START).expect("new");
    ledger.append(&[entry(1), entry(2)]).expect("room");
    drop(ledger);
    let path = folder.path().join("ledger");
    let before = std::fs::read(&path).expect("it is there");
    for opening in [AT_START, anew(3)] {
        let Err(refused) = open("yours", 1, opening) else { panic!("it took the folder") };
        assert!(refused.message.contains("belongs to job `mine`"), "{}", refused.message);
        assert_eq!((&refused.path, refused.kind), (&path, ErrorKind::Invalid));
        assert_eq!(std::fs::read(&path).expect("still there"), before, "left as it was");
    }
    // The same job, also with other sources.
    assert_eq!(open("mine", 2, AT_START).expect("anew").1.last(), Cycle::NONE);
    // A head that is not whole is nobody's.
    std::fs::write(&path, &before[..9]).expect("room");
    open("yours", 1, AT_START).expect("anew");
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
        let open = || Ledger::open(&sim.world.disk, folder, &owner(), Opening::Resume);
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

/// What finds no room is written when there is some, whatever of it was there, and whenever the disk
/// says so.
#[test]
fn row_14_a_ledger_is_the_same_whenever_its_disk_was_full() {
    let folder = Path::new("/job");
    let open = |sim: &tidemill_env::SimWorld| {
        let mut opened = Ledger::open(&sim.world.disk, folder, &owner(), Opening::Resume);
        opened.iter_mut().for_each(|(ledger, _)| ledger.begin_next_at(300));
        opened
    };
    let written = |sim: &tidemill_env::SimWorld| -> Vec<_> {
        let files = files(&*sim.world.disk, folder).expect("a folder");
        files.into_iter().map(|it| (sim.disk.read(&it).expect("it is there"), it)).collect()
    };
    let mut refused = 0;
    for seed in 0..200 {
        let (sim, calm) = (World::simulated(seed), World::simulated(seed));
        let mut random = Random::new(seed);
        let [mut ledger, mut undisturbed] = [&sim, &calm].map(|it| open(it).expect("new").0);
        sim.disk.sync_dir(Path::new("/")).expect("it works");
        for cycle in 1..60 {
            undisturbed.append(&[entry(cycle)]).expect("room");
            sim.disk.report_full_late(random.below(2) == 0);
            sim.disk.set_capacity(sim.disk.used() + random.below(60));
            let mut new = &[entry(cycle)][..];
            while let Err(error) = ledger.append(std::mem::take(&mut new)) {
                assert!(error.kind == ErrorKind::Retry, "{error:?}");
                refused += 1;
                sim.disk.set_capacity(sim.disk.used() + random.below(60));
            }
        }
        assert_eq!(written(&sim), written(&calm), "seed {seed}");
        sim.disk.power_cut();
        sim.disk.set_capacity(u64::MAX);
        let recorded = open(&sim).expect("whole").1;
        assert_eq!(recorded.last(), Cycle(59), "seed {seed}: all of it is durable");
    }
    assert!(refused > 1_000, "{refused}");
}

/// Of a sync that fails otherwise nothing is asked again.
#[test]
fn row_15_a_sync_of_the_ledger_that_fails_otherwise_does_not_pass() {
    let sim = World::simulated(1);
    let opened = Ledger::open(&sim.world.disk, Path::new("/job"), &owner(), Opening::Resume);
    let mut ledger = opened.expect("new").0;
    sim.disk.fail_sync_after(0);
    assert!(ledger.append(&[entry(1)]).is_err_and(|it| it.kind == ErrorKind::Failed));
}

/// A ledger that cannot be opened for want of room can be when there is some.
#[test]
fn row_14_a_ledger_that_is_opened_while_the_disk_is_full_is_opened_later() {
    let sim = World::simulated(1);
    let open = || Ledger::open(&sim.world.disk, Path::new("/job"), &owner(), Opening::Resume);
    open().expect("new").0.append(&[entry(1)]).expect("room");
    sim.disk.set_capacity(sim.disk.used());
    assert!(open().map(|_| ()).expect_err("no room").kind == ErrorKind::Retry);
    sim.disk.set_capacity(u64::MAX);
    assert_eq!(open().expect("room").1.last(), Cycle(1));
}

/// The last file is written again when it is opened, at every operation of which the power may fail.
#[test]
fn a_power_cut_while_a_ledger_is_opened_leaves_no_hole_in_it() {
    for seed in 0..100 {
        let sim = World::simulated(seed);
        let folder = Path::new("/job");
        let open = |disk| Ledger::open(&disk, folder, &owner(), Opening::Resume);
        let process = || -> Arc<dyn Disk> { Arc::new(sim.disk.process()) };
        let mut ledger = open(process()).expect("a new one").0;
        sim.disk.sync_dir(Path::new("/")).expect("it works");
        ledger.append(&[entry(1)]).expect("it works");
        sim.disk.fail_sync_after(0);
        // Some sectors of it, any of which a power cut may leave without the others.
        let many: Vec<_> = (2..100).map(entry).collect();
        ledger.append(&many).expect_err("the sync fails");
        sim.disk.kill();
        sim.disk.fail_after(seed % 8);
        let opened = open(process()).map(|(_, recorded)| recorded.last().0);
        sim.disk.power_cut();
        let (_, recorded) = open(process()).expect("an end that is not whole is cut off");
        let last = recorded.last().0;
        assert!(opened.map_or(1..=99, |it| it..=it).contains(&last), "seed {seed}: {last}");
    }
}

#[test]
fn damage_before_the_last_file_is_refused() {
    let (world, folder) = (World::real(), tempfile::tempdir().expect("a folder"));
    let open = || Ledger::open(&world.disk, folder.path(), &owner(), Opening::Resume);
    let (mut ledger, _) = open().expect("new");
    ledger.begin_next_at(100);
    for cycle in 1..=40 {
        ledger.append(&[entry(cycle)]).expect("room");
        ledger.floor = Cycle(cycle);
    }
    let files = files(&*world.disk, folder.path()).expect("a folder");
    assert!(files.len() > 3, "{files:?}");
    let (_, recorded) = open().expect("whole");
    assert_eq!((recorded.after, recorded.times.len()), (Cycle::NONE, 40));
    let first = std::fs::read(&files[0]).expect("it is there");
    let damaged = [&first[..30], &[9], &first[31..]].concat();
    std::fs::write(&files[0], &damaged).expect("room");
    let LedgerError { path, message, .. } = open().map(|_| ()).expect_err("damaged");
    assert_eq!(path, files[0]);
    assert!(message.contains("corrupt record at byte"), "{message}");
    assert_eq!(std::fs::read(&files[0]).expect("still there"), damaged, "left as it was");
    std::fs::write(&files[0], &first[..first.len() - 3]).expect("room");
    assert!(open().expect("the rest").1.after > Cycle::NONE, "its cycles are not all there");
    // One that is missing in the middle: only what follows it is the ledger.
    std::fs::write(&files[0], &first).expect("room");
    std::fs::remove_file(&files[1]).expect("it was there");
    let (mut ledger, recorded) = open().expect("the rest");
    assert!(recorded.after > Cycle::NONE);
    assert_eq!(recorded.last(), Cycle(40));
    assert_eq!(recorded.time(recorded.after), Some(Micros(7)));
    assert!(files[0].exists(), "nothing goes because something else is missing");
    ledger.forget(recorded.after);
    assert!(!files[0].exists(), "a checkpoint says that it is over");
}

/// A beginning is known by its number in every file, and only once nothing is left of the life
/// before, wherever a crash comes.
#[test]
fn a_ledger_is_of_the_life_that_began_it_as_soon_as_it_is_that_lifes() {
    let folder = Path::new("/job");
    let begins = |life| Opening::Anew(Beginning { life, ..Beginning::default() });
    for crash in 0..40 {
        let sim = World::simulated(crash);
        let process = || -> Arc<dyn Disk> { Arc::new(sim.disk.process()) };
        let open = |opening| Ledger::open(&process(), folder, &owner(), opening);
        let is_of = |life| is_of_life(&*process(), folder, life).expect("it can be read");
        assert!(!is_of(1), "there is none");
        let (mut ledger, _) = open(begins(Some(1))).expect("new");
        sim.disk.sync_dir(Path::new("/")).expect("it works");
        ledger.begin_next_at(100);
        for cycle in 1..=20 {
            ledger.append(&[entry(cycle)]).expect("it works");
            ledger.floor = Cycle(cycle);
        }
        ledger.forget(Cycle(10));
        drop(ledger);
        assert!(is_of(1) && !is_of(2));
        assert_eq!(open(Opening::Resume).expect("whole").1.life, Some(1));
        sim.disk.fail_after(crash);
        let begun = open(begins(Some(2))).is_ok();
        sim.disk.power_cut();
        assert!(!begun || is_of(2), "what was begun is known again");
        let last = open(Opening::Resume).expect("whole").1.last();
        match is_of(2) {
            true => assert_eq!(last, Cycle::NONE, "nothing of the life before is left"),
            false => assert_eq!(last, Cycle(20), "it is the life before, whole"),
        }
    }
    let sim = World::simulated(1);
    drop(Ledger::open(&sim.world.disk, folder, &owner(), begins(None)).expect("new"));
    assert!(!is_of_life(&*sim.disk, folder, 1).expect("it can be read"), "it has no number");
}

/// What a ledger must say after a crash.
#[derive(Debug, Default)]
struct Model {
    /// Acknowledged.
    last: u64,
    /// Appended last, perhaps in vain.
    tried: u64,
    floor: u64,
    began: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_ledger_has_what_is_needed_after_any_crash(seed: u64) {
        let mut random = Random::new(seed);
        let sim = World::simulated(seed);
        let folder = Path::new("/job");
        let mut model = Model::default();
        let mut opening = AT_START;
        for _life in 0..12 {
            let disk: Arc<dyn Disk> = Arc::new(sim.disk.process());
            if random.below(3) > 0 {
                sim.disk.fail_after(random.below(60));
            }
            let opened = Ledger::open(&disk, folder, &owner(), opening);
            if let (Ok((ledger, recorded)), Opening::Anew(Beginning { after: at, .. })) =
                (&opened, opening)
            {
                assert_eq!((recorded.began, recorded.last(), ledger.after), (at, at, at));
                model = Model { last: at.0, tried: at.0, floor: at.0, began: at.0 };
            } else if let Ok((_, recorded)) = &opened {
                assert_eq!(recorded.began.0, model.began, "of the same life");
                assert!(recorded.after.0 <= model.floor, "{recorded:?} lacks some of {model:?}");
                let last = recorded.last().0;
                assert!((model.last..=model.tried).contains(&last), "{last}, not {model:?}");
                (model.last, model.tried) = (last, last);
                let first = recorded.after.0 + 1;
                let wanted: Vec<u64> = (first..=last).map(|cycle| cycle * 100).collect();
                let found: Vec<u64> = recorded.cuts.iter().map(|(_, cut)| cut.position).collect();
                assert_eq!(found, wanted);
            }
            // A job that was refused as the disk failed is asked for again.
            let Ok((mut ledger, _)) = opened else {
                sim.disk.power_cut();
                if matches!(opening, Opening::Anew(..)) {
                    continue;
                }
                opening = Opening::Resume;
                continue;
            };
            ledger.begin_next_at(150);
            for _step in 0..random.below(200) {
                let next = model.last + 1;
                let many = 1 + random.below(3);
                let entries: Vec<_> = (next..next + many).map(entry).collect();
                model.tried = next + many - 1;
                if ledger.append(&entries).is_err() {
                    break;
                }
                model.last = model.tried;
                if random.below(4) == 0 {
                    model.floor += random.below(model.last - model.floor + 1);
                    ledger.forget(Cycle(model.floor));
                    let older = ledger.older.front().map(|(_, last)| last.0);
                    assert!(older.is_none_or(|last| last > model.floor), "it went");
                }
            }
            drop(ledger);
            opening = match random.below(5) {
                0 => anew(random.below(9)),
                _ => Opening::Resume,
            };
            if random.below(2) == 0 { sim.disk.power_cut() } else { sim.disk.kill() }
        }
    }
}
