//! Any bytes as a chunk: accepted bytes are exactly one chunk, and stamping keeps it valid.

#![no_main]

use tidemill_wire::chunk::{ChunkHead, LeaderEpoch, stamp, stamp_append_time};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let read = ChunkHead::read(bytes);
    if let Ok(head) = ChunkHead::check(bytes) {
        assert_eq!(read.as_ref(), Ok(&head));
        assert_eq!(head.bytes, bytes.len());
        assert_eq!(head.last_offset_delta, head.record_count - 1);
        let mut chunk = bytes.to_vec();
        stamp(&mut chunk, 7, LeaderEpoch(3));
        let stamped = ChunkHead::check(&chunk).expect("a stamp keeps a chunk good");
        assert_eq!((stamped.base_offset, stamped.leader_epoch), (7, 3));
        stamp_append_time(&mut chunk, 9);
        assert!(ChunkHead::check(&chunk).expect("its checksum was mended").is_log_append_time());
    }
});
