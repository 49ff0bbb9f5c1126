//! The largest timestamp is that of the visible chunks, whatever order they have.

use crate::{AppendOptions, ChunkTime, Log, LogOptions, StreamSpec, testing::Batch};
use proptest::prelude::*;
use std::path::Path;
use tidemill_env::World;
use tidemill_types::ByteSize;

proptest! {
    #[test]
    fn it_is_the_first_of_the_largest(
        times in proptest::collection::vec((0i64..50, 1i32..4, any::<bool>()), 1..80),
        start in 0i64..20,
        below in 0i64..200,
    ) {
        let sim = World::simulated(7);
        let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
        let log = Log::open(&sim.world, Path::new("/log"), options).unwrap();
        let spec = StreamSpec { segment_bytes: ByteSize(64 << 10), ..StreamSpec::default() };
        let stream = log.create("s", spec).unwrap();
        let streamlet = stream.streamlet(0).unwrap();
        prop_assert_eq!(streamlet.max_timestamp(i64::MAX).unwrap(), None);
        let mut chunks = Vec::new();
        for (timestamp_ms, records, long) in times {
            let value = vec![0; if long { 20_000 } else { 1 }];
            let batch = Batch { timestamp_ms, value, ..Batch::of(records) };
            let append = streamlet.append(&batch.bytes(), AppendOptions::default()).unwrap();
            chunks.push((append.base_offset, append.last_offset, timestamp_ms));
        }
        log.sync();
        let start = start.min(streamlet.high_watermark());
        stream.delete_records(&streamlet, start).unwrap();
        let expected = chunks
            .iter()
            .filter(|(_, last, _)| *last >= start && *last < below)
            .map(|(base, _, time)| ChunkTime {
                offset: (*base).max(start),
                max_timestamp_ms: *time,
            })
            .rev()
            .max_by_key(|it| it.max_timestamp_ms);
        prop_assert_eq!(streamlet.max_timestamp(below).unwrap(), expected);
    }
}
