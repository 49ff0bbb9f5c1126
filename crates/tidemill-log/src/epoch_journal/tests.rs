//! The file of epochs: its bytes, and what is read of it after a stop of any kind.

use super::*;
use proptest::prelude::*;
use tidemill_env::SimDisk;

const FOLDER: &str = "";

fn folder() -> &'static Path {
    Path::new(FOLDER)
}

fn record(stream: u8, streamlet: u32, change: EpochChange) -> EpochRecord {
    EpochRecord { stream: StreamId([stream; 16]), streamlet: StreamletIx(streamlet), change }
}

fn begins(epoch: i32, start: i64) -> EpochChange {
    EpochChange::Begins(LeaderEpoch(epoch), Offset(start))
}

fn truncated(end: i64, before: u64) -> EpochChange {
    EpochChange::Truncated(Truncation { end: Offset(end), before: SegmentEpoch(before) })
}

fn read(disk: &SimDisk) -> (EpochTable, Vec<Finding>) {
    let mut findings = Vec::new();
    let table = EpochTable::read(disk, folder(), &mut findings).unwrap();
    (table, findings)
}

fn open(disk: &SimDisk, new: &[EpochRecord]) -> Result<EpochJournal, LogError> {
    let (table, _) = read(disk);
    let reserve = DiskReserve::new(folder(), 0);
    let all = || {
        let mut all = EpochTable::default();
        table.by_streamlet.clone_into(&mut all.by_streamlet);
        new.iter().for_each(|it| {
            all.by_streamlet.entry((it.stream, it.streamlet)).or_default().apply(it.change);
        });
        all.by_streamlet.iter().flat_map(|(key, it)| it.records(*key)).collect()
    };
    EpochJournal::open((disk, &reserve), folder(), &table, new, all)
}

#[test]
fn records_are_these_bytes() {
    let disk = SimDisk::new(1);
    let records = [
        record(0xab, 7, begins(3, 900)),
        record(1, 0, EpochChange::Observed(LeaderEpoch(4))),
        record(1, 2, truncated(5, 0x0000_0002_0000_0001)),
    ];
    let mut journal = open(&disk, &records[..1]).unwrap();
    journal.append(&disk, &records[1..]).unwrap();
    let bytes = disk.read(Path::new("epochs")).unwrap();
    let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    let heads = [
        "abababababababababababababababab0700000000000000030000008403000000000000\
         0000000000000000",
        "01010101010101010101010101010101000000000100000004000000\
         00000000000000000000000000000000",
        "010101010101010101010101010101010200000002000000000000000500000000000000\
         0100000002000000",
    ];
    let sums: Vec<String> = records
        .iter()
        .map(|it| it.encode()[44..].iter().map(|it| format!("{it:02x}")).collect())
        .collect();
    let expected: String =
        heads.iter().zip(&sums).map(|(head, sum)| format!("{head}{sum}")).collect();
    assert_eq!(hex, format!("544d65706f630001{expected}"));
    assert_eq!(
        u32::from_le_bytes(records[0].encode()[44..].try_into().unwrap()),
        crc32c(&bytes[8..52])
    );
    for it in records {
        assert_eq!(EpochRecord::decode(&it.encode()), Some(it));
    }
    let (table, findings) = read(&disk);
    assert!(findings.is_empty() && !table.is_damaged && !table.is_torn);
    assert_eq!(table.by_streamlet.len(), 3);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut whole = MAGIC.to_vec();
        whole.extend_from_slice(&bytes);
        for bytes in [&bytes, &whole] {
            EpochTable::parse(bytes, Path::new("epochs"), &mut Vec::new());
        }
    }
}

/// A write that fails or is cut short at any step: what was said to be durable is there, and the
/// next opening goes on.
#[test]
fn a_stop_at_any_step_keeps_every_record_that_was_promised() {
    for seed in 0..8 {
        for operations in 0..12 {
            for cut in [false, true] {
                let disk = SimDisk::new(seed);
                let mut journal = open(&disk, &[record(1, 0, begins(1, 0))]).unwrap();
                disk.fail_after(operations);
                let mut promised = 1;
                for epoch in 2..6 {
                    match journal.append(&disk, &[record(1, 0, begins(epoch, epoch.into()))]) {
                        Ok(()) => promised = epoch,
                        Err(_) => assert!(journal.append(&disk, &[]).is_ok()),
                    }
                }
                match cut {
                    true => disk.power_cut(),
                    false => disk.kill(),
                }
                drop(journal);
                let at = format!("seed {seed}, step {operations}, {cut}");
                let newest = |table: &mut EpochTable| {
                    let key = (StreamId([1; 16]), StreamletIx(0));
                    table.take(key).history.highest().0
                };
                let (mut table, findings) = read(&disk);
                assert!(findings.is_empty(), "{at}");
                let found = newest(&mut table);
                assert!(found >= promised && found <= promised + 1, "{at}: {found}");
                open(&disk, &[record(1, 0, begins(9, 20))]).unwrap();
                let (mut table, _) = read(&disk);
                assert!(!table.is_torn && !table.is_damaged, "{at}");
                assert_eq!(newest(&mut table), 9, "{at}");
            }
        }
    }
}

/// A flipped bit is told, costs one record at most, and the file is whole after the next opening.
#[test]
fn a_flipped_bit_is_told_and_mended() {
    let records: Vec<_> = (1..5).map(|it| record(it as u8, 0, begins(it, 100))).collect();
    let length = (MAGIC.len() + records.len() * RECORD_BYTES) as u64;
    for at in 0..length {
        let disk = SimDisk::new(at);
        drop(open(&disk, &records).unwrap());
        disk.flip("epochs", at, 0x10).unwrap();
        let (table, findings) = read(&disk);
        let is_last = at >= length - RECORD_BYTES as u64;
        if is_last {
            // As if it had never been durable; nobody can tell.
            assert!(table.is_torn && findings.is_empty(), "byte {at}");
        } else {
            assert!(table.is_damaged && findings.len() == 1, "byte {at}: {findings:?}");
            assert!(disk.exists(Path::new("epochs.old")).unwrap());
        }
        let is_head = at < MAGIC.len() as u64;
        assert_eq!(table.by_streamlet.len(), if is_head { 0 } else { 3 }, "byte {at}");
        drop(open(&disk, &[]).unwrap());
        let (table, findings) = read(&disk);
        assert!(!table.is_damaged && !table.is_torn && findings.is_empty(), "byte {at}");
    }
}

#[test]
fn a_long_file_is_written_anew_and_says_the_same() {
    let disk = SimDisk::new(3);
    let mut journal = open(&disk, &[]).unwrap();
    let many: Vec<_> = (1..6000).map(|it| record(1, 0, begins(it, 0))).collect();
    journal.append(&disk, &many).unwrap();
    let more = [
        record(1, 1, begins(2, 10)),
        record(1, 1, begins(4, 20)),
        record(1, 1, truncated(15, 1 << 32)),
        record(1, 1, EpochChange::Observed(LeaderEpoch(7))),
        record(2, 0, begins(3, 0)),
        record(2, 0, truncated(0, 1 << 32)),
    ];
    journal.append(&disk, &more).unwrap();
    drop(journal);
    let (before, _) = read(&disk);
    drop(open(&disk, &[]).unwrap());
    let (after, _) = read(&disk);
    assert_eq!(before.by_streamlet, after.by_streamlet);
    assert!(after.records < 20, "{}", after.records);
    assert_eq!(disk.read(Path::new("epochs")).unwrap().len(), 8 + after.records * 48);
}
