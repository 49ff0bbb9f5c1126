//! Bytes that changed on the disk, files that went or came back: told, never served, never cut.

use super::*;

/// A log with 60 chunks in several sealed segments and an open one, all durable; then stopped.
fn full(seed: u64, clean: bool) -> (SimWorld, Vec<Vec<u8>>) {
    let sim = World::simulated(seed);
    let (log, streamlet) = started(&sim, spec());
    for index in 0..60 {
        let text = format!("{index} {}", "w".repeat(3000));
        put(&streamlet, text.as_bytes()).unwrap().on_durable(Box::new(|it| it.unwrap()));
        if index % 3 == 0 || index > 50 {
            log.sync();
        }
    }
    let all = values(&streamlet);
    if clean {
        log.close();
    } else {
        sim.disk.kill();
    }
    (sim, all)
}

/// What can be read, from both sides of whatever is in the way; each chunk is compared.
fn readable(streamlet: &Streamlet, all: &[Vec<u8>]) -> (usize, Vec<ReadError>) {
    let (mut cursor, mut offset, mut count, mut errors) = (ReadCursor::default(), 0, 0, vec![]);
    while offset < all.len() as i64 {
        match streamlet.read(&mut cursor, offset, ReadLimit::default()) {
            Ok(found) => {
                assert!(!found.chunks.is_empty(), "no silence below the watermark");
                for chunk in &found.chunks {
                    let head = ChunkHead::check(chunk).unwrap();
                    assert_eq!(value(chunk), all[head.base_offset as usize], "never wrong bytes");
                    count += 1;
                }
                offset = found.next_offset;
            }
            Err(error) => {
                offset = match &error {
                    ReadError::Corrupt { next: Some(next), offset: from, .. }
                    | ReadError::Missing { next, from, .. } => {
                        assert!(next > from && *from == offset);
                        *next
                    }
                    _ => offset + 1,
                };
                errors.push(error);
            }
        }
    }
    (count, errors)
}

#[test]
fn n3_row_20_a_flipped_bit_anywhere_in_durable_data_is_told_and_costs_one_chunk_at_most() {
    for clean in [true, false] {
        let (probe, _) = full(1, clean);
        let files = segment_files(&probe);
        assert!(files.len() >= 3);
        let mut random = tidemill_env::Random::new(9);
        for round in 0..400 {
            let (sim, all) = full(1, clean);
            let path = &files[round % files.len()];
            let length = sim.disk.read(path).unwrap().len() as u64;
            let at = random.below(length);
            sim.disk.flip(path, at, 1 << random.below(8)).unwrap();
            let (_log, streamlet) = reopened(&sim);
            assert_eq!(streamlet.high_watermark(), 60, "nothing is cut: byte {at} of {path:?}");
            let (count, errors) = readable(&streamlet, &all);
            assert!(count >= 59 && count + errors.len() == 60, "byte {at}: {errors:?}");
            for error in errors {
                let ReadError::Corrupt { stream, path: named, .. } = error else {
                    panic!("{error}")
                };
                assert_eq!((&*stream, &named), ("s", path));
            }
        }
    }
}

#[test]
fn row_20_damage_in_an_open_segment_is_not_a_torn_tail() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    let mut positions = Vec::new();
    for index in 0..8u8 {
        let append = put(&streamlet, &[index; 600]).unwrap();
        positions.push(append.position);
        append.on_durable(Box::new(|it| it.unwrap()));
        log.sync();
    }
    let all = values(&streamlet);
    let path = segment_files(&sim)[0].clone();
    sim.disk.kill();
    // Without its marks, so that the references alone must tell; and damaged below its end.
    for at in (512..1536).step_by(4) {
        sim.disk.flip(&path, at, 0xff).unwrap();
    }
    sim.disk.flip(&path, positions[4] + 70, 1).unwrap();
    let (log, streamlet) = reopened(&sim);
    assert!(matches!(log.findings(), [Finding::Damaged { .. }]), "{:?}", log.findings());
    assert_eq!(streamlet.high_watermark(), 8);
    let (count, errors) = readable(&streamlet, &all);
    assert_eq!((count, errors.len()), (7, 1));
}

