//! `tidemill-bench state`: values saved under random keys, one sync for each batch; then how long it takes to
//! open what a crash would leave (Vallés, "An Analysis of a Checkpointing Mechanism", 4.2, figure 4.2).

use super::measure::{Meter, Report};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf};
use tidemill_checkpoints::{
    Backend, FileBackend, IndexedBackend, IndexedOptions, RecoveryReport, WriteBatch,
};
use tidemill_env::{Random, World};
use tidemill_types::ByteSize;

/// A backend to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendKind {
    /// Append-only files and an index in memory.
    Indexed,
    /// A file for each key.
    Files,
}

/// Options of the workload.
#[derive(Args, Debug)]
pub(crate) struct StateArgs {
    /// Print one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// A folder that does not exist yet; it is kept afterwards.
    #[arg(long)]
    data: PathBuf,
    /// The backend to measure.
    #[arg(long, value_enum, default_value = "indexed")]
    backend: BackendKind,
    /// Keys of 16 bytes; all are there before anything is measured.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Saves in a batch.
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Never write the index down: all is read again when it is opened.
    #[arg(long)]
    no_flush: bool,
}

impl StateArgs {
    fn options(&self) -> IndexedOptions {
        let options = IndexedOptions::default();
        let none = IndexedOptions { flush_bytes: ByteSize(u64::MAX), ..options };
        if self.no_flush { none } else { options }
    }

    /// Opens the backend. An indexed one says what it found.
    fn open(&self, world: &World) -> Result<(Box<dyn Backend>, RecoveryReport), String> {
        match self.backend {
            BackendKind::Indexed => IndexedBackend::open(world, &self.data, self.options())
                .map(|(backend, opened)| (Box::new(backend) as Box<dyn Backend>, opened)),
            BackendKind::Files => FileBackend::open(world, &self.data)
                .map(|backend| (Box::new(backend) as Box<dyn Backend>, RecoveryReport::default())),
        }
        .map_err(|error| error.to_string())
    }

    /// Commits batches: each key is the next of `keys`.
    fn save(
        &self,
        backend: &dyn Backend,
        meter: &Meter,
        mut keys: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        let mut batch = WriteBatch::default();
        let mut value = vec![0; self.value_bytes];
        loop {
            for key in keys.by_ref().take(self.batch.max(1)) {
                // A value that was not there before.
                let head = self.value_bytes.min(8);
                value[..head].copy_from_slice(&meter.items().to_le_bytes()[..head]);
                batch.put(&name(key), &value);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let count = batch.len() as u64;
            backend.commit(&mut batch).map_err(|error| error.to_string())?;
            meter.add(count);
        }
    }
}

/// The key of this number.
fn name(key: u64) -> [u8; 16] {
    let mut name = *b"key-000000000000";
    write!(&mut name[4..], "{key:012}").expect("no more than a million million keys");
    name
}

/// Runs the workload and gives its report.
pub(super) fn run(world: &World, args: &StateArgs) -> Result<Report, String> {
    let is_there = world.disk.exists(&args.data).map_err(|error| error.to_string())?;
    if is_there {
        return Err(format!("{} is there already: name a new folder", args.data.display()));
    }
    let meter = Meter::new(world);
    let (backend, _) = args.open(world)?;
    args.save(&*backend, &meter, 0..args.keys)?;
    let from = meter.moment(&[]);
    let until_us = meter.now_us() + (args.seconds * 1e6) as u64;
    let mut random = Random::new(world.seed);
    let keys = std::iter::from_fn(|| (meter.now_us() < until_us).then(|| random.below(args.keys)));
    args.save(&*backend, &meter, keys)?;
    let to = meter.moment(&[]);
    // As a crash would leave it: nothing is flushed when it is dropped.
    drop(backend);
    let began_us = meter.now_us();
    let (backend, opened) = args.open(world)?;
    let open_us = meter.now_us() - began_us;
    let (mut found, mut missing) = (0u64, 0u64);
    for key in (0..args.keys).step_by((args.keys / 1_000).max(1) as usize) {
        match backend.get(&name(key)).map_err(|error| error.to_string())? {
            Some(_) => found += 1,
            None => missing += 1,
        }
    }
    let Value::Object(more) = json!({
        "backend": args.backend.to_possible_value().map(|it| it.get_name().to_owned()),
        "keys": args.keys,
        "value_bytes": args.value_bytes,
        "batch": args.batch,
        "open_ms": open_us as f64 / 1e3,
        "open_behind_bytes": opened.bytes,
        "open_read_bytes": opened.read_bytes,
        "looked_up": found + missing,
        "missing": missing,
    }) else {
        unreachable!("an object was written");
    };
    Ok(meter.report("state", (from, to), &[], more))
}
