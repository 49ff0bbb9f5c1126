//! Made-up readings of a machine: 66 fields, 100 readings a second.
//!
//! - The same seed gives the same readings.
//! - As in the paper's data, most fields keep their value for long: each of the 59 that nobody
//!   looks at here gets a new one every second.
//! - A valve acts before its sensor changes again.

use std::sync::Arc;
use tidemill::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, RecordBatch, TimestampMicrosecondArray,
};
use tidemill::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The sensors of three chemical additives, each with the valve that follows it.
pub(crate) const PAIRS: [(&str, &str); 3] =
    [("additive_1", "valve_1"), ("additive_2", "valve_2"), ("additive_3", "valve_3")];
/// From one reading to the next, in microseconds.
pub(crate) const STEP_US: i64 = 10_000;
/// The time of the first reading: 2012-02-22T00:00:00Z.
pub(crate) const START_US: i64 = 1_329_868_800_000_000;

const OTHERS: usize = 59;
/// Readings of one batch: a second.
const BATCH: u64 = 100;
const HOUR: u64 = 360_000;

/// The columns: `ts`, `additive_1`, `valve_1`, …, and 59 that are only carried along.
pub(crate) fn schema() -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![Field::new("ts", utc, false)];
    for (sensor, valve) in PAIRS {
        fields.push(Field::new(sensor, DataType::Boolean, false));
        fields.push(Field::new(valve, DataType::Boolean, false));
    }
    let other = |number| Field::new(format!("measure_{number:02}"), DataType::Int32, false);
    fields.extend((1..=OTHERS).map(other));
    Arc::new(Schema::new(fields))
}

/// A sensor and its valve.
#[derive(Clone, Copy, Default)]
struct Pair {
    sensor: bool,
    valve: bool,
    /// The readings at which each changes next.
    sensor_at: u64,
    valve_at: u64,
}

/// Batches of readings.
pub(crate) struct Readings {
    schema: SchemaRef,
    random: Random,
    next: u64,
    count: u64,
    pairs: [Pair; PAIRS.len()],
}

impl Readings {
    /// The readings of so many hours.
    pub(crate) fn new(seed: u64, hours: f64) -> Self {
        let mut random = Random(seed);
        let pair = |_| Pair { sensor_at: random.between(100, 1_000), ..Pair::default() };
        let pairs = std::array::from_fn(pair);
        Self { schema: schema(), random, next: 0, count: (hours * HOUR as f64) as u64, pairs }
    }

    /// What a sensor and its valve say at a reading.
    fn advance(&mut self, index: usize, reading: u64) -> (bool, bool) {
        let pair = &mut self.pairs[index];
        if reading == pair.sensor_at {
            pair.sensor = !pair.sensor;
            // Every valve takes 40 to 120 ms; the second takes 30 ms more with every hour.
            let worn = if index == 1 { 3 * (reading / HOUR) } else { 0 };
            pair.valve_at = reading + self.random.between(4, 12) + worn;
            pair.sensor_at = pair.valve_at + self.random.between(500, 2_000);
        } else if reading == pair.valve_at && reading > 0 {
            pair.valve = pair.sensor;
        }
        (pair.sensor, pair.valve)
    }
}

impl Iterator for Readings {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let readings = self.next..self.count.min(self.next + BATCH);
        if readings.is_empty() {
            return None;
        }
        self.next = readings.end;
        let count = (readings.end - readings.start) as usize;
        let times = readings.clone().map(|reading| START_US + reading as i64 * STEP_US);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![Arc::new(times)];
        for index in 0..PAIRS.len() {
            let states = readings.clone().map(|reading| self.advance(index, reading));
            let (sensors, valves): (Vec<bool>, Vec<bool>) = states.unzip();
            columns.push(Arc::new(BooleanArray::from(sensors)));
            columns.push(Arc::new(BooleanArray::from(valves)));
        }
        for _ in 0..OTHERS {
            let value = self.random.between(0, 16_384) as i32;
            columns.push(Arc::new(Int32Array::from(vec![value; count])));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        Some(batch.expect("columns of the schema, of one length"))
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// A number from `low` up to and without `high`.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (z ^ (z >> 31)) % (high - low)
    }
}
