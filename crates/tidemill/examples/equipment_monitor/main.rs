//! A monitor of manufacturing equipment (the Neptune paper, 4.4): how long after its sensor changes
//! does each valve act?
//!
//! ```bash
//! cargo run --release --example equipment_monitor -- --hours 25 --every 6h
//! ```
//!
//! ```text
//! readings ──▶ changes ──▶ delays ──▶ day
//! 66 fields,   of sensors  sensor to  delays of each pair
//! 100 a second and valves  valve      over 24 hours
//! ```
//!
//! The readings are made up, from a seed; their time is event time, so hours of them pass in
//! seconds. The second valve wears out as the day goes by, and the monitor shows it.
//!
//! Shows a source of the program, two operators of the program, and sliding windows in the event
//! time that they carry on.

pub(crate) mod readings;

use clap::Parser;
use readings::{PAIRS, Readings, START_US};
use std::{collections::BTreeMap, error::Error, sync::Arc};
use tidemill::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill::custom::{
    self, CycleInfo, Emit, Record,
    state::{Map, Value},
};
use tidemill::{Collected, Generated, Job, OperatorError, Span, collected, from};

/// Monitors the delays between sensors and valves of a machine.
#[derive(Parser)]
pub(crate) struct Options {
    /// Hours of readings, 360,000 each; parts of an hour may be given.
    #[arg(long, default_value_t = 25.0, value_parser = hours, allow_negative_numbers = true)]
    pub(crate) hours: f64,
    /// The time from one look at the last 24 hours to the next.
    #[arg(long, default_value = "6h")]
    pub(crate) every: Span,
    /// What makes the readings what they are.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=10_000.0).contains(&hours) {
        Ok(hours)
    } else {
        Err("0 to 10000 are possible".into())
    }
}

/// One slice sees all readings: what the sensors and valves said last, once there was a reading.
type Last = Value<Option<[bool; 2 * PAIRS.len()]>>;

/// Writes one record for each sensor or valve that changed.
fn changes(last: &mut Last, reading: &Record<'_>, emit: &mut Emit) -> Result<(), OperatorError> {
    let mut now = [false; 2 * PAIRS.len()];
    for (index, (sensor, valve)) in PAIRS.iter().enumerate() {
        now[2 * index] = reading.bool(sensor)?.unwrap_or_default();
        now[2 * index + 1] = reading.bool(valve)?.unwrap_or_default();
    }
    let before = last.set(Some(now)).unwrap_or(now);
    for place in (0..now.len()).filter(|place| now[*place] != before[*place]) {
        emit.row(|row| {
            row.put(PAIRS[place / 2].1).put(place % 2 == 1);
        })?;
    }
    Ok(())
}

/// By valve: when its sensor changed, if the valve has not acted since.
type Pending = Map<String, Option<i64>>;

/// Writes one record for each change of a valve that follows one of its sensor.
fn delays(
    pending: &mut Pending,
    change: &Record<'_>,
    emit: &mut Emit,
) -> Result<(), OperatorError> {
    let valve = change.str("valve")?.unwrap_or_default();
    let time_us = change.time().map_or(0, |time| time.0);
    let since = pending.get_or_default(valve.to_owned());
    if !change.bool("is_valve")?.unwrap_or_default() {
        *since = Some(time_us);
    } else if let Some(sensor_us) = since.take() {
        emit.row(|row| {
            row.put(valve).put((time_us - sensor_us) as f64 / 1_000.0);
        })?;
    }
    Ok(())
}

/// A schema of two columns, with the event time that windows need.
fn schema(first: (&str, DataType), second: (&str, DataType)) -> SchemaRef {
    let field = |(name, data_type)| Field::new(name, data_type, false);
    custom::with_time(&Schema::new(vec![field(first), field(second)]))
}

/// The job, and where its rows are found: `valve`, `until`, `changes`, `mean_ms`, `p99_ms`,
/// `longest_ms`.
pub(crate) fn job(options: &Options) -> (Job, Collected) {
    let (hours, seed) = (options.hours, options.seed);
    // When the readings end, every window closes: those that had just begun say nothing new.
    let end_us = START_US + (hours * 3.6e9) as i64 + options.every.0;
    let begun = format!("window_end < to_timestamp_micros({end_us})");
    let (sink, rows) = collected();
    let valve = ("valve", DataType::Utf8);
    let change = schema(valve.clone(), ("is_valve", DataType::Boolean));
    let delay = schema(valve, ("delay_ms", DataType::Float64));
    let job = Job::new("equipment_monitor")
        .operator("changes", move |_| {
            let run = |last: &mut Last, reading: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
                changes(last, reading, emit)
            };
            Ok(Arc::new(custom::keyed_record(Arc::clone(&change), Last::default, run)))
        })
        .operator("delays", move |_| {
            let run = |pending: &mut Pending,
                       change: &Record<'_>,
                       emit: &mut Emit,
                       _: &CycleInfo| { delays(pending, change, emit) };
            Ok(Arc::new(custom::keyed_record(Arc::clone(&delay), Pending::default, run)))
        })
        .source(
            "readings",
            Generated::new(readings::schema(), move || Readings::new(seed, hours))
                .event_time("ts", "0s"),
        )
        .stage("changes", from("readings").operator("changes").slices(1))
        .stage("delays", from("changes").key(["valve"]).operator("delays"))
        .stage(
            "day",
            from("delays").key(["valve"]).sliding("24h", &options.every.to_string()).aggregate([
                ("changes", "count(*)"),
                ("mean_ms", "avg(delay_ms)"),
                ("p99_ms", "quantile(delay_ms, 0.99)"),
                ("longest_ms", "max(delay_ms)"),
            ]),
        )
        .stage(
            "shown",
            from("day").filter(&begun).select([
                ("valve", "valve"),
                ("until", "to_char(window_end, '%Y-%m-%d %H:%M')"),
                ("changes", "changes"),
                ("mean_ms", "mean_ms"),
                ("p99_ms", "p99_ms"),
                ("longest_ms", "longest_ms"),
            ]),
        )
        .sink("out", from("shown").to(sink));
    (job, rows)
}

/// By the end of a window and the valve: how often it acted, and mean, 99th percentile and longest
/// of its delays in milliseconds.
pub(crate) type Looks = BTreeMap<(String, String), (i64, [f64; 3])>;

/// The rows of the job, in order.
pub(crate) fn looks(rows: &Collected) -> Result<Looks, OperatorError> {
    let look = |row: &Record<'_>| {
        let text = |name| Ok(row.str(name)?.unwrap_or_default().to_owned());
        let number = |name| Ok(row.f64(name)?.unwrap_or_default());
        let delays = [number("mean_ms")?, number("p99_ms")?, number("longest_ms")?];
        let changes = row.i64("changes")?.unwrap_or_default();
        Ok(((text("until")?, text("valve")?), (changes, delays)))
    };
    Ok(rows.read(look)?.into_iter().collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (job, rows) = job(&Options::parse());
    let progress = job.run()?;
    println!("24 hours until    valve    changes  mean ms   p99 ms  longest ms");
    for ((until, valve), (changes, [mean, p99, longest])) in looks(&rows)? {
        println!("{until}  {valve} {changes:8} {mean:8.1} {p99:8.1} {longest:11.1}");
    }
    println!("{} readings of 66 fields", progress.sources[0].records);
    Ok(())
}
