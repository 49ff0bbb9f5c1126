//! A whole node on a disk that loses power, fills up, fails or lies: what a client was told is
//! true after it, and what it is told during it is an error that it can act on.

use super::{
    client::*,
    groups::{commit, committed as offset_of},
    node::Node,
    producer::Producer,
};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use tidemill_env::{SimWorld, World};
use tidemill_types::ByteSize;
use tidemill_wire::kafka::{ApiKey, ErrorCode, message::*, read_response_head};

const PARTITIONS: i32 = 3;

async fn started(sim: &SimWorld) -> Node {
    Node::start_with(|how| {
        how.world = Some(sim.process());
        // Readers go to the disk.
        how.options.memory_bytes = ByteSize(0);
    })
    .await
}

/// Everything in a partition, by offset.
async fn all(client: &mut Client, partition: i32) -> BTreeMap<i64, String> {
    let (mut found, mut offset) = (BTreeMap::new(), 0);
    loop {
        let answer = client.fetch("t", partition, offset, 0).await;
        assert_eq!(answer.error_code, 0, "offset {offset}");
        let values = values(&answer.records);
        let Some((last, _)) = values.last() else {
            assert_eq!(offset, answer.high_watermark, "no silence below the watermark");
            return found;
        };
        offset = last + 1;
        found.extend(values);
    }
}

/// The answer to a produce request, if one came before the node died.
async fn answer(client: &mut Client, id: i32, version: i16) -> Option<PartitionProduceResponse> {
    let frame = tokio::time::timeout(Duration::from_millis(200), client.frame()).await;
    let mut frame = frame.ok()??;
    assert_eq!(read_response_head(&mut frame, ApiKey::Produce, version).unwrap(), id);
    let answer = ProduceResponseData::read(&mut frame, version).unwrap();
    Some(only(only(answer.responses).partition_responses))
}

/// Lets writes through until the disk was asked for so many operations, or nothing happens.
async fn until(sim: &SimWorld, operations: u64) {
    for _ in 0..40 {
        if sim.disk.operations() >= operations {
            return;
        }
        tokio::time::sleep(Duration::from_micros(20)).await;
    }
}

/// Rows 1, 4 and 17: several lives of a node, each ended at some write of a request that is under
/// way. What was acknowledged is at its offset, what was not is there once when it is sent again.
#[tokio::test]
async fn n1_row_1_row_4_row_17_a_node_that_dies_at_any_write_loses_nothing_acknowledged() {
    let (mut in_time, mut lost) = (0, 0);
    for round in 0..12u64 {
        let sim = World::simulated(round);
        let mut node = started(&sim).await;
        let mut client = node.client().await;
        let id = client.create("t", PARTITIONS).await;
        let mut producer = Producer::idempotent(&mut client).await;
        let mut acknowledged: BTreeMap<(i32, i64), String> = BTreeMap::new();
        let (mut count, mut offset) = (0, 0);
        for life in 0..4u64 {
            let what = format!("round {round}, life {life}");
            for at in 0..5 {
                let partition = at % PARTITIONS;
                let value = format!("{count}");
                let (error, base) = producer.send(&mut client, partition, &[&value]).await;
                assert_eq!(error, 0, "{what}");
                assert_eq!(acknowledged.insert((partition, base), value), None, "{what}");
                count += 1;
            }
            offset += 1;
            let error = commit(&mut client, "g", ("", -1), ("t", id), offset, 8).await;
            assert_eq!(error, ErrorCode::None, "{what}");
            // A topic that is made in this life is one that later ones have.
            client.create(&format!("t{life}"), 1).await;

            let partition = (round % 3) as i32;
            let value = format!("{count} under way");
            count += 1;
            let (request, version) = producer.request(partition, &[&value]);
            let sent = client.send(&request, version).await;
            until(&sim, sim.disk.operations() + (round + life) % 7).await;
            if (round + life) % 2 == 0 {
                sim.disk.kill()
            } else {
                sim.disk.power_cut()
            }
            let told = answer(&mut client, sent, version).await.filter(|it| it.error_code == 0);

            drop(node);
            node = started(&sim).await;
            client = node.client().await;
            for life in 0..=life {
                let (end, _) = client.offset(&format!("t{life}"), -1).await;
                assert_eq!(end, 0, "{what}");
            }
            assert_eq!(offset_of(&mut client, "g", ("t", id), 8).await.0, offset, "{what}");
            // The client knows nothing, and sends it again.
            let (error, base) = producer.send(&mut client, partition, &[&value]).await;
            assert_eq!(error, 0, "{what}");
            match told {
                Some(told) => {
                    in_time += 1;
                    assert_eq!(told.base_offset, base, "{what}: R1");
                }
                None => lost += 1,
            }
            acknowledged.insert((partition, base), value);
            let mut found = BTreeMap::new();
            for partition in 0..PARTITIONS {
                let of_one = all(&mut client, partition).await;
                found.extend(of_one.into_iter().map(|(base, it)| ((partition, base), it)));
            }
            assert_eq!(found, acknowledged, "{what}: no more, no less, nothing elsewhere");
        }
        node.stop().await;
    }
    assert!(in_time > 3 && lost > 3, "{in_time} answered, {lost} not");
}

