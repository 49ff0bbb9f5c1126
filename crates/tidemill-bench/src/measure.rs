//! The figures of a benchmark, the same for every workload: items, latency, CPU, memory, and the
//! share of the machine that other processes used meanwhile. The definitions are those of `bench/peers/ENGINES.md`.

use crate::allocator;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::{
    io::Read as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tidemill_env::World;

/// One in this many messages carries its send time.
pub(crate) const SAMPLE: u64 = 64;

/// The figures of one run, by name.
pub(crate) type Report = Map<String, Value>;

/// Counts items and latencies; the last stage writes them, the thread that measures reads them.
pub(crate) struct Meter {
    world: World,
    items: AtomicU64,
    results: AtomicU64,
    measuring: AtomicBool,
    latency_us: Mutex<Histogram<u64>>,
    last_write_us: AtomicU64,
    longest_silence_us: AtomicU64,
}

/// The machine and this process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    now_us: u64,
    items: u64,
    cpu_s: f64,
    busy_s: f64,
    stolen_s: f64,
    allocations: u64,
}

impl Moment {
    /// Seconds of CPU that this process has used since.
    pub(crate) fn cpu_since(&self, before: &Self) -> f64 {
        self.cpu_s - before.cpu_s
    }

    /// Seconds of CPU that the machine's own host has kept from it since, as far as it says.
    pub(crate) fn stolen_since(&self, before: &Self) -> f64 {
        self.stolen_s - before.stolen_s
    }
}

impl Meter {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        let latency_us = Histogram::new_with_bounds(1, 600_000_000, 3);
        Arc::new(Self {
            world: world.clone(),
            items: AtomicU64::new(0),
            results: AtomicU64::new(0),
            measuring: AtomicBool::new(false),
            latency_us: Mutex::new(latency_us.expect("bounds that a histogram can have")),
            last_write_us: AtomicU64::new(0),
            longest_silence_us: AtomicU64::new(0),
        })
    }

    /// Microseconds on the clock that stamps are taken from; never 0.
    pub(crate) fn now_us(&self) -> u64 {
        self.world.clock.monotonic_micros() + 1
    }

    /// Items that came out so far.
    pub(crate) fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    /// Results of the workload so far: windows' rows, distinct words.
    pub(crate) fn results(&self) -> u64 {
        self.results.load(Relaxed)
    }

    /// Adds items.
    pub(crate) fn add(&self, items: u64) {
        self.items.fetch_add(items, Relaxed);
    }

    /// Notes that something came out just now.
    pub(crate) fn heard(&self) {
        let now_us = self.now_us();
        let before = self.last_write_us.swap(now_us, Relaxed);
        if before > 0 {
            self.longest_silence_us.fetch_max(now_us - before, Relaxed);
        }
    }

    /// The longest time between two outputs since this was last asked.
    pub(crate) fn take_longest_silence_us(&self) -> u64 {
        self.longest_silence_us.swap(0, Relaxed)
    }

    /// CPU seconds for each second between two moments.
    pub(crate) fn cpu_share(&self, (from, to): (Moment, Moment)) -> f64 {
        (to.cpu_s - from.cpu_s) / ((to.now_us - from.now_us).max(1) as f64 / 1e6)
    }

    /// Adds results.
    pub(crate) fn add_results(&self, results: u64) {
        self.results.fetch_add(results, Relaxed);
    }

    /// Notes the latency of messages that carry these send times.
    pub(crate) fn stamps(&self, stamps: &[u64]) {
        if stamps.is_empty() || !self.measuring.load(Relaxed) {
            return;
        }
        let now_us = self.now_us();
        let mut latency = self.latency_us.lock().expect("no panic while held");
        for stamp in stamps {
            latency.saturating_record(now_us.saturating_sub(*stamp).max(1));
        }
    }

    /// Begins the latencies anew.
    pub(crate) fn forget_latency(&self) {
        self.latency_us.lock().expect("no panic while held").reset();
    }

    pub(crate) fn measuring(&self, on: bool) {
        self.measuring.store(on, Relaxed);
    }

    /// Waits until `condition` holds, or gives up when `over` says so.
    pub(crate) fn wait(&self, condition: impl Fn() -> bool, over: impl Fn() -> bool) -> bool {
        while !condition() {
            if over() {
                return false;
            }
            self.world.clock.sleep_micros(1_000);
        }
        true
    }

    pub(crate) fn sleep(&self, span: Duration) {
        self.world.clock.sleep_micros(span.as_micros() as u64);
    }

    /// This moment; `children` are processes that count as ours.
    pub(crate) fn moment(&self, children: &[u32]) -> Moment {
        let children = children.iter().map(|pid| process_cpu_s(&format!("/proc/{pid}/stat")));
        Moment {
            now_us: self.now_us(),
            items: self.items(),
            cpu_s: process_cpu_s("/proc/self/stat") + children.sum::<f64>(),
            busy_s: machine_s(&[0, 1, 2, 5, 6]),
            stolen_s: machine_s(&[7]),
            allocations: allocator::allocations(),
        }
    }

    /// The report from one moment to another.
    pub(crate) fn report(
        &self,
        workload: &str,
        (from, to): (Moment, Moment),
        children: &[u32],
        more: Report,
    ) -> Report {
        let secs = (to.now_us - from.now_us) as f64 / 1e6;
        let items = (to.items - from.items) as f64;
        let cpu_s = to.cpu_s - from.cpu_s;
        let latency = self.latency_us.lock().expect("no panic while held");
        let quantile = |q: f64| match latency.len() {
            0 => Value::Null,
            _ => rounded(latency.value_at_quantile(q) as f64 / 1e3, 3),
        };
        let rss = children.iter().map(|pid| peak_rss_mb(&pid.to_string())).sum::<u64>();
        let other = ((to.busy_s - from.busy_s - cpu_s) / secs).max(0.0);
        let allocations = (to.allocations - from.allocations) as f64 * 1e6 / items.max(1.0);
        let Value::Object(mut report) = json!({
            "engine": "tidemill",
            "version": env!("CARGO_PKG_VERSION"),
            "workload": workload,
            "throughput_per_s": (items / secs).round() as u64,
            "p50_ms": quantile(0.5),
            "p99_ms": quantile(0.99),
            "max_ms": quantile(1.0),
            "latency_samples": latency.len(),
            "items": items as u64,
            "secs": rounded(secs, 2),
            "cpu_s": rounded(cpu_s, 2),
            "cpu_us_per_item": rounded(cpu_s * 1e6 / items.max(1.0), 4),
            "peak_rss_mb": peak_rss_mb("self") + rss,
            "other_cores_busy": rounded(other, 2),
            "allocations_per_million_items": allocations.round() as u64,
        }) else {
            unreachable!("an object was written");
        };
        report.extend(more);
        report
    }
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10_f64.powi(digits);
    json!((value * scale).round() / scale)
}

