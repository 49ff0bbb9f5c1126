//! One contract for both disks; then what only the simulated world can do.

use super::*;

/// What every disk must do, in an existing empty folder.
fn disk_contract(disk: &dyn Disk, folder: &Path) {
    let a = folder.join("a");
    assert!(!disk.exists(&a).unwrap());
    assert_eq!(disk.read(&a).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.open_read(&a).err().unwrap().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.open_append(&a).err().unwrap().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.remove(&a).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.rename(&a, &folder.join("b")).unwrap_err().kind(), io::ErrorKind::NotFound);

    let mut file = disk.create(&a).unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"world").unwrap();
    assert_eq!(file.length().unwrap(), 11);
    file.truncate(5).unwrap();
    file.append(b"!").unwrap();
    file.sync().unwrap();
    disk.sync_dir(folder).unwrap();
    assert_eq!(disk.read(&a).unwrap(), b"hello!", "what follows a cut stands where it was cut");

    let reader = disk.open_read(&a).unwrap();
    let mut into = [0; 4];
    assert_eq!(reader.read_at(1, &mut into).unwrap(), 4);
    assert_eq!(&into, b"ello");
    assert_eq!(reader.read_at(5, &mut into).unwrap(), 1);
    assert_eq!(reader.read_at(6, &mut into).unwrap(), 0);
    assert_eq!(reader.read_at(1 << 40, &mut into).unwrap(), 0);
    assert_eq!(reader.length().unwrap(), 6);

    let mut again = disk.open_append(&a).unwrap();
    again.append(b"?").unwrap();
    assert_eq!(reader.length().unwrap(), 7, "a reader sees what is appended");

    let b = folder.join("b");
    disk.create(&b).unwrap().append(b"old").unwrap();
    disk.rename(&a, &b).unwrap();
    assert_eq!(disk.read(&b).unwrap(), b"hello!?");
    assert!(!disk.exists(&a).unwrap());
    again.append(b"#").unwrap();
    assert_eq!(disk.read(&b).unwrap(), b"hello!?#", "a handle follows its file, not its name");

    let identity = |name: &str| disk.identity(&folder.join(name)).unwrap();
    assert_eq!(identity("b"), identity("./b"));
    assert_ne!(identity("b"), identity("a"));
    assert_eq!(identity("none/a"), identity("none/./a"), "where nothing is yet");
    assert_ne!(identity("none/a"), identity("none/b"));

    disk.create_dir_all(&folder.join("x/y")).unwrap();
    disk.create_dir_all(&folder.join("x/y")).unwrap();
    assert!(disk.open_read(&folder.join("x")).is_err(), "a folder cannot be read");
    assert_eq!(disk.list(folder).unwrap(), [b.clone(), folder.join("x")]);
    assert_eq!(disk.list(&folder.join("x")).unwrap(), [folder.join("x/y")]);
    assert!(disk.create(&folder.join("none/file")).is_err());
    assert_eq!(disk.create(&b).unwrap().length().unwrap(), 0, "an earlier file is replaced");
    disk.remove(&b).unwrap();
    assert!(!disk.exists(&b).unwrap());
}