/// Row 14 and N7: the disk is full; the node dies and starts while it is; then there is room.
#[tokio::test]
async fn n7_row_14_a_full_disk_is_said_to_producers_and_costs_nothing() {
    for seed in 0..4u64 {
        let sim = World::simulated(seed);
        let mut node = started(&sim).await;
        let mut client = node.client().await;
        let id = client.create("t", 1).await;
        let error = commit(&mut client, "g", ("", -1), ("t", id), 1, 8).await;
        assert_eq!(error, ErrorCode::None);
        sim.disk.set_capacity(sim.disk.used() + (200 << 10) * (seed + 1));
        let mut acknowledged = BTreeMap::new();
        let refused = loop {
            let value = format!("{} {}", acknowledged.len(), "v".repeat(9_000));
            let told = client.produce("t", 0, chunk(&[&value])).await;
            if told.error_code != 0 {
                break told;
            }
            acknowledged.insert(told.base_offset, value);
            assert!(acknowledged.len() < 1_000, "the disk is never full");
        };
        assert_eq!(refused.error_code, ErrorCode::KafkaStorageError.code());
        assert!(refused.error_message.is_some(), "newer clients are told why");
        assert_eq!(all(&mut client, 0).await, acknowledged, "reads go on");
        sim.disk.kill();
        drop(node);
        // While it is full a node may refuse to start; it may not lose anything.
        let world = sim.process();
        let log = tidemill_log::Log::open(
            &world,
            &PathBuf::from("/data/log"),
            tidemill_log::LogOptions::default(),
        );
        drop(log);
        sim.disk.kill();
        sim.disk.set_capacity(u64::MAX);
        node = started(&sim).await;
        client = node.client().await;
        let mut found = all(&mut client, 0).await;
        // What was refused may have been written all the same.
        found.retain(|base, _| acknowledged.contains_key(base));
        assert_eq!(found, acknowledged);
        assert_eq!(offset_of(&mut client, "g", ("t", id), 8).await.0, 1);
        assert_eq!(client.produce("t", 0, chunk(&["room"])).await.error_code, 0);
        node.stop().await;
    }
}

/// Row 14: with room again the same node goes on, without a restart.
#[tokio::test]
async fn row_14_writes_go_on_when_there_is_room() {
    let sim = World::simulated(3);
    let node = started(&sim).await;
    let mut client = node.client().await;
    let id = client.create("t", 1).await;
    sim.disk.set_capacity(sim.disk.used() + (400 << 10));
    let value = "v".repeat(20_000);
    while client.produce("t", 0, chunk(&[&value])).await.error_code == 0 {}
    let before = all(&mut client, 0).await.len();
    assert!(before > 5);
    sim.disk.set_capacity(u64::MAX);
    assert_eq!(client.produce("t", 0, chunk(&[&value])).await.error_code, 0);
    assert_eq!(all(&mut client, 0).await.len(), before + 1);
    let error = commit(&mut client, "g", ("", -1), ("t", id), 1, 8).await;
    assert_eq!(error, ErrorCode::None, "the broker's own file goes on too");
    node.stop().await;
}

