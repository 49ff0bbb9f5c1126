//! Copies: byte for byte their leaders' logs, whatever was there before and wherever the power went.

use super::*;
use crate::Landing;
use crate::{
    AppendOptions, Finding, LogOptions, ReadCursor, ReadLimit, StartRole, StreamSpec,
    testing::{Batch, value},
};
use proptest::prelude::*;
use std::path::Path;
use tidemill_env::{Disk, SimWorld, World};
use tidemill_types::ByteSize;

fn spec(active_groups: u32) -> StreamSpec {
    StreamSpec { segment_bytes: ByteSize(64 << 10), active_groups, ..StreamSpec::default() }
}

fn open(sim: &SimWorld, active_groups: u32) -> Result<(Log, Arc<Stream>), LogError> {
    let options = LogOptions { role: StartRole::Copy, sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&sim.world, Path::new("/log"), options)?;
    let stream = match log.get("s") {
        Some(stream) => stream,
        None => log.create("s", spec(active_groups))?,
    };
    Ok((log, stream))
}

fn first(stream: &Stream) -> Arc<Streamlet> {
    stream.streamlet(0).unwrap()
}

/// Leads under these epochs, each with chunks of so many records and bytes.
fn write(log: &Log, streamlet: &Arc<Streamlet>, epoch: i32, chunks: &[(i32, usize)], name: u8) {
    streamlet.become_leader(LeaderEpoch(epoch), Landing::Local).unwrap();
    for (index, (records, bytes)) in chunks.iter().enumerate() {
        let chunk = Batch { value: vec![name; *bytes], ..Batch::of(*records) }.bytes();
        let options = AppendOptions { order_key: index as u64 };
        streamlet.append(&chunk, options).unwrap().on_durable(Box::new(|_| ()));
    }
    log.sync();
}

/// All chunks below the high watermark.
fn chunks(streamlet: &Streamlet) -> Vec<Vec<u8>> {
    let (mut cursor, mut offset, mut all) =
        (ReadCursor::default(), streamlet.start_offset(), vec![]);
    loop {
        let read = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
        if read.chunks.is_empty() {
            return all;
        }
        all.extend(read.chunks.iter().map(|it| it.to_vec()));
        offset = read.next_offset;
    }
}

/// Follows a leader until the copy has all that it has: the way of KIP-101.
fn catch_up(log: &Log, stream: &Stream, leader: &Streamlet) -> Result<(), LogError> {
    let mut copy = first(stream);
    copy.become_copy(leader.leader_epoch())?;
    loop {
        let last = copy.epochs().last().map_or(LeaderEpoch(0), |it| it.epoch);
        let answer = leader.end_of_epoch(last, Offset(leader.end_offset())).unwrap();
        copy = log.truncate_to(stream, &copy, answer)?;
        let now = copy.epochs().last().map_or(LeaderEpoch(0), |it| it.epoch);
        if now == last || copy.end_offset() == copy.start_offset() {
            break;
        }
    }
    for chunk in chunks(leader) {
        let head = ChunkHead::read(&chunk).unwrap();
        if head.base_offset >= copy.end_offset() {
            let append = copy.append_replica(&chunk).map_err(|_| LogError::Closed)?;
            assert_eq!(append.base_offset, head.base_offset);
        }
    }
    log.sync();
    copy.set_replicated(Offset(leader.high_watermark()));
    Ok(())
}

