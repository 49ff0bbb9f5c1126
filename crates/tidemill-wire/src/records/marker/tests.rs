//! Markers are read as they were written, and nothing else is taken for one.

use super::*;
use crate::records::{RecordsLimit, check_records, testing::*};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_marker_is_read_as_it_was_written(
        producer_id in 0i64..,
        producer_epoch in 0i16..,
        is_commit in any::<bool>(),
        coordinator_epoch in any::<i32>(),
        timestamp_ms in any::<i64>(),
    ) {
        let marker = Marker { producer_id, producer_epoch, is_commit, coordinator_epoch, timestamp_ms };
        let chunk = control_marker(&Marker { producer_id, producer_epoch, is_commit, coordinator_epoch, timestamp_ms });
        prop_assert_eq!(read_control(&chunk), Some(marker));
        let head = ChunkHead::check(&chunk).unwrap();
        prop_assert!(head.is_control() && head.is_transactional());
        prop_assert_eq!((head.record_count, head.base_sequence), (1, -1));
        let limit = RecordsLimit { inflated_bytes_max: 0, record_bytes_max: 100 };
        prop_assert!(check_records(&chunk, &head, limit).is_ok());
    }

    #[test]
    fn any_bytes_are_no_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if bytes.len() > 22 {
            bytes[16] = 2;
            bytes[22] = 0x30;
        }
        let _any = read_control(&bytes);
    }
}

#[test]
fn what_is_no_marker_is_none() {
    let marker = control_marker(&Marker {
        producer_id: 1,
        producer_epoch: 2,
        is_commit: true,
        coordinator_epoch: 3,
        timestamp_ms: 4,
    });
    assert_eq!(read_control(&marker[..marker.len() - 1]), None, "cut short");
    assert_eq!(read_control(&build(Compression::NONE, &lines(1))), None, "records");
    // Type 2 is a change of leaders.
    let mut other = marker.clone();
    let key = 1 + other.windows(4).rposition(|it| it == [0, 0, 0, 1]).unwrap();
    other[key + 2] = 2;
    assert_eq!(read_control(&other), None, "of another type");
    // A later version with one more field.
    let mut builder = ChunkBuilder::new(Compression::NONE);
    let later =
        builder.append(0, Some(&[0, 9, 0, 0, 7]), Some(&[0, 9, 0, 0, 0, 5, 7]), Headers::NONE);
    assert_eq!(later, Ok(0));
    let mut later = builder.finish().unwrap();
    later[22] = 0x30;
    assert_eq!(read_control(&later).unwrap().coordinator_epoch, 5);
}