/// Row 15 and N2: a sync fails once. From then on nothing is acknowledged in that partition, also
/// when syncs work again; what was acknowledged before survives a power cut right after.
#[tokio::test]
async fn n2_row_15_after_a_failed_sync_nothing_is_acknowledged_and_nothing_acknowledged_is_lost() {
    for seed in 0..12u64 {
        let sim = World::simulated(seed);
        let mut node = started(&sim).await;
        let mut client = node.client().await;
        client.create("t", 1).await;
        let mut acknowledged = BTreeMap::new();
        let mut refused = 0;
        for at in 0..20u64 {
            if at == 8 {
                sim.disk.fail_sync_after(seed % 3);
            }
            let value = format!("{at}");
            let told = client.produce("t", 0, chunk(&[&value])).await;
            if told.error_code == 0 {
                assert_eq!(refused, 0, "seed {seed}: never retried and called good");
                acknowledged.insert(told.base_offset, value);
            } else {
                assert_eq!(told.error_code, ErrorCode::KafkaStorageError.code());
                refused += 1;
            }
        }
        assert!(refused >= 9 && acknowledged.len() >= 8, "seed {seed}: {refused} refused");
        assert_eq!(all(&mut client, 0).await, acknowledged, "nobody reads what does not count");
        sim.disk.power_cut();
        drop(node);
        node = started(&sim).await;
        client = node.client().await;
        let mut found = all(&mut client, 0).await;
        found.retain(|base, _| acknowledged.contains_key(base));
        assert_eq!(found, acknowledged, "seed {seed}");
        assert_eq!(client.produce("t", 0, chunk(&["on"])).await.error_code, 0);
        node.stop().await;
    }
}

/// Row 16: a read fails, now and then. The client is told, and gets the right bytes when it asks
/// again.
#[tokio::test]
async fn row_16_a_read_that_fails_is_told_and_works_when_it_is_asked_for_again() {
    let sim = World::simulated(1);
    let node = started(&sim).await;
    let mut client = node.client().await;
    client.create_with("t", 1, &[("segment.bytes", "65536")]).await;
    let mut written = BTreeMap::new();
    for at in 0..60 {
        let value = format!("{at} {}", "r".repeat(4_000));
        let told = client.produce("t", 0, chunk(&[&value])).await;
        written.insert(told.base_offset, value);
    }
    let mut failures = 0;
    for good in 0..8 {
        sim.disk.fail_reads_after(good, 3);
        let (mut found, mut offset) = (BTreeMap::new(), 0);
        while offset < 60 {
            let answer = client.fetch("t", 0, offset, 0).await;
            if answer.error_code != 0 {
                assert_eq!(answer.error_code, ErrorCode::KafkaStorageError.code());
                failures += 1;
                assert!(failures < 100, "it never works again");
                continue;
            }
            let values = values(&answer.records);
            assert!(!values.is_empty(), "no silence");
            offset = values.last().unwrap().0 + 1;
            found.extend(values);
        }
        assert_eq!(found, written);
    }
    assert!(failures >= 8, "{failures} reads failed");
    node.stop().await;
}