#[test]
fn both_disks_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    disk_contract(&*World::real().disk, folder.path());
    let sim = World::simulated(1);
    sim.world.disk.create_dir_all(Path::new("/data/here")).unwrap();
    disk_contract(&*sim.world.disk, Path::new("/data/here"));
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_never_more_than_was_written() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let disk = SimDisk::new(seed);
        let mut file = disk.create(Path::new("f")).unwrap();
        file.append(b"synced").unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.append(b" not synced").unwrap();
        disk.power_cut();
        let left = disk.read(Path::new("f")).unwrap();
        assert!(left.starts_with(b"synced") && left.len() <= 17, "{left:?}");
        assert!(file.append(b"x").is_err(), "the writer is dead");
        outcomes.insert(left.len());
    }
    assert!(outcomes.len() > 3, "seeds leave different tails: {outcomes:?}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let error = World::real().disk.open_read(&pipe).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_file_is_the_same_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("x")).unwrap();
    std::fs::write(at("a"), "").unwrap();
    std::fs::hard_link(at("a"), at("hard")).unwrap();
    for (link, target) in [("soft", "a"), ("far", "x/new"), ("twice", "far"), ("dir", "x")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    std::os::unix::fs::symlink("round", at("round")).unwrap();
    let disk = World::real().disk;
    let identity = |name: &str| disk.identity(&at(name)).unwrap();
    for name in ["x/../a", "hard", "soft", "dir/../soft"] {
        assert_eq!(identity(name), identity("a"), "{name}");
    }
    // The folder `none` would be made.
    for name in ["far", "twice", "dir/new", "x/./new", "none/../x/new", "x/none/../../dir/new"] {
        assert_eq!(identity(name), identity("x/new"), "{name}");
    }
    assert_ne!(identity("new"), identity("x/new"));
    assert_eq!(identity("none/far/a"), identity("none/more/../far/a"));
    assert!(disk.identity(&at("round")).is_err());
    let here = |name: &str| disk.identity(Path::new(name)).unwrap();
    assert_eq!(here("none"), here("./none"));
    assert_eq!(here(""), here("."));
}

#[test]
fn a_private_file_is_its_owners_alone_whatever_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for before in [None, Some(0o644)] {
        if let Some(mode) = before {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut file = World::real().disk.create_private(&path).unwrap();
        assert_eq!(file.length().unwrap(), 0, "an earlier file is replaced");
        file.append(b"secret").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn names_are_durable_once_their_folder_is_synced() {
    let disk = SimDisk::new(7);
    disk.put("kept", b"1");
    disk.create(Path::new("new")).unwrap().sync().unwrap();
    disk.remove(Path::new("kept")).unwrap();
    disk.power_cut();
    assert!(disk.exists(Path::new("kept")).unwrap(), "its removal was not synced");
    assert!(!disk.exists(Path::new("new")).unwrap(), "its name was not synced");
}

#[test]
fn the_nth_operation_fails_once() {
    let disk = SimDisk::new(0);
    let mut file = disk.create(Path::new("f")).unwrap();
    disk.fail_after(1);
    file.append(b"good").unwrap();
    assert!(file.append(b"half").is_err());
    file.append(b"!").unwrap();
    assert_eq!(disk.read(Path::new("f")).unwrap(), b"goodha!");
    assert_eq!(disk.operations(), 4);
}

#[test]
fn some_reads_fail() {
    let disk = SimDisk::new(0);
    disk.put("f", b"abc");
    let file = disk.open_read(Path::new("f")).unwrap();
    let read = || file.read_at(1, &mut [0; 8]).ok();
    disk.fail_reads_after(1, 2);
    assert_eq!([read(), read(), read(), read()], [Some(2), None, None, Some(2)]);
}

#[test]
fn the_simulated_clock_moves_only_when_told() {
    let sim = World::simulated(3);
    let (monotonic, wall) = (sim.world.clock.monotonic_micros(), sim.world.clock.wall_micros());
    sim.clock.advance(5);
    sim.world.clock.sleep_micros(7);
    sim.clock.jump_wall(-100);
    assert_eq!(sim.world.clock.monotonic_micros(), monotonic + 12);
    assert_eq!(sim.world.clock.wall_micros(), wall + 12 - 100);
}

#[test]
fn what_goes_past_the_cache_is_what_would_go_through_it() {
    // A folder that is on a disk.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for disk in [World::real().disk, Arc::new(SimDisk::new(0)) as Arc<dyn Disk>] {
        let path = folder.path().join("f");
        disk.create_dir_all(folder.path()).unwrap();
        let mut file = disk.create(&path).unwrap();
        let mut wanted = Vec::new();
        let mut random = Random::new(3);
        let block = 4096;
        let long = 2 << 20;
        for bytes in [5, long, long + 1, block - 6, long + 3 * block, long - 1, 3 * long + 17, 0] {
            let bytes: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
            file.append_direct(&bytes).unwrap();
            wanted.extend(&bytes);
            assert_eq!(file.length().unwrap(), wanted.len() as u64);
        }
        let reader = disk.open_read(&path).unwrap();
        let length = wanted.len();
        for (from, bytes) in
            [(0, length), (0, long), (1, long), (block - 1, long + 2), (77, length), (length, long)]
        {
            let mut into = vec![0; bytes];
            let count = reader.read_direct(from as u64, &mut into).unwrap();
            let there = &wanted[from..length.min(from + bytes)];
            assert!(into[..count] == *there, "{bytes} bytes from {from}, before they are synced");
        }
        file.sync().unwrap();
        assert!(disk.read(&path).unwrap() == wanted);
        let cut = long + 77;
        file.truncate(cut as u64).unwrap();
        wanted.truncate(cut);
        for _ in 0..2 {
            file.append_direct(&vec![7; long]).unwrap();
            wanted.extend(vec![7; long]);
        }
        assert!(disk.read(&path).unwrap() == wanted);
        drop(file);
        let mut file = disk.open_append(&path).unwrap();
        file.append_direct(&vec![8; long + 5]).unwrap();
        wanted.extend(vec![8; long + 5]);
        assert!(disk.read(&path).unwrap() == wanted);
    }
}

#[test]
fn what_is_appended_is_the_same_from_any_place_in_memory() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = World::real().disk;
    for seed in 0..12 {
        let path = folder.path().join(format!("{seed}"));
        let (mut file, mut wanted) = (disk.create(&path).unwrap(), Vec::new());
        let mut random = Random::new(seed);
        for _ in 0..8 {
            // Where they begin in memory, and where in the file.
            let from = [0, 0, BLOCK_BYTES, 1 + random.below(5_000) as usize];
            let from = from[random.below(4) as usize];
            let blocks = random.below(700) as usize * BLOCK_BYTES;
            let more = [0, random.below(5_000) as usize][random.below(2) as usize];
            let mut bytes = AlignedBuffer::default();
            bytes.extend_zeros(from);
            bytes.extend_from_slice(&random.next().to_le_bytes().repeat((blocks + more) / 8));
            file.append_direct(&bytes[from..]).unwrap();
            wanted.extend_from_slice(&bytes[from..]);
            assert_eq!(file.length().unwrap(), wanted.len() as u64, "seed {seed}");
        }
        file.sync().unwrap();
        assert!(disk.read(&path).unwrap() == wanted, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let numbers = |seed, purpose| {
        let mut random = World::simulated(seed).world.random(purpose);
        (0..8).map(|_| random.next()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1, 2), numbers(1, 2));
    assert_ne!(numbers(1, 2), numbers(1, 3));
    assert_ne!(numbers(1, 2), numbers(2, 2));
    let mut random = Random::new(9);
    assert!((0..1000).all(|_| random.below(10) < 10));
    assert_eq!(random.below(0), 0);
}

#[test]
fn both_ends_of_a_connection_talk_at_once() {
    let world = World::real();
    let listener = world.net.listen("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let echo = world.spawn.spawn(
        "echo",
        Box::new(move || {
            let mut connection = listener.accept().unwrap();
            let mut bytes = [0; 4];
            connection.reader.read_exact(&mut bytes).unwrap();
            connection.writer.write_all(&bytes).unwrap();
        }),
    );
    let timeout = std::time::Duration::from_secs(5);
    let mut connection = world.net.connect(&address, timeout).unwrap();
    connection.writer.write_all(b"ping").unwrap();
    let mut bytes = [0; 4];
    connection.reader.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"ping");
    echo.join();
}

type Opens<'a> = dyn Fn(&Path) -> io::Result<Arc<dyn RandomAccessFile>> + 'a;

/// What every file of positioned writes must do, in an existing empty folder.
fn placed_contract(disk: &dyn Disk, open: &Opens, folder: &Path) {
    let path = folder.join("placed");
    let file = open(&path).unwrap();
    file.reserve(100).unwrap();
    assert_eq!(file.length().unwrap(), 100);
    file.reserve(10).unwrap();
    assert_eq!(file.length().unwrap(), 100, "space is never given back by a reservation");
    file.write_at(3, b"abc").unwrap();
    file.write_at(200, b"far").unwrap();
    let mut into = [9; 6];
    assert_eq!(file.read_at(1, &mut into).unwrap(), 6);
    assert_eq!(&into, b"\0\0abc\0");
    file.write_parts_at(90, &[b"over", b"", b" the edge ", b"of it"]).unwrap();
    let mut into = [9; 20];
    assert_eq!(file.read_at(90, &mut into).unwrap(), 20);
    assert_eq!(&into, b"over the edge of it\0");
    drop(file);
    let again = open(&path).unwrap();
    assert_eq!(again.length().unwrap(), 203, "a file that is there stays as it is");
    again.set_length(4).unwrap();
    again.sync().unwrap();
    assert_eq!(disk.read(&path).unwrap(), b"\0\0\0a");

    let whole = disk.file_system(folder).unwrap();
    again.write_at(0, b"synced").unwrap();
    whole.sync().unwrap();
    assert_eq!(disk.read(&path).unwrap(), b"synced");
    assert!(disk.file_system(&folder.join("none")).is_err());

    let lock = disk.lock(&folder.join("lock")).unwrap();
    let second = disk.lock(&folder.join("lock")).err().expect("held");
    assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    drop(disk.lock(&folder.join("lock")).unwrap());

    disk.create_dir_all(&folder.join("sub")).unwrap();
    disk.create(&folder.join("sub/file")).unwrap();
    assert!(disk.remove_dir(&folder.join("sub")).is_err(), "it is not empty");
    disk.remove(&folder.join("sub/file")).unwrap();
    disk.remove_dir(&folder.join("sub")).unwrap();
    assert!(!disk.exists(&folder.join("sub")).unwrap());
}

#[test]
fn both_disks_write_at_any_place() {
    let folder = tempfile::tempdir().unwrap();
    let disk = World::real().disk;
    placed_contract(&*disk, &|path| disk.open_random_access(path), folder.path());
    let folder = tempfile::tempdir().unwrap();
    placed_contract(&*disk, &|path| disk.open_mapped(path), folder.path());
    let sim = World::simulated(1);
    let disk = &sim.world.disk;
    disk.create_dir_all(Path::new("/data")).unwrap();
    placed_contract(&**disk, &|path| disk.open_random_access(path), Path::new("/data"));
}

/// A file that is written again from `from` to `to` reads as before, of both disks.
#[test]
fn what_is_written_again_reads_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (real, sim) = (World::real().disk, World::simulated(1));
    let files = [
        real.open_random_access(&folder.path().join("placed")).unwrap(),
        real.open_mapped(&folder.path().join("mapped")).unwrap(),
        sim.disk.open_random_access(Path::new("f")).unwrap(),
    ];
    // Longer than two pieces, of bytes that do not repeat with them.
    let bytes: Vec<u8> = (0..(2 << 20) + 700).map(|it: u32| (it % 251) as u8).collect();
    let length = bytes.len() as u64;
    for file in files {
        file.reserve(100).unwrap();
        file.write_at(0, &bytes).unwrap();
        let again = [(0, length), (3, length - 1), (700, 701), (length, length), (9, 5)];
        again.iter().for_each(|(from, to)| file.rewrite(*from, *to).unwrap());
        let short = file.rewrite(100, length + 1).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        let mut read = vec![0; bytes.len() + 1];
        assert_eq!(file.read_full_at(0, &mut read).unwrap(), bytes.len(), "it did not grow");
        assert!(read[..bytes.len()] == bytes);
    }
    let file = sim.disk.open_random_access(Path::new("f")).unwrap();
    let before = sim.disk.operations();
    file.rewrite(1, length).unwrap();
    assert_eq!(sim.disk.operations() - before, 3, "in pieces");
    file.rewrite(length, length).unwrap();
    assert_eq!(sim.disk.operations() - before, 3, "nothing is nothing");
}

#[test]
fn a_mapped_file_grows_shrinks_and_is_written_to_by_many() {
    let folder = tempfile::tempdir().unwrap();
    let disk = World::real().disk;
    let path = folder.path().join("mapped");
    let file = disk.open_mapped(&path).unwrap();
    file.write_at(0, b"before it is mapped").unwrap();
    file.reserve(10_000).unwrap();
    for step in 0..40u64 {
        file.reserve(10_000 * (step + 1)).unwrap();
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let file = &file;
                scope.spawn(move || {
                    let at = step * 10_000 + part * 2500 + 19;
                    let byte = (step * 4 + part) as u8;
                    file.write_at(at, &[byte; 2500][..2500.min(409_981 - at as usize)]).unwrap();
                    if part == 3 {
                        file.sync().unwrap();
                    }
                });
            }
        });
    }
    let left = disk.read(&path).unwrap();
    assert!(left.starts_with(b"before it is mapped"));
    for (at, byte) in left[19..400_000].iter().enumerate() {
        assert_eq!(*byte, (at / 2500) as u8, "byte {at}");
    }
    file.set_length(5000).unwrap();
    file.write_at(4990, &[9; 20]).unwrap();
    file.reserve(100_000).unwrap();
    file.write_at(60_000, &[8; 10]).unwrap();
    file.sync().unwrap();
    let left = disk.read(&path).unwrap();
    assert_eq!((left.len(), left[5009], left[5010], left[60_009]), (100_000, 9, 0, 8));
}

