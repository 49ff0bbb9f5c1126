//! Records for tests: owned, with a strategy, written by the builder and read back.

use super::{ChunkBuilder, Compression, Header, Records, RecordsError, RecordsLimit, inflate};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec};
use proptest::{collection::vec, option, prelude::*};

/// Every codec.
pub(crate) const CODECS: [Codec; 5] =
    [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// More than any test needs.
pub(crate) const ROOMY: RecordsLimit =
    RecordsLimit { inflated_bytes_max: 64 << 20, record_bytes_max: 16 << 20 };

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    pub(crate) fn value(value: &[u8]) -> Self {
        Self { timestamp_ms: 0, key: None, value: Some(value.to_vec()), headers: Vec::new() }
    }

    pub(crate) fn append_to(&self, builder: &mut ChunkBuilder) -> i32 {
        let headers =
            self.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() });
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        builder.append(self.timestamp_ms, key, value, headers).unwrap()
    }
}

/// So many records of 100 bytes that compress about as well as log lines do.
pub(crate) fn lines(count: usize) -> Vec<Owned> {
    let line = |index: usize| {
        let noise = index.wrapping_mul(0x9e37_79b9) ^ index << 7;
        let mut line =
            format!("{index:08} GET /shop/item/{noise:016x} 200 user={:08}", noise % 977);
        line.push_str(&" .".repeat(20)[..]);
        Owned::value(&line.as_bytes()[..93])
    };
    (0..count).map(line).collect()
}

/// The chunk of these records.
pub(crate) fn build(compression: Compression, records: &[Owned]) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(compression);
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.append_to(&mut builder), index as i32);
    }
    builder.finish().expect("a record at least")
}

/// The records of a chunk, whatever its codec. Offset deltas must count up.
pub(crate) fn read(chunk: &[u8]) -> Result<Vec<Owned>, RecordsError> {
    let head = ChunkHead::check(chunk).expect("the head is good");
    let mut scratch = Vec::new();
    let plain = inflate(&head, &chunk[CHUNK_HEAD_BYTES..], ROOMY.inflated_bytes_max, &mut scratch)?;
    owned(&head, plain)
}

/// The records in inflated bytes.
pub(crate) fn owned(head: &ChunkHead, plain: &[u8]) -> Result<Vec<Owned>, RecordsError> {
    let mut into = Vec::new();
    for record in Records::new(head, plain) {
        let record = record?;
        assert_eq!(record.offset_delta as usize, into.len());
        let headers = record.headers.map(|it| (it.key.to_vec(), it.value.map(<[u8]>::to_vec)));
        into.push(Owned {
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers.collect(),
        });
    }
    Ok(into)
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    // Runs of a byte compress, other bytes do not; both lie on either side of a varint's steps.
    prop_oneof![
        vec(any::<u8>(), 0..most),
        (any::<u8>(), 0..most * 4).prop_map(|(byte, length)| vec![byte; length])
    ]
}

prop_compose! {
    /// Any record.
    pub(crate) fn any_record()(
        timestamp_ms in prop_oneof![-5i64..70_000, -(1i64 << 61)..(1 << 61)],
        key in option::of(bytes(20)),
        value in option::of(bytes(300)),
        headers in vec((bytes(10), option::of(bytes(20))), 0..4),
    ) -> Owned {
        Owned { timestamp_ms, key, value, headers }
    }
}

/// Some records, at least one.
pub(crate) fn any_records() -> impl Strategy<Value = Vec<Owned>> {
    vec(any_record(), 1..40)
}

/// Any codec.
pub(crate) fn any_codec() -> impl Strategy<Value = Codec> {
    (0..CODECS.len()).prop_map(|index| CODECS[index])
}
