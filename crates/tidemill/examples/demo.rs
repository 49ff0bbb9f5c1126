//! The demo job, `examples/demo.yaml`, in code: three million flights within the United States.
//!
//! ```bash
//! examples/fetch-data.sh flights                        # once
//! cargo run --release --example demo                    # or: … -- FOLDER, which has the data
//! ```
//!
//! Shows a whole job in about as many lines as its file has: a filter, event-time windows with
//! late rows, statistics, top-k per window, a join with a table, two results.

use clap::Parser;
use std::{error::Error, fs, path::PathBuf};
use tidemill::{File, Format, Job, JoinKind, from, join_table};

/// Finds the airports where people waited longest, day by day, and the busiest routes.
#[derive(Parser)]
pub(crate) struct Options {
    /// The folder of flights.csv and airports.csv (`examples/fetch-data.sh flights`); results go
    /// to `out` in it.
    #[arg(default_value = "data")]
    pub(crate) data: PathBuf,
}

/// The job. Its paths begin in the folder of the data.
pub(crate) fn job(options: &Options) -> Job {
    Job::new("demo")
        .base_dir(&options.data)
        .source("flights", File::csv("flights.csv").event_time("ts", "1h"))
        .source("airports", File::csv("airports.csv"))
        .stage(
            "delayed",
            from("flights").filter("delay > 15").select([
                ("origin", "origin"),
                ("delay", "delay"),
                ("distance", "distance"),
            ]),
        )
        .stage(
            "by_airport",
            from("delayed")
                .key(["origin"])
                .tumbling("1d")
                .aggregate([
                    ("flights", "count(*)"),
                    ("mean_delay", "avg(delay)"),
                    ("deviation", "stddev_samp(delay)"),
                    ("worst_delay", "max(delay)"),
                ])
                .late("too_late"),
        )
        .stage(
            "worst",
            from("by_airport").filter("flights >= 20").top(3, "mean_delay").per(["window_start"]),
        )
        .stage(
            "placed",
            join_table("worst", "airports").on(["origin = iata"]).kind(JoinKind::Left).select([
                ("day", "window_start"),
                ("airport", "name"),
                ("city", "city"),
                ("flights", "flights"),
                ("mean_delay", "mean_delay"),
                ("deviation", "deviation"),
                ("worst_delay", "worst_delay"),
            ]),
        )
        .stage(
            "by_route",
            from("flights").key(["origin", "destination"]).global().aggregate([
                ("flights", "count(*)"),
                ("mean_delay", "avg(delay)"),
                ("miles", "max(distance)"),
            ]),
        )
        .stage("busiest", from("by_route").top(10, "flights"))
        .sink("worst_airports", from("placed").to_file("out/worst-airports.ndjson", Format::Json))
        .sink("busiest_routes", from("busiest").to_file("out/busiest-routes.csv", Format::Csv))
        .sink("late_rows", from("too_late").to_blackhole())
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let progress = job(&options).run()?;
    for result in ["out/worst-airports.ndjson", "out/busiest-routes.csv"] {
        let path = options.data.join(result);
        println!("{}:", path.display());
        fs::read_to_string(&path)?.lines().take(11).for_each(|line| println!("  {line}"));
    }
    println!("{} flights; the whole results are in these files", progress.sources[0].records);
    Ok(())
}
