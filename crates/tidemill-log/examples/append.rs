//! Appends chunks to many streamlets at once and says what that costs: chunks and bytes a second,
//! and time of the processor for each chunk.
//!
//! ```text
//! cargo run --release -p tidemill-log --example append -- FOLDER [streamlets=1000] [threads=16]
//!     [bytes=1024] [fsync=always|os|10ms] [seconds=5] [window=0]
//! ```
//!
//! Each thread appends a chunk to each of its streamlets, then waits until all have landed, and so
//! on. With `window=N` it waits after every N chunks instead.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex},
};
use tidemill_env::World;
use tidemill_log::{AppendOptions, Fsync, Log, LogOptions, StreamSpec, crc32c};

/// A chunk with one record that is not compressed, of so many bytes in all.
fn chunk(bytes: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes.max(68)];
    let length = (chunk.len() - 12) as i32;
    chunk[8..12].copy_from_slice(&length.to_be_bytes());
    chunk[16] = 2;
    chunk[43..57].fill(0xff);
    chunk[60] = 1;
    let crc = crc32c(&chunk[21..]);
    chunk[17..21].copy_from_slice(&crc.to_be_bytes());
    chunk
}

/// Time of the processor that this process took, in microseconds.
fn processor_us(world: &World) -> u64 {
    let stat = world.disk.read(Path::new("/proc/self/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    // In hundredths of a second: in the program and in the system.
    fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>() * 10_000
}

/// Counts what has landed.
#[derive(Default)]
struct Landed {
    count: Mutex<u64>,
    wake: Condvar,
}

impl Landed {
    fn wait_for(&self, count: u64) {
        let mut landed = self.count.lock().expect("no panic while held");
        while *landed < count {
            landed = self.wake.wait(landed).expect("no panic while held");
        }
    }
}

struct Case {
    streamlets: u32,
    threads: u32,
    bytes: usize,
    fsync: Fsync,
    seconds: u64,
    window: u64,
}

fn setting<'a>(arguments: &'a [String], name: &str, default: &'a str) -> &'a str {
    let value = arguments.iter().filter_map(|it| it.split_once('=')).find(|it| it.0 == name);
    value.map_or(default, |it| it.1)
}

fn case(arguments: &[String]) -> Result<Case, Box<dyn std::error::Error>> {
    Ok(Case {
        streamlets: setting(arguments, "streamlets", "1000").parse()?,
        threads: setting(arguments, "threads", "16").parse()?,
        bytes: setting(arguments, "bytes", "1024").parse()?,
        fsync: match setting(arguments, "fsync", "always") {
            "always" => Fsync::Always,
            "os" => Fsync::Os,
            span => Fsync::Every(span.parse()?),
        },
        seconds: setting(arguments, "seconds", "5").parse()?,
        window: setting(arguments, "window", "0").parse()?,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("say which folder")?;
    let case = case(&arguments)?;
    let world = World::real();
    let options = LogOptions { fsync: case.fsync, ..LogOptions::default() };
    let log = Log::open(&world, Path::new(folder), options)?;
    let name = format!("append-{}", world.clock.wall_micros());
    let stream =
        log.create(&name, StreamSpec { streamlets: case.streamlets, ..Default::default() })?;
    let end_us = world.clock.monotonic_micros() + case.seconds * 1_000_000;
    let (began_us, began_cpu_us) = (world.clock.monotonic_micros(), processor_us(&world));
    let total = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..case.threads)
        .map(|thread| {
            let mine: Vec<_> = (thread..case.streamlets)
                .step_by(case.threads as usize)
                .filter_map(|it| stream.streamlet(it))
                .collect();
            let (total, clock) = (Arc::clone(&total), Arc::clone(&world.clock));
            let window = if case.window == 0 { mine.len() as u64 } else { case.window };
            let chunk = chunk(case.bytes);
            let body = move || {
                let landed = Arc::new(Landed::default());
                let mut sent = 0;
                'all: loop {
                    for streamlet in &mine {
                        let append = streamlet.append(&chunk, AppendOptions::default());
                        let told = Arc::clone(&landed);
                        append.expect("there is room").on_durable(Box::new(move |outcome| {
                            outcome.expect("the disk works");
                            *told.count.lock().expect("no panic while held") += 1;
                            told.wake.notify_one();
                        }));
                        sent += 1;
                        if sent % window == 0 {
                            landed.wait_for(sent);
                            if clock.monotonic_micros() > end_us {
                                break 'all;
                            }
                        }
                    }
                }
                *total.lock().expect("no panic while held") += sent;
            };
            world.spawn.spawn("append", Box::new(body))
        })
        .collect();
    threads.into_iter().for_each(|it| it.join());
    let seconds = (world.clock.monotonic_micros() - began_us) as f64 / 1e6;
    let cpu_us = (processor_us(&world) - began_cpu_us) as f64;
    let chunks = *total.lock().expect("no panic while held") as f64;
    println!(
        "{} streamlets, {} threads, {} bytes, {:?}: {:.0} chunks/s, {:.1} MB/s, {:.2} µs/chunk",
        case.streamlets,
        case.threads,
        case.bytes,
        case.fsync,
        chunks / seconds,
        chunks * case.bytes as f64 / seconds / 1e6,
        cpu_us / chunks,
    );
    log.delete(&name)?;
    log.close();
    Ok(())
}