/// Rows 20 and N3: bits flip on the disk while the node is down. Readers are told at the damaged
/// offsets, get all others, and never anything else.
#[tokio::test]
async fn n3_row_20_a_flipped_bit_is_told_to_readers_and_never_served() {
    let mut damaged = 0;
    for seed in 0..16u64 {
        let sim = World::simulated(seed);
        let node = started(&sim).await;
        let mut client = node.client().await;
        client.create("t", 1).await;
        let mut written = BTreeMap::new();
        for at in 0..12 {
            let value = format!("{at} {}", "d".repeat(2_000));
            let told = client.produce("t", 0, chunk(&[&value])).await;
            written.insert(told.base_offset, value);
        }
        let stream = node.log.get("t").unwrap().id();
        let folder = PathBuf::from("/data/log/streams").join(stream.to_string());
        let mut files = sim.world.disk.list(&folder).unwrap();
        files.retain(|it| it.extension().is_some_and(|it| it == "seg"));
        node.stop().await;
        // Somewhere in the chunks; each is about 2,140 bytes long with its reference.
        sim.disk.flip(&files[0], 4_096 + seed * 1_601, 1 << (seed % 8)).unwrap();
        let node = started(&sim).await;
        let mut client = node.client().await;
        let mut told = Vec::new();
        let mut found = BTreeMap::new();
        let mut offset = 0;
        while offset < 12 {
            let answer = client.fetch("t", 0, offset, 0).await;
            match ErrorCode::from(answer.error_code) {
                ErrorCode::None => {
                    let values = values(&answer.records);
                    assert!(!values.is_empty(), "seed {seed}: silence at {offset}");
                    offset = values.last().unwrap().0 + 1;
                    found.extend(values);
                }
                ErrorCode::CorruptMessage => {
                    told.push(offset);
                    offset += 1;
                }
                other => panic!("seed {seed}: {other:?} at {offset}"),
            }
        }
        for (offset, value) in &found {
            assert_eq!(Some(value), written.get(offset), "seed {seed}: wrong bytes");
        }
        assert_eq!(found.len() + told.len(), 12, "seed {seed}: {told:?}");
        assert!(told.len() <= 1, "seed {seed}: {told:?}");
        damaged += told.len();
        assert_eq!(client.produce("t", 0, chunk(&["on"])).await.base_offset, 12, "seed {seed}");
        node.stop().await;
    }
    assert!(damaged > 10, "{damaged} chunks were damaged");
}

/// K5: nothing fails. Writers and readers at once for thousands of requests: offsets in answers
/// are those that readers find, only the first is 0, and every reader gets to the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k5_in_a_healthy_node_offsets_are_told_truly_and_every_reader_gets_on() {
    const WRITERS: usize = 4;
    const EACH: usize = 400;
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 2, &[("tidemill.fsync", "os"), ("segment.bytes", "65536")]).await;
    let end = (WRITERS * EACH) as i64;
    let readers: Vec<_> = (0..2)
        .map(|partition| {
            let address = node.address();
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let (mut found, mut offset) = (BTreeMap::new(), 0);
                while offset < end {
                    let before = tokio::time::Instant::now();
                    let answer = client.fetch("t", partition, offset, 5_000).await;
                    assert_eq!(answer.error_code, 0);
                    let values = values(&answer.records);
                    assert!(!values.is_empty(), "no progress in {:?}", before.elapsed());
                    assert_eq!(values[0].0, offset, "nothing is passed over");
                    offset = values.last().unwrap().0 + 1;
                    found.extend(values);
                }
                found
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let address = node.address();
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let mut told = Vec::new();
                for at in 0..EACH {
                    for partition in 0..2 {
                        let value = format!("{writer} {at} {}", "s".repeat(at % 300));
                        let answer = client.produce("t", partition, chunk(&[&value])).await;
                        assert_eq!(answer.error_code, 0);
                        told.push((partition, answer.base_offset, value));
                    }
                }
                told
            })
        })
        .collect();
    let mut told = [BTreeMap::new(), BTreeMap::new()];
    for writer in writers {
        let mut last = [-1, -1];
        for (partition, offset, value) in writer.await.unwrap() {
            assert!(offset > last[partition as usize], "its own order holds");
            last[partition as usize] = offset;
            let twice = told[partition as usize].insert(offset, value);
            assert_eq!(twice, None, "offset {offset} was told twice");
        }
    }
    for (reader, told) in readers.into_iter().zip(told) {
        let found = reader.await.unwrap();
        assert!(found.keys().copied().eq(0..end), "no gap");
        assert_eq!(found, told, "R3: what was told is what is there");
    }
    node.stop().await;
}
