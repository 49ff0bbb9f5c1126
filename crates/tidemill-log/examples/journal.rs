//! The two journals beside `dd` with the same policy, and beside a plain copy in memory.
//!
//! ```text
//! cargo run --release -p tidemill-log --example journal -- FOLDER [megabytes=512] [syncs=1000]
//! ```
//!
//! - `os`: so many megabytes are written and, at the end, all is synced: `dd conv=fdatasync`.
//! - `always`: so many chunks, each of them synced before the next: `dd oflag=dsync`.
//! - `journal` is the append of a chunk that was checked, without a copy kept in memory, and synced
//!   by who appends it; `log` is an append as a broker makes it: checked, kept in memory for readers,
//!   and synced by a thread that does so for all.
//!
//! Each number is the median of three rounds, which take turns, in megabytes a second.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tidemill_env::World;
use tidemill_log::{
    AppendOptions, ChunkHead, Fsync, Journal, Log, LogOptions, Retention, StreamSpec, crc32c,
};
use tidemill_types::ByteSize;

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

#[derive(Clone, Copy)]
struct Case {
    bytes: usize,
    count: usize,
    fsync: Fsync,
}

fn dd(folder: &Path, case: Case) -> Outcome<()> {
    let file = folder.join("dd");
    let sync = if case.fsync == Fsync::Always { "oflag=dsync" } else { "conv=fdatasync" };
    let status = Command::new("dd")
        .args(["if=/dev/zero", sync])
        .arg(format!("of={}", file.display()))
        .arg(format!("bs={}", case.bytes))
        .arg(format!("count={}", case.count))
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err("dd failed".into()) }
}

/// Into memory that was not used before, or was.
fn copy(case: Case, into: &mut Vec<u8>) {
    let chunk = chunk(case.bytes);
    into.clear();
    for _ in 0..case.count {
        into.extend_from_slice(&chunk);
    }
    black_box(into);
}

fn append(world: &World, folder: &Path, case: Case, journal: Journal, kept: bool) -> Outcome<()> {
    let memory = if kept { LogOptions::default().memory_bytes } else { ByteSize(0) };
    let sync_threads = if kept { LogOptions::default().sync_threads } else { 0 };
    let options = LogOptions {
        journal,
        fsync: case.fsync,
        memory_bytes: memory,
        sync_threads,
        ..LogOptions::default()
    };
    let log = Log::open(world, folder, options)?;
    let retention = Retention { time: None, bytes: None };
    let stream = log.create("journal", StreamSpec { retention, ..StreamSpec::default() })?;
    let streamlet = stream.streamlet(0).ok_or("it has one")?;
    let chunk = chunk(case.bytes);
    let head = ChunkHead::check(&chunk)?;
    for _ in 0..case.count {
        let append = if kept {
            streamlet.append(&chunk, AppendOptions::default())
        } else {
            streamlet.append_checked(&head, &chunk, AppendOptions::default())
        };
        let append = append?;
        if case.fsync == Fsync::Always {
            if !kept {
                log.sync();
            }
            append.wait()?;
        }
    }
    if !kept {
        log.sync();
    }
    log.close();
    Ok(())
}

/// Removes what a round left.
fn clean(world: &World, folder: &Path) -> Outcome<()> {
    for path in world.disk.list(folder)? {
        if world.disk.remove(&path).is_err() {
            clean(world, &path)?;
            world.disk.remove_dir(&path)?;
        }
    }
    Ok(())
}

const WAYS: [&str; 7] = [
    "dd",
    "journal, writes",
    "journal, map",
    "log, writes",
    "log, map",
    "copy, new memory",
    "copy, used memory",
];

fn round(world: &World, folder: &Path, case: Case, way: usize, used: &mut Vec<u8>) -> Outcome<f64> {
    let began_us = world.clock.monotonic_micros();
    match way {
        0 => dd(folder, case)?,
        1 => append(world, folder, case, Journal::Write, false)?,
        2 => append(world, folder, case, Journal::Map, false)?,
        3 => append(world, folder, case, Journal::Write, true)?,
        4 => append(world, folder, case, Journal::Map, true)?,
        5 => copy(case, &mut Vec::with_capacity(case.bytes * case.count)),
        _ => copy(case, used),
    }
    let took_us = world.clock.monotonic_micros() - began_us;
    clean(world, folder)?;
    Ok((case.bytes * case.count) as f64 / took_us as f64)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().ok_or("say which folder")?).join("journal");
    let setting = |name: &str, default: usize| {
        let value = arguments.iter().filter_map(|it| it.split_once('=')).find(|it| it.0 == name);
        value.map_or(Ok(default), |it| it.1.parse())
    };
    let (megabytes, syncs) = (setting("megabytes", 512)?, setting("syncs", 1000)?);
    let world = World::real();
    world.disk.create_dir_all(&folder)?;
    let mut used = Vec::with_capacity(megabytes << 20);
    used.resize(megabytes << 20, 1);
    println!(
        "{:20} {:>12} {:>12} {:>12} {:>12}",
        "MB/s", "os 1 KiB", "os 64 KiB", "always 1 KiB", "always 64 KiB"
    );
    let case = |bytes: usize, fsync| Case {
        bytes,
        count: if fsync == Fsync::Os { (megabytes << 20) / bytes } else { syncs },
        fsync,
    };
    let cases = [
        case(1 << 10, Fsync::Os),
        case(64 << 10, Fsync::Os),
        case(1 << 10, Fsync::Always),
        case(64 << 10, Fsync::Always),
    ];
    let mut rates = vec![vec![Vec::new(); cases.len()]; WAYS.len()];
    for _ in 0..3 {
        for (column, case) in cases.iter().enumerate() {
            for (way, rates) in rates.iter_mut().enumerate() {
                rates[column].push(round(&world, &folder, *case, way, &mut used)?);
            }
        }
    }
    for (way, rates) in WAYS.iter().zip(&mut rates) {
        let medians: Vec<String> = rates
            .iter_mut()
            .map(|rates| {
                rates.sort_by(f64::total_cmp);
                format!("{:>12.1}", rates[1])
            })
            .collect();
        println!("{way:20} {}", medians.join(" "));
    }
    world.disk.remove_dir(&folder)?;
    Ok(())
}
