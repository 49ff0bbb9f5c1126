//! Makes a large log, leaves it as `kill -9` does, and says what opening it takes.
//!
//! ```text
//! cargo run --release -p tidemill-log --example restart -- make FOLDER STREAMLETS MEGABYTES
//! cargo run --release -p tidemill-log --example restart -- open FOLDER
//! ```
//!
//! `make` appends a chunk of 200 bytes to each streamlet, then chunks of 1,000,000 bytes in turn up
//! to so many megabytes, and ends without closing the log. Files that are full are made sparse by
//! `fallocate --dig-holes`, so that the disk need not have the room: their chunks hold zeros, and
//! opening does not read them. `open` opens the log, reads the last chunk of each streamlet, and
//! ends in the same way: so it can be repeated.

use std::{
    path::Path,
    process::{Command, exit},
};
use tidemill_env::World;
use tidemill_log::{
    AppendOptions, Fsync, Log, LogOptions, ReadCursor, ReadLimit, StreamSpec, crc32c,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A chunk with one record that is not compressed, of so many bytes in all.
fn chunk(bytes: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes];
    let length = (chunk.len() - 12) as i32;
    chunk[8..12].copy_from_slice(&length.to_be_bytes());
    chunk[16] = 2;
    chunk[43..57].fill(0xff);
    chunk[60] = 1;
    let crc = crc32c(&chunk[21..]);
    chunk[17..21].copy_from_slice(&crc.to_be_bytes());
    chunk
}

/// What the process has in memory of its own, and in all, in MB.
fn memory_mb(world: &World) -> Outcome<(u64, u64)> {
    let status = String::from_utf8(world.disk.read(Path::new("/proc/self/status"))?)?;
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|it| it.starts_with(name)).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0) / 1024
    };
    Ok((field("RssAnon:"), field("VmRSS:")))
}

fn dig_holes(world: &World, folder: &Path) -> Outcome<()> {
    for stream in world.disk.list(&folder.join("streams"))? {
        let files: Vec<_> = world.disk.list(&stream)?;
        let full: Vec<_> = files
            .iter()
            .filter(|path| {
                let length = world.disk.open_read(path).and_then(|it| it.length());
                length.is_ok_and(|it| it > 15_000_000)
            })
            .collect();
        for path in full {
            Command::new("fallocate").arg("--dig-holes").arg(path).status()?;
        }
    }
    Ok(())
}

fn make(world: &World, folder: &Path, streamlets: u32, megabytes: u32) -> Outcome<()> {
    // Not synced one by one: the dead process leaves as much, and it is made sooner.
    let options = LogOptions { fsync: Fsync::Os, ..LogOptions::default() };
    let log = Log::open(world, folder, options)?;
    let spec = StreamSpec { streamlets, fsync: Some(Fsync::Os), ..StreamSpec::default() };
    let all = log.create("restart", spec.clone())?.streamlets();
    let small = chunk(200);
    for streamlet in &all {
        streamlet.append(&small, AppendOptions::default())?.wait()?;
    }
    let large = chunk(1_000_000);
    for index in 0..megabytes {
        let streamlet = &all[index as usize % all.len()];
        streamlet.append(&large, AppendOptions::default())?.wait()?;
        if index % 1000 == 999 {
            dig_holes(world, folder)?;
        }
    }
    // From here on as a broker has it by default.
    log.alter("restart", StreamSpec { fsync: Some(Fsync::Always), ..spec })?;
    exit(0)
}

fn open(world: &World, folder: &Path) -> Outcome<()> {
    let began_us = world.clock.monotonic_micros();
    let log = Log::open(world, folder, LogOptions::default())?;
    let opened_us = world.clock.monotonic_micros();
    let (own_mb, all_mb) = memory_mb(world)?;
    let streamlets: Vec<_> = log.list().iter().flat_map(|it| it.streamlets()).collect();
    let (mut segments, mut bytes) = (0, 0);
    for streamlet in &streamlets {
        segments += streamlet.segment_count();
        bytes += streamlet.bytes();
        let last = streamlet.high_watermark() - 1;
        let found = streamlet.read(&mut ReadCursor::default(), last, ReadLimit::default())?;
        assert_eq!(found.chunks.len(), 1, "the last chunk is there");
    }
    let read_us = world.clock.monotonic_micros();
    println!(
        "{} streamlets, {segments} segments, {} MB: opened in {} ms, with {own_mb} MB of memory \
         ({all_mb} MB with the program); last chunks read in {} ms; {} findings",
        streamlets.len(),
        bytes / 1_000_000,
        (opened_us - began_us) / 1000,
        (read_us - opened_us) / 1000,
        log.findings().len(),
    );
    let small = chunk(200);
    let began_us = world.clock.monotonic_micros();
    let mut last = None;
    for streamlet in &streamlets {
        last = Some(streamlet.append(&small, AppendOptions::default())?);
    }
    last.map_or(Ok(()), |it| it.wait())?;
    let (own_mb, all_mb) = memory_mb(world)?;
    println!(
        "a chunk appended to each in {} ms; {own_mb} MB of memory ({all_mb} MB)",
        (world.clock.monotonic_micros() - began_us) / 1000
    );
    exit(0)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let world = World::real();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, streamlets, megabytes] => {
            make(&world, Path::new(folder), streamlets.parse()?, megabytes.parse()?)
        }
        ["open", folder] => open(&world, Path::new(folder)),
        _ => Err("say `make FOLDER STREAMLETS MEGABYTES` or `open FOLDER`".into()),
    }
}