/// Offsets 0, 1 and 3 are in one group and 2 in another; 1 is damaged when nothing is behind it.
#[test]
fn row_20_a_reader_that_is_past_damage_finds_what_comes_behind_it() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 2, ..spec() });
    let append = |lane: u64, text: &[u8]| {
        let options = AppendOptions { order_key: lane };
        let append = streamlet.append(&batch_with(text), options).unwrap();
        let position = append.position;
        append.on_durable(Box::new(|it| it.unwrap()));
        log.sync();
        position
    };
    append(0, b"0");
    let damaged = append(0, b"1");
    append(1, b"2");
    let segment = Arc::clone(streamlet.segments().values().next().unwrap());
    sim.disk.flip(&segment.path, damaged + 20, 1).unwrap();
    while segment.forget_one() {}
    let mut cursor = ReadCursor::default();
    let refused = streamlet.read(&mut cursor, 1, ReadLimit::default());
    assert!(matches!(refused, Err(ReadError::Corrupt { offset: 1, next: Some(2), .. })));
    for (offset, text) in [(2, b"2"), (3, b"3")] {
        if offset == 3 {
            append(0, text);
        }
        let found = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
        assert_eq!((found.chunks.len(), value(&found.chunks[0])), (1, &text[..]));
    }
}

#[test]
fn n3_a_truncated_segment_keeps_its_offsets_taken() {
    for (index, keep) in [(0, 30_000), (1, 4096), (1, 5000)] {
        let (sim, all) = full(1, true);
        let path = segment_files(&sim)[index].clone();
        let bytes = sim.disk.read(&path).unwrap();
        sim.disk.put(&path, &bytes[..keep]);
        let (log, streamlet) = reopened(&sim);
        assert!(matches!(log.findings(), [Finding::Damaged { .. }]));
        let (count, errors) = readable(&streamlet, &all);
        assert!(count < 60 && !errors.is_empty());
        assert!(put(&streamlet, b"new").unwrap().base_offset >= 60);
    }
}

#[test]
fn a_missing_or_unreadable_segment_is_a_gap_that_is_told() {
    for how in 0..3 {
        let (sim, all) = full(1, true);
        let files = segment_files(&sim);
        match how {
            0 => sim.disk.remove(&files[1]).unwrap(),
            1 => sim.disk.put(&files[1], &[0; 100]),
            _ => {
                // Yesterday's file of another group, under this name (row 21).
                let other = sim.disk.read(&files[0]).unwrap();
                sim.disk.put(&files[1], &other);
            }
        }
        let (log, streamlet) = reopened(&sim);
        assert_eq!(log.findings().len(), usize::from(how > 0));
        assert_eq!(how > 0, sim.disk.exists(&files[1]).unwrap(), "it stays where it is");
        assert_eq!(streamlet.high_watermark(), 60, "nothing behind the gap is cut");
        let (count, errors) = readable(&streamlet, &all);
        assert!(count > 30, "{count}");
        assert!(matches!(&errors[..], [ReadError::Missing { .. }]), "{errors:?}");
    }
}

#[test]
fn row_21_a_chunk_at_another_place_is_not_served() {
    let (sim, all) = full(1, true);
    let path = segment_files(&sim)[0].clone();
    let mut bytes = sim.disk.read(&path).unwrap();
    let second = 4096 + (format::entry_bytes(68 + 3002)) as usize;
    let first = bytes[4096..second].to_vec();
    bytes[second..second + first.len()].copy_from_slice(&first);
    sim.disk.put(&path, &bytes);
    let (_log, streamlet) = reopened(&sim);
    let (count, errors) = readable(&streamlet, &all);
    assert_eq!(count, 59);
    assert!(matches!(&errors[..], [ReadError::Corrupt { offset: 1, next: Some(2), .. }]));
}