#[test]
fn a_power_cut_keeps_synced_sectors_and_any_of_the_others() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let disk = SimDisk::new(seed);
        let path = Path::new("f");
        let file = disk.open_random_access(path).unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.write_at(512, &[2; 1024]).unwrap();
        disk.power_cut();
        let left = disk.read(path).unwrap();
        assert_eq!(left[..512], [1; 512]);
        outcomes.insert((left.get(512).copied(), left.get(1024).copied()));
    }
    assert!(outcomes.contains(&(Some(0), Some(2))), "a later sector alone: {outcomes:?}");
    assert!(outcomes.contains(&(Some(2), Some(2))), "{outcomes:?}");
}

#[test]
fn what_a_failed_sync_gave_up_stays_lost() {
    let disk = SimDisk::new(1);
    let file = disk.open_random_access(Path::new("f")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.write_at(0, &[1; 512]).unwrap();
    disk.fail_sync_after(0);
    assert!(file.sync().is_err());
    file.write_at(512, &[2; 512]).unwrap();
    file.sync().unwrap();
    disk.power_cut();
    let left = disk.read(Path::new("f")).unwrap();
    assert_eq!((left[0], left[512]), (0, 2));
}

#[test]
fn what_a_failed_sync_gave_up_is_durable_once_it_is_written_again_and_synced() {
    for (again, synced) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut kept = 0;
        for seed in 0..16 {
            let disk = SimDisk::new(seed);
            let path = Path::new("f");
            let mut file = disk.create(path).unwrap();
            disk.sync_dir(Path::new("")).unwrap();
            file.append(&[1; 1500]).unwrap();
            file.sync().unwrap();
            file.append(&[2; 1500]).unwrap();
            disk.fail_sync_after(0);
            assert!(file.sync().is_err());
            disk.kill();
            // The next life finds all of it.
            let file = disk.open_random_access(path).unwrap();
            if again {
                file.rewrite(1500, 3000).unwrap();
            }
            if synced {
                file.sync().unwrap();
            }
            disk.power_cut();
            let left = disk.read(path).unwrap();
            assert_eq!(left[..1500], [1; 1500], "what was durable stays so");
            kept += u32::from(left[1500..] == [2; 1500]);
        }
        match (again, synced) {
            (true, true) => assert_eq!(kept, 16),
            // It says nothing of a sync that failed before.
            (false, _) => assert_eq!(kept, 0),
            (true, false) => assert!(kept < 16, "{kept}: it syncs nothing"),
        }
    }
}