/// Seconds of CPU that a process has used, by its `stat`.
fn process_cpu_s(path: &str) -> f64 {
    let mut space = [0; PROC_FILE];
    let stat = proc_file(path, &mut space);
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    // User and system time.
    let ticks: f64 = fields.skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Most memory that a process has had, in MiB.
fn peak_rss_mb(pid: &str) -> u64 {
    let mut space = [0; PROC_FILE];
    let status = proc_file(&format!("/proc/{pid}/status"), &mut space);
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Seconds of CPU that the whole machine has used, in these columns of `/proc/stat`.
fn machine_s(columns: &[usize]) -> f64 {
    let mut space = [0; PROC_FILE];
    let stat = proc_file("/proc/stat", &mut space);
    let ticks = stat.lines().next().unwrap_or("").split_whitespace().skip(1).enumerate();
    let wanted = ticks.filter(|(column, _)| columns.contains(column));
    wanted.filter_map(|(_, it)| it.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Bytes read from the start of such a file; the figures stand in them.
const PROC_FILE: usize = 4 << 10;

/// The start of a file of `/proc`, as far as there is space; nothing if it cannot be read. It does not
/// allocate, as it is read while allocations are counted.
fn proc_file<'a>(path: &str, space: &'a mut [u8; PROC_FILE]) -> &'a str {
    let read = std::fs::File::open(path).and_then(|mut file| file.read(space));
    std::str::from_utf8(&space[..read.unwrap_or(0)]).unwrap_or("")
}
