//! How fast one core checks, reads and builds chunks of 64 KiB with records of 100 bytes, for each
//! codec. Bytes are those of the records without compression.
//!
//! ```text
//! cargo run --release -p tidemill-wire --example records
//! ```

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec},
    records::{ChunkBuilder, Compression, Headers, Records, RecordsLimit, check_records, inflate},
};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const CHUNK_BYTES: usize = 64 * 1024;
const MEASURED: Duration = Duration::from_millis(600);
const LIMIT: RecordsLimit =
    RecordsLimit { inflated_bytes_max: 16 << 20, record_bytes_max: 1 << 20 };

/// Values of 100 bytes that compress about as well as lines of a log do.
fn values() -> Vec<Vec<u8>> {
    let value = |index: u64| {
        let noise = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut line =
            format!("2026-01-01T00:00:{:02}Z INFO shop user={:06} ", index % 60, noise % 977);
        line.push_str(&format!(
            "GET /item/{:012x} status=200 took_us={:05} ok",
            noise >> 16,
            noise % 60_000
        ));
        line.push_str(&" ".repeat(100_usize.saturating_sub(line.len())));
        line.into_bytes()[..100].to_vec()
    };
    (0..4096).map(value).collect()
}

fn build(builder: &mut ChunkBuilder, values: &[Vec<u8>]) -> Vec<u8> {
    for (index, value) in values.iter().cycle().enumerate() {
        if builder.len_bytes() + value.len() + 16 > CHUNK_BYTES {
            break;
        }
        let appended =
            builder.append(1_700_000_000_000 + index as i64, None, Some(value), Headers::NONE);
        assert_eq!(appended, Ok(index as i32));
    }
    builder.finish().expect("it has records")
}

/// Runs `once` for a while and says how many bytes and records a second went through it, in the
/// best of ten parts of that time.
fn measure(name: &str, codec: Codec, bytes: usize, records: usize, mut once: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..10 {
        let (began, mut runs) = (Instant::now(), 0);
        while began.elapsed() < MEASURED / 10 {
            (0..16).for_each(|_| once());
            runs += 16;
        }
        best = best.min(began.elapsed().as_secs_f64() / f64::from(runs));
    }
    let (rate, count) = (bytes as f64 / best / 1e9, records as f64 / best / 1e6);
    println!("{name:24} {codec:7?} {rate:8.3} GB/s {count:8.2} M records/s", codec = codec);
}

fn main() {
    let values = values();
    for codec in CODECS {
        let mut builder = ChunkBuilder::new(Compression::of(codec));
        let chunk = build(&mut builder, &values);
        let head = ChunkHead::check(&chunk).expect("it was just built");
        let (body, mut scratch) = (&chunk[CHUNK_HEAD_BYTES..], Vec::new());
        let bytes = inflate(&head, body, usize::MAX, &mut scratch).expect("it is whole").len();
        let records = head.record_count as usize;
        println!("{codec:?}: {records} records, {bytes} bytes, chunk of {}", chunk.len());
        if codec == Codec::None {
            measure("head and checksum", codec, bytes, records, || {
                black_box(ChunkHead::check(black_box(&chunk)).expect("good"));
            });
        }
        measure("check records", codec, bytes, records, || {
            black_box(check_records(black_box(&chunk), &head, LIMIT).expect("good"));
        });
        measure("read", codec, bytes, records, || {
            let plain = inflate(&head, black_box(body), usize::MAX, &mut scratch).expect("whole");
            let mut seen = 0;
            for record in Records::new(&head, plain) {
                let record = record.expect("good");
                seen += record.value.map_or(0, <[u8]>::len) as i64 + record.timestamp_ms;
            }
            black_box(seen);
        });
        measure("build", codec, bytes, records, || {
            let chunk = build(&mut builder, black_box(&values));
            builder.give_back(black_box(chunk));
        });
    }
}
