//! `tidemill-bench neighbours`: two jobs in one process, one with a fixed rate and short cycles, one that
//! takes all it can get. The latency of the first shows the cost of the second.

use super::measure::{Meter, Report};
use super::relay::{self, Relay};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tidemill_env::World;
use tidemill_flow::{JobHandle, OperatorFactory, RunOptions};

/// Runs both jobs and reports the first; the figures of the second are in `neighbour_…`.
pub(crate) fn run(
    world: &World,
    quick: &Relay,
    greedy: &Relay,
    user: &Arc<dyn OperatorFactory>,
) -> Result<Report, String> {
    let (meter, handle) = start(world, quick, user)?;
    meter.wait(|| meter.items() > 0, || handle.is_over());
    let alone = relay::timed(&meter, &handle, quick, &[]);
    let (other, other_handle) = start(world, greedy, user)?;
    other.wait(|| other.items() > 0, || other_handle.is_over());
    other.sleep(Duration::from_secs_f64(quick.warmup));
    meter.forget_latency();
    let from = other.items();
    let mut report = relay::timed(&meter, &handle, &Relay { warmup: 0.0, ..quick.clone() }, &[]);
    let taken = other.items() - from;
    for handle in [handle, other_handle] {
        handle.stop();
        handle.wait().map_err(|error| error.to_string())?;
    }
    let Value::Object(more) = json!({
        "workload": "neighbours",
        "p50_alone_ms": alone["p50_ms"],
        "p99_alone_ms": alone["p99_ms"],
        "neighbour_message_bytes": greedy.message_bytes,
        "neighbour_threads": greedy.threads,
        "neighbour_throughput_per_s": (taken as f64 / quick.seconds).round() as u64,
    }) else {
        unreachable!("an object was written");
    };
    report.extend(more);
    Ok(report)
}

fn start(
    world: &World,
    relay: &Relay,
    user: &Arc<dyn OperatorFactory>,
) -> Result<(Arc<Meter>, JobHandle), String> {
    let meter = Meter::new(world);
    let graph = relay::graph(relay, &meter, Arc::clone(user));
    let handle = tidemill_flow::engine::start(graph, world, &RunOptions::default());
    Ok((meter, handle.map_err(|error| error.to_string())?))
}