#[test]
fn a_copy_has_the_bytes_and_the_epochs_of_its_leader() {
    let (leads, follows) = (World::simulated(1), World::simulated(2));
    let (log, stream) = open(&leads, 3).unwrap();
    let leader = first(&stream);
    write(&log, &leader, 2, &[(1, 10), (3, 5000), (2, 0)], b'a');
    write(&log, &leader, 5, &[(4, 70_000), (1, 1)], b'b');
    let (copies, copy) = open(&follows, 1).unwrap();
    catch_up(&copies, &copy, &leader).unwrap();
    let copied = first(&copy);
    assert_eq!(chunks(&copied), chunks(&leader));
    assert_eq!(copied.epochs(), leader.epochs());
    // What does not belong there changes nothing.
    let all = chunks(&leader);
    for chunk in [&all[0], &all[4]] {
        let refused = copied.append_replica(chunk);
        assert!(matches!(refused, Err(AppendError::Replica(_))), "{refused:?}");
    }
    let mut ahead = all[4].clone();
    crate::stamp(&mut ahead, 99, LeaderEpoch(5));
    let refused = copied.append_replica(&ahead);
    assert!(matches!(refused, Err(AppendError::Replica(ReplicaRefusal::Offset { .. }))));
    crate::stamp(&mut ahead, copied.end_offset(), LeaderEpoch(6));
    let refused = copied.append_replica(&ahead);
    assert!(matches!(refused, Err(AppendError::Replica(ReplicaRefusal::Epoch { .. }))));
    crate::stamp(&mut ahead, copied.end_offset(), LeaderEpoch(4));
    let refused = copied.append_replica(&ahead);
    assert!(matches!(refused, Err(AppendError::Replica(ReplicaRefusal::Epoch { .. }))));
    assert!(leader.append_replica(&all[0]).is_err(), "a leader follows nobody");
    assert_eq!(chunks(&copied), chunks(&leader));
    // It can take over at once.
    copied.become_leader(LeaderEpoch(6), Landing::Local).unwrap();
    assert_eq!(copied.end_offset(), leader.end_offset());
}

#[test]
fn what_was_visible_is_not_truncated_nor_is_a_leader() {
    let sim = World::simulated(3);
    let (log, stream) = open(&sim, 1).unwrap();
    let streamlet = first(&stream);
    write(&log, &streamlet, 1, &[(1, 1), (1, 1), (1, 1)], b'a');
    let to = |end| EpochEnd { epoch: LeaderEpoch(1), end: Offset(end) };
    let leads = log.truncate_to(&stream, &streamlet, to(1));
    assert!(matches!(leads, Err(LogError::Kept { .. })), "{leads:?}");
    streamlet.become_copy(LeaderEpoch(2)).unwrap();
    let visible = log.truncate_to(&stream, &streamlet, to(1));
    assert!(matches!(visible, Err(LogError::Kept { .. })), "{visible:?}");
    assert_eq!(chunks(&streamlet).len(), 3);
    let same = log.truncate_to(&stream, &streamlet, to(3)).unwrap();
    assert!(Arc::ptr_eq(&same, &streamlet), "there is nothing to cut");
}

/// A chunk with one record, as a leader sent it.
fn sent(base: i64, epoch: i32) -> Vec<u8> {
    let mut chunk = Batch::of(1).bytes();
    crate::stamp(&mut chunk, base, LeaderEpoch(epoch));
    chunk
}

#[test]
fn an_epoch_whose_records_a_power_cut_took_goes_with_them() {
    let mut lost = 0;
    for seed in 0..16 {
        let sim = World::simulated(seed);
        let (log, stream) = open(&sim, 1).unwrap();
        log.alter("s", StreamSpec { fsync: Some(crate::Fsync::Os), ..spec(1) }).unwrap();
        let copy = first(&stream);
        copy.become_copy(LeaderEpoch(9)).unwrap();
        for (base, epoch) in [(0, 4), (1, 4), (2, 5), (3, 5)] {
            copy.append_replica(&sent(base, epoch)).unwrap().on_durable(Box::new(|_| ()));
        }
        sim.disk.power_cut();
        drop((log, stream, copy));
        let (log, stream) = open(&sim, 1).unwrap();
        let copy = first(&stream);
        let end = copy.end_offset();
        assert!(copy.epochs().iter().all(|it| it.start.0 <= end), "{:?}", copy.epochs());
        if end < 2 {
            lost += 1;
            // The leader sends them again, those of the earlier epoch first.
            copy.append_replica(&sent(end, 4)).unwrap().on_durable(Box::new(|_| ()));
            log.close();
            let (_log, stream) = open(&sim, 1).unwrap();
            let newest = first(&stream).epochs().last().map(|it| it.epoch);
            assert_eq!(newest, Some(LeaderEpoch(4)), "it does not come back");
        }
    }
    assert!(lost > 0);
}