/// The newest segment is another matter: one node alone cannot know that there was more.
#[test]
fn row_21_an_old_copy_of_a_segment_is_a_gap_that_is_told() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    let mut copies = Vec::new();
    for index in 0..60 {
        let text = format!("{index} {}", "w".repeat(3000));
        put(&streamlet, text.as_bytes()).unwrap().on_durable(Box::new(|it| it.unwrap()));
        log.sync();
        let newest = segment_files(&sim).pop().unwrap();
        copies.push((newest.clone(), sim.disk.read(&newest).unwrap()));
    }
    let all = values(&streamlet);
    log.close();
    let files = segment_files(&sim);
    let is_newest = |path: &PathBuf| files.last() == Some(path);
    let mut tried = 0;
    for (index, (path, copy)) in copies.iter().enumerate().filter(|(_, it)| !is_newest(&it.0)) {
        let now = sim.disk.read(path).unwrap();
        sim.disk.put(path, copy);
        let (log, streamlet) = reopened(&sim);
        assert_eq!(streamlet.high_watermark(), 60, "nothing behind it is cut");
        let (count, errors) = readable(&streamlet, &all);
        let lost = 60 - count as i64;
        let first = index as i64 + 1;
        match &errors[..] {
            // The copy has all chunks of its segment, and lacks its end mark at most.
            [] => assert_eq!(lost, 0),
            [ReadError::Missing { from, next, .. }] => {
                assert_eq!((*from, *next), (first, first + lost));
                tried += 1;
            }
            other => panic!("an old copy of chunk {index}: {other:?}"),
        }
        assert_eq!(put(&streamlet, b"new").unwrap().base_offset, 60, "no offset is given twice");
        drop((streamlet, log));
        sim.disk.kill();
        for file in segment_files(&sim).into_iter().filter(|it| !files.contains(it)) {
            sim.disk.remove(&file).unwrap();
        }
        sim.disk.put(path, &now);
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn n4_a_stream_without_good_metadata_is_set_aside_and_nothing_is_deleted() {
    for how in 0..4 {
        let (sim, _) = full(1, true);
        let files = segment_files(&sim);
        let meta = files[0].with_file_name("meta");
        match how {
            0 => sim.disk.flip(&meta, 100, 1).unwrap(),
            1 => sim.disk.put(&meta, b""),
            2 => {
                sim.disk.remove(&meta).unwrap();
                sim.disk.remove(&meta.with_file_name("meta.old")).ok();
            }
            _ => sim.disk.flip(Path::new(FOLDER).join("meta"), 40, 1).unwrap(),
        }
        let log = open(&sim);
        assert!(matches!(log.findings(), [Finding::SetAside { .. }]), "{:?}", log.findings());
        assert_eq!(segment_files(&sim), files);
        assert_eq!(log.get("s").is_some(), how == 3, "the log's own metadata can be made anew");
        log.create("other", spec()).unwrap();
        log.close();
        assert_eq!(open(&sim).list().len(), if how == 3 { 2 } else { 1 });
        assert_eq!(segment_files(&sim), files);
    }
}

#[test]
fn files_nobody_knows_stay() {
    let (sim, all) = full(1, true);
    let folder = segment_files(&sim)[0].with_file_name("");
    let strange = [folder.join("notes.txt"), folder.join("zz.seg")];
    strange.iter().for_each(|path| sim.disk.put(path, b"mine"));
    let stray = Path::new(FOLDER).join("streams/readme");
    sim.disk.put(&stray, b"mine");
    let (log, streamlet) = reopened(&sim);
    assert_eq!(log.findings().len(), 3);
    assert_eq!(values(&streamlet), all);
    assert!(strange.iter().chain([&stray]).all(|path| sim.disk.exists(path).unwrap()));
}

#[test]
fn n4_a_name_alone_makes_no_streamlet() {
    let (sim, all) = full(1, true);
    let good = segment_files(&sim)[0].clone();
    let bytes = sim.disk.read(&good).unwrap();
    let names = [
        "ffffffff-000000000000-0000.seg",
        "fffffffe-0-0.seg",
        "0001869f-000000000000-0000.seg",
        "00000001-000000000000-0000.seg",
        "00000000-ffffffffffffffff-0000.seg",
    ];
    for (index, name) in names.iter().enumerate() {
        let stray: &[u8] = if index % 2 == 0 { &bytes } else { b"mine" };
        sim.disk.put(good.with_file_name(name), stray);
    }
    let (log, streamlet) = reopened(&sim);
    assert_eq!(log.findings().len(), names.len(), "{:?}", log.findings());
    assert_eq!(log.get("s").unwrap().streamlets().len(), 1);
    assert_eq!(values(&streamlet), all);
    for name in names {
        assert!(sim.disk.exists(&good.with_file_name(name)).unwrap());
    }
}