#[test]
fn a_full_disk_has_room_again_when_something_goes() {
    let disk = SimDisk::new(1);
    disk.put("other", &[0; 600]);
    disk.set_capacity(1000);
    let file = disk.open_random_access(Path::new("f")).unwrap();
    assert_eq!(file.reserve(512).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.remove(Path::new("other")).unwrap();
    file.reserve(512).unwrap();
    assert_eq!(disk.used(), 512);
}

#[test]
fn one_sync_makes_all_files_and_names_durable() {
    let disk = SimDisk::new(1);
    let whole = disk.file_system(Path::new("")).unwrap();
    let write = |name: &str, byte| {
        disk.open_random_access(Path::new(name)).unwrap().write_at(0, &[byte; 700]).unwrap();
    };
    write("a", 1);
    write("b", 2);
    whole.sync().unwrap();
    write("c", 3);
    disk.power_cut();
    assert_eq!(disk.read(Path::new("a")).unwrap(), [1; 700]);
    assert_eq!(disk.read(Path::new("b")).unwrap(), [2; 700]);
    assert!(!disk.exists(Path::new("c")).unwrap());
    assert!(whole.sync().is_err(), "the process that opened it is dead");
}

#[test]
fn a_failed_sync_of_all_files_is_told_again_by_those_that_lost_something() {
    let mut told = 0;
    for seed in 0..32 {
        let disk = SimDisk::new(seed);
        let whole = disk.file_system(Path::new("")).unwrap();
        let files: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| {
                let file = disk.open_random_access(Path::new(name)).unwrap();
                file.write_at(0, &[7; 512]).unwrap();
                (name, file)
            })
            .collect();
        disk.sync_dir(Path::new("")).unwrap();
        disk.fail_sync_after(0);
        assert!(whole.sync().is_err());
        let outcomes: Vec<_> = files.iter().map(|(name, file)| (name, file.sync())).collect();
        assert!(files.iter().all(|(_, file)| file.sync().is_ok()), "told once");
        disk.power_cut();
        for (name, outcome) in outcomes {
            let kept = disk.read(Path::new(name)).unwrap() == [7; 512];
            assert_eq!(outcome.is_ok(), kept, "{name}: an error for what is lost, and no other");
            told += usize::from(!kept);
        }
    }
    assert!((10..90).contains(&told), "{told}");
}

#[test]
fn a_disk_says_how_much_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let space = World::real().disk.space(folder.path()).unwrap();
    assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
    let disk = SimDisk::new(1);
    disk.set_capacity(1000);
    disk.put("a", &[0; 300]);
    let space = disk.space(Path::new("")).unwrap();
    assert_eq!((space.total_bytes, space.free_bytes), (1000, 700));
}

#[test]
fn a_dead_process_does_nothing_any_more() {
    let sim = World::simulated(1);
    let (old, path) = (sim.process(), Path::new("a"));
    old.disk.create(path).unwrap().append(b"kept").unwrap();
    let _lock = old.disk.lock(Path::new("lock")).unwrap();
    sim.disk.kill();
    assert!(old.disk.read(path).is_err());
    assert!(old.disk.create(path).is_err());
    assert!(old.disk.open_random_access(path).is_err());
    assert!(old.disk.lock(Path::new("lock")).is_err());
    let new = sim.process();
    assert_eq!(new.disk.read(path).unwrap(), b"kept");
    assert!(new.disk.lock(Path::new("lock")).is_ok(), "the dead one holds nothing");
}