#[test]
fn an_epoch_of_which_nothing_came_does_not_stand_in_the_way() {
    let sim = World::simulated(6);
    let (log, stream) = open(&sim, 1).unwrap();
    let copy = first(&stream);
    copy.become_copy(LeaderEpoch(9)).unwrap();
    copy.append_replica(&sent(0, 4)).unwrap().on_durable(Box::new(|_| ()));
    // The process ended between the epoch and its first chunk.
    let begun = TakenOffsets { base: 1, epoch: LeaderEpoch(5) };
    copy.begin_epoch_of(begun, &mut Vec::new()).unwrap();
    assert!(copy.append_replica(&sent(1, 4)).is_err());
    let answer = EpochEnd { epoch: LeaderEpoch(4), end: Offset(7) };
    let same = log.truncate_to(&stream, &copy, answer).unwrap();
    assert!(Arc::ptr_eq(&same, &copy));
    copy.append_replica(&sent(1, 4)).unwrap().on_durable(Box::new(|_| ()));
    assert!(copy.append_replica(&sent(2, -1)).is_err(), "no epoch is negative");
    log.close();
    let (_log, stream) = open(&sim, 1).unwrap();
    assert_eq!(first(&stream).epochs().last().map(|it| it.epoch), Some(LeaderEpoch(4)));
    assert_eq!(first(&stream).end_offset(), 2);
}

/// Two logs that have a beginning in common, and ends of their own.
#[derive(Clone, Debug)]
struct Parted {
    common: Vec<(i32, usize)>,
    leader: Vec<(i32, usize)>,
    copy: Vec<(i32, usize)>,
    groups: u32,
}

fn parted() -> impl Strategy<Value = Parted> {
    let chunks = |most| proptest::collection::vec((1..4i32, 0..30_000usize), 0..most);
    (chunks(6), chunks(6), chunks(6), 1..4u32).prop_map(|(common, leader, copy, groups)| Parted {
        common,
        leader,
        copy,
        groups,
    })
}

/// Makes both; the copy has led under epoch 2, alone, and the leader leads under 3.
fn part(seed: u64, logs: &Parted) -> (Log, Arc<Streamlet>, SimWorld) {
    let (leads, follows) = (World::simulated(seed), World::simulated(seed + 1));
    let (log, stream) = open(&leads, logs.groups).unwrap();
    let leader = first(&stream);
    write(&log, &leader, 1, &logs.common, b'a');
    let (copies, copy) = open(&follows, logs.groups).unwrap();
    catch_up(&copies, &copy, &leader).unwrap();
    let copied = first(&copy);
    // Replicated: so it has shown nothing of what is its own.
    copied.become_leader(LeaderEpoch(2), Landing::Replicated).unwrap();
    for (index, (records, bytes)) in logs.copy.iter().enumerate() {
        let chunk = Batch { value: vec![b'c'; *bytes], ..Batch::of(*records) }.bytes();
        let options = AppendOptions { order_key: index as u64 };
        copied.append(&chunk, options).unwrap().on_durable(Box::new(|_| ()));
    }
    copies.sync();
    drop((copied, copy));
    copies.close();
    write(&log, &leader, 3, &logs.leader, b'b');
    (log, leader, follows)
}

fn aside(sim: &SimWorld) -> usize {
    sim.disk.list(Path::new("/log/aside")).map_or(0, |it| it.len())
}

