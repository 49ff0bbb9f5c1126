//! How fast the native client produces and consumes, against a node that runs already.
//!
//! ```text
//! cargo run --release -p tidemill-client --example throughput -- ADDR STREAM produce|consume \
//!     RECORDS [key=value …]
//! ```
//!
//! Keys: `bytes` of a record's value (100), `threads` that send (1), `batch` in bytes (262144),
//! `linger` in milliseconds (5), `acks` (all), `codec` (none), `rate` in records a second (none:
//! as fast as it goes; with a rate, latencies from the moment a record was due are told too),
//! `idempotent` (yes).

use std::{
    collections::BTreeMap,
    io::Write,
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tidemill_client::{
    Client, ClientOptions,
    consumer::{ConsumerOptions, Start},
    producer::{Acks, Codec, Compression, NewRecord, ProducerOptions, StreamWriter},
};
use tidemill_env::World;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Given(BTreeMap<String, String>);

impl Given {
    fn get<T: FromStr>(&self, key: &str, default: T) -> T {
        self.0.get(key).and_then(|it| it.parse().ok()).unwrap_or(default)
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("say {what}"));
    let (address, stream) = (next("ADDR")?, next("STREAM")?);
    let (what, records) = (next("produce or consume")?, next("RECORDS")?.parse()?);
    let pairs = arguments
        .filter_map(|it| it.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
    let given = Given(pairs.collect());
    let world = World::real();
    let client = Client::new(&world, ClientOptions::at(&address));
    match what.as_str() {
        "produce" => produce(&world, &client, &stream, records, &given),
        "consume" => consume(&world, &client, &stream, records, &given),
        other => Err(format!("`{other}`: say produce or consume").into()),
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn say(world: &World, began_us: u64, records: u64, bytes: u64) -> Outcome<()> {
    let seconds = (world.clock.monotonic_micros() - began_us) as f64 / 1e6;
    writeln!(
        std::io::stdout(),
        "{records} records, {:.1} MB in {seconds:.3} s: {:.2} M records/s, {:.0} MB/s, {:.2} CPU s",
        bytes as f64 / 1e6,
        records as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6,
        cpu_seconds(),
    )?;
    Ok(())
}

fn options(given: &Given) -> ProducerOptions {
    let codec = match given.get("codec", String::new()).as_str() {
        "gzip" => Codec::Gzip,
        "snappy" => Codec::Snappy,
        "lz4" => Codec::Lz4,
        "zstd" => Codec::Zstd,
        _ => Codec::None,
    };
    let acks = match given.get("acks", String::new()).as_str() {
        "0" => Acks::None,
        "1" => Acks::Leader,
        _ => Acks::All,
    };
    ProducerOptions {
        acks,
        idempotent: given.get("idempotent", "yes".to_owned()) == "yes",
        compression: Compression::of(codec),
        linger: Duration::from_millis(given.get("linger", 5)),
        batch_bytes: given.get("batch", 256 << 10),
        buffer_bytes: given.get("buffer", 64 << 20),
        in_flight: given.get("inflight", 5),
        ..ProducerOptions::default()
    }
}

fn produce(
    world: &World,
    client: &Client,
    stream: &str,
    records: u64,
    given: &Given,
) -> Outcome<()> {
    let threads = given.get("threads", 1u64);
    let bytes = given.get("bytes", 100usize);
    let rate = given.get("rate", 0u64);
    let producer = client.producer(options(given));
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let began_us = world.clock.monotonic_micros();
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let writer = producer.stream(stream)?;
            let (world, latencies) = (world.clone(), Arc::clone(&latencies));
            let spawn = Arc::clone(&world.spawn);
            let body = move || {
                let count = records / threads;
                match rate {
                    0 => flat_out(&writer, count, bytes),
                    rate => paced(&world, &writer, (count, bytes), rate / threads, &latencies),
                }
            };
            Ok(spawn.spawn("send", Box::new(body)))
        })
        .collect::<Outcome<_>>()?;
    running.into_iter().for_each(|it| it.join());
    producer.flush(Duration::from_secs(300))?;
    let stats = producer.stats();
    say(world, began_us, stats.delivered_records, stats.delivered_bytes)?;
    println!(
        "{} chunks in {} requests, {} sent again, {} failed",
        stats.delivered_chunks, stats.requests, stats.retries, stats.failed_records
    );
    let mut all = latencies.lock().map_err(|_| "a thread has failed")?;
    all.sort_unstable();
    if !all.is_empty() {
        let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
        println!(
            "ms from due to acknowledged: p50 {:.2}, p99 {:.2}, p99.9 {:.2}, most {:.2}",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    Ok(())
}

fn flat_out(writer: &StreamWriter, count: u64, bytes: usize) {
    let mut value = vec![b'x'; bytes];
    for number in 0..count {
        let digits = number.to_be_bytes();
        let some = digits.len().min(bytes);
        value[..some].copy_from_slice(&digits[..some]);
        let record = NewRecord { value: Some(&value), ..NewRecord::default() };
        if let Err(error) = writer.send(&record) {
            return eprintln!("error: {error}");
        }
    }
}

fn paced(
    world: &World,
    writer: &StreamWriter,
    (count, bytes): (u64, usize),
    rate: u64,
    latencies: &Arc<Mutex<Vec<u64>>>,
) {
    let value = vec![b'x'; bytes];
    let began_us = world.clock.monotonic_micros();
    for number in 0..count {
        let due_us = began_us + number * 1_000_000 / rate.max(1);
        loop {
            let now_us = world.clock.monotonic_micros();
            if now_us >= due_us {
                break;
            }
            if due_us - now_us > 60 {
                world.clock.sleep_micros(due_us - now_us - 50);
            }
        }
        let (clock, latencies) = (Arc::clone(&world.clock), Arc::clone(latencies));
        let done = move |_| {
            let latency_us = clock.monotonic_micros() - due_us;
            if let Ok(mut latencies) = latencies.lock() {
                latencies.push(latency_us);
            }
        };
        let record = NewRecord { value: Some(&value), ..NewRecord::default() };
        if let Err(error) = writer.send_then(&record, done) {
            return eprintln!("error: {error}");
        }
    }
}

fn consume(
    world: &World,
    client: &Client,
    stream: &str,
    records: u64,
    given: &Given,
) -> Outcome<()> {
    let options = ConsumerOptions {
        streamlet_bytes: given.get("streamlet", 2 << 20),
        fetch_bytes: given.get("fetch", 16 << 20),
        buffer_bytes: given.get("buffer", 32 << 20),
        ..ConsumerOptions::default()
    };
    let mut consumer = client.consumer(options);
    consumer.assign_stream(stream, Start::Earliest)?;
    let began_us = world.clock.monotonic_micros();
    let (mut seen, mut bytes) = (0u64, 0u64);
    let sum = AtomicU64::new(0);
    while seen < records {
        let Some(batch) = consumer.poll(Duration::from_secs(10))? else {
            return Err(format!("only {seen} records came").into());
        };
        bytes += batch.bytes() as u64;
        let mut of_batch = 0;
        for record in batch.records() {
            let value = record?.value.unwrap_or_default();
            of_batch += value.len() as u64 + u64::from(value.first().copied().unwrap_or(0));
            seen += 1;
        }
        sum.fetch_add(of_batch, Ordering::Relaxed);
        consumer.recycle(batch);
    }
    say(world, began_us, seen, bytes)
}
