//! Records reach the streamlet of their key, in order, in chunks that the stream takes.

use super::*;
use std::path::Path;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, ReadCursor, ReadLimit, StreamSpec};
use tidemill_types::ByteSize;
use tidemill_wire::{chunk::ChunkHead, records::Records};

fn log() -> Log {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap()
}

/// All values of a streamlet, and the longest chunk.
fn values(stream: &Stream, index: u32) -> (Vec<Vec<u8>>, usize) {
    let streamlet = stream.streamlet(index).unwrap();
    let (mut offset, mut cursor) = (0, ReadCursor::default());
    let (mut values, mut longest) = (Vec::new(), 0);
    loop {
        let read = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
        if read.chunks.is_empty() {
            return (values, longest);
        }
        for chunk in &read.chunks {
            longest = longest.max(chunk.len());
            let head = ChunkHead::check(chunk).unwrap();
            let records = Records::new(&head, &chunk[tidemill_log::CHUNK_HEAD_BYTES..]);
            values.extend(records.map(|it| it.unwrap().value.unwrap().to_vec()));
        }
        offset = read.next_offset;
    }
}

#[test]
fn records_keep_their_order_over_chunks_and_keys_their_streamlet() {
    let log = log();
    let spec = StreamSpec { streamlets: 3, max_chunk_bytes: ByteSize(1024), ..Default::default() };
    let stream = log.create("s", spec).unwrap();
    let mut batch = AppendBatch::new(Arc::clone(&stream), None, 4).unwrap();
    let mut expected = vec![Vec::new(); 3];
    for number in 0..500_u32 {
        let value = number.to_string().into_bytes();
        let key = (number % 3 > 0).then(|| format!("key {}", number % 10).into_bytes());
        batch.add(i64::from(number), key.as_deref(), &value).unwrap();
        let streamlet = key.map_or(4 % 3, |it| streamlet_of(&it, 3));
        expected[streamlet as usize].push(value);
    }
    assert_eq!(batch.record_count, 500);
    let appending = batch.append(1);
    assert!(appending.error.is_none() && appending.ranges.len() > 3);
    log.sync();
    for (index, expected) in (0..).zip(&expected) {
        let (values, longest) = values(&stream, index);
        assert_eq!(values, *expected, "streamlet {index}");
        assert!(longest <= 1024, "{longest}");
    }
}

#[test]
fn a_record_that_is_too_long_is_told_and_timestamps_may_be_far_apart() {
    let log = log();
    let spec = StreamSpec { max_chunk_bytes: ByteSize(1024), ..Default::default() };
    let stream = log.create("s", spec).unwrap();
    let mut batch = AppendBatch::new(Arc::clone(&stream), Some(0), 0).unwrap();
    batch.add(i64::MIN, None, b"early").unwrap();
    batch.add(i64::MAX, None, b"late").unwrap();
    let error = batch.add(0, None, &[0; 1024]).unwrap_err();
    assert!(error.max == 1024 && error.bytes > 1024, "{error:?}");
    assert!(AppendBatch::new(Arc::clone(&stream), Some(1), 0).is_err());
    assert_eq!(stream.streamlet(0).unwrap().end_offset(), 0, "nothing was appended");
}

#[test]
fn a_record_that_is_too_long_leaves_the_others_as_they_are() {
    let log = log();
    let spec = StreamSpec { max_chunk_bytes: ByteSize(1024), ..Default::default() };
    for (number, place) in [0, 2, 4].into_iter().enumerate() {
        let stream = log.create(&format!("s{number}"), spec.clone()).unwrap();
        let mut batch = AppendBatch::new(Arc::clone(&stream), Some(0), 0).unwrap();
        for (at, value) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            if at == place {
                batch.add(0, None, &[0; 1100]).unwrap_err();
            } else {
                batch.add(0, None, value.as_bytes()).unwrap();
            }
        }
        assert_eq!(batch.record_count, 4);
        let appending = batch.append(0);
        assert!(appending.error.is_none(), "{:?}", appending.error);
        log.sync();
        let (values, longest) = values(&stream, 0);
        assert!(values.len() == 4 && longest <= 1024, "{values:?}");
    }
}

#[test]
fn ranges_that_go_on_are_one() {
    let log = log();
    let spec = StreamSpec { max_chunk_bytes: ByteSize(1024), ..Default::default() };
    let stream = log.create("s", spec).unwrap();
    let mut batch = AppendBatch::new(stream, None, 0).unwrap();
    (0..100).for_each(|_| batch.add(0, None, &[b'x'; 100]).unwrap());
    let appending = batch.append(0);
    assert!(appending.ranges.len() > 5);
    log.sync();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ranges = runtime.block_on(appending.durable()).unwrap();
    assert_eq!(ranges, [Range { streamlet: 0, first_offset: 0, last_offset: 99 }]);
}

#[test]
fn what_does_not_count_is_a_problem() {
    let log = log();
    let stream = log.create("s", StreamSpec::default()).unwrap();
    let mut batch = AppendBatch::new(stream, None, 0).unwrap();
    batch.add(0, None, b"x").unwrap();
    let appending = batch.append(0);
    log.delete("s").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let problem = runtime.block_on(appending.durable()).unwrap_err();
    assert_eq!(problem.status, axum::http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(problem.details["appended"], json!([]));
}