/// A copy that parted from its leader, and is cut short at any step of its way back.
fn comes_back(seed: u64, logs: &Parted, every: usize) {
    let (_log, leader, sim) = part(seed, logs);
    let before = sim.disk.operations();
    let (copies, copy) = open(&sim, 1).unwrap();
    catch_up(&copies, &copy, &leader).unwrap();
    assert_eq!(chunks(&first(&copy)), chunks(&leader));
    assert_eq!(aside(&sim) > 0, !logs.copy.is_empty(), "what was cut off is kept");
    let operations = sim.disk.operations() - before;
    drop(copy);
    copies.close();
    let common = logs.common.iter().map(|it| i64::from(it.0)).sum::<i64>();
    for step in (0..operations).step_by(every) {
        for cut in [false, true] {
            let at = format!("step {step} of {operations}, {cut}");
            let (_log, leader, sim) = part(seed, logs);
            sim.disk.fail_after(step);
            if let Ok((log, copy)) = open(&sim, 1) {
                let _failed = catch_up(&log, &copy, &leader);
            }
            match cut {
                true => sim.disk.power_cut(),
                false => sim.disk.kill(),
            }
            let (log, copy) = open(&sim, 1).unwrap();
            let streamlet = first(&copy);
            assert!(streamlet.end_offset() >= common, "{at}: what both have is never cut");
            let told = |it: &Finding| !matches!(it, Finding::Damaged { .. });
            assert!(log.findings().iter().all(told), "{at}: {:?}", log.findings());
            catch_up(&log, &copy, &leader).unwrap();
            let streamlet = first(&copy);
            assert_eq!(chunks(&streamlet), chunks(&leader), "{at}");
            assert_eq!(streamlet.end_offset(), leader.end_offset(), "{at}");
            let own = chunks(&streamlet).iter().any(|it| value(it).first() == Some(&b'c'));
            assert!(!own, "{at}: nothing of its own is left");
            log.close();
            sim.disk.power_cut();
            let (log, copy) = open(&sim, 1).unwrap();
            // A new file may have its name and not its head; that one stays.
            let stays = |it: &Finding| matches!(it, Finding::SetAside { .. });
            assert!(log.findings().iter().all(stays), "{at}: {:?}", log.findings());
            first(&copy).set_replicated(Offset(i64::MAX));
            assert_eq!(chunks(&first(&copy)), chunks(&leader), "{at}: for good");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_copy_that_parted_from_its_leader_comes_back(seed in 0..1000u64, logs in parted()) {
        comes_back(seed, &logs, 9);
    }
}

#[test]
fn a_truncation_can_stop_anywhere_and_is_carried_out_by_the_next_opening() {
    let logs = Parted {
        common: vec![(1, 10), (2, 30_000), (1, 30_000)],
        leader: vec![(1, 5), (1, 40_000)],
        copy: vec![(1, 20_000), (3, 30_000), (1, 10), (2, 29_000)],
        groups: 2,
    };
    comes_back(4, &logs, 1);
}

/// Offsets that were durable and are cut off are given out again, without a gap.
#[test]
fn offsets_go_on_at_the_cut_and_not_where_the_disk_had_been() {
    let sim = World::simulated(9);
    let (log, stream) = open(&sim, 2).unwrap();
    let copy = first(&stream);
    copy.become_copy(LeaderEpoch(1)).unwrap();
    for base in 0..2 {
        copy.append_replica(&sent(base, 1)).unwrap().on_durable(Box::new(|_| ()));
    }
    copy.become_leader(LeaderEpoch(2), Landing::Replicated).unwrap();
    for _ in 0..3 {
        // In a segment of its own: that of before is marked last, when all of this is durable.
        let append = copy.append(&Batch::of(1).bytes(), AppendOptions { order_key: 1 });
        append.unwrap().on_durable(Box::new(|_| ()));
        log.sync();
    }
    log.close();
    let (log, stream) = open(&sim, 2).unwrap();
    let copy = first(&stream);
    assert_eq!(copy.end_offset(), 5);
    copy.become_copy(LeaderEpoch(3)).unwrap();
    let common = EpochEnd { epoch: LeaderEpoch(1), end: Offset(2) };
    let copy = log.truncate_to(&stream, &copy, common).unwrap();
    assert_eq!(copy.end_offset(), 2);
    log.close();
    let (log, stream) = open(&sim, 2).unwrap();
    let copy = first(&stream);
    assert_eq!(copy.end_offset(), 2, "marks of before the cut are not believed");
    copy.append_replica(&sent(2, 3)).unwrap().on_durable(Box::new(|_| ()));
    log.sync();
    copy.set_replicated(Offset(3));
    assert_eq!(chunks(&copy).len(), 3);
}
