//! Sources of a simulated job: records that follow from their number alone.
//!
//! A live source has a record when its moment has come; a bounded one has all of them at once.

use crate::{
    fault::{FaultySource, SourceCall},
    journal_sink,
};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};
use tidemill_env::{Clock, Random, sync::Mutex};
use tidemill_flow::{
    CommitFollower, DeadLetter, GrowingSource, Payload, Position, Read, ReadRequest, Rows,
    RowsPool, Source, SourceError, SourceFactory, TIME_COLUMN, partition::hash_number, rows_schema,
};
use tidemill_types::{Cycle, Micros, SliceId};

/// Event time from one record to the next, in microseconds.
const STEP_US: i64 = 1_000;
/// One record in this many is refused.
const REFUSED_ONE_IN: u64 = 37;
/// Input bytes of a record.
const RECORD_BYTES: usize = 16;

/// The description of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceFeed {
    seed: u64,
    pub(crate) slices: u32,
    /// Records of each slice.
    pub(crate) count: u64,
    keys: u64,
    /// The lateness of records: how far they may trail in event time, in microseconds.
    lateness_us: i64,
    /// A live source: the time from one record to the next, in microseconds.
    pub(crate) every_us: Option<u64>,
    /// Its records are bytes, without columns.
    pub(crate) is_bytes: bool,
    /// After this record a live source is silent for two seconds.
    silent_after: u64,
}

impl SourceFeed {
    pub(crate) fn of(random: &mut Random, live: bool) -> Self {
        let count = 20 + random.below(150);
        Self {
            seed: random.next(),
            slices: 1 + random.below(3) as u32,
            count,
            keys: 1 + random.next() % (2 << random.below(8)),
            lateness_us: 2_000 << random.below(5),
            every_us: live.then(|| 1 << random.below(12)),
            is_bytes: false,
            silent_after: random.below(2 * count),
        }
    }

    fn random(&self, slice: SliceId, number: u64) -> u64 {
        hash_number(self.seed ^ hash_number(number ^ (u64::from(slice.0) << 40)))
    }

    fn time(&self, slice: SliceId, number: u64) -> i64 {
        // Some are later than that: they are late.
        let behind =
            (self.random(slice, number) >> 32) as i64 % (self.lateness_us + self.lateness_us / 4);
        number as i64 * STEP_US - behind
    }

    fn key_and_value(&self, slice: SliceId, number: u64) -> (i64, i64) {
        let random = self.random(slice, number);
        (((random >> 8) % self.keys) as i64, ((random >> 16) % 100) as i64)
    }

    fn is_refused(&self, slice: SliceId, number: u64) -> bool {
        self.random(slice, number).is_multiple_of(REFUSED_ONE_IN)
    }

    /// Slice and number of the records that are refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (SliceId, u64)> + '_ {
        let numbers =
            (0..self.slices).map(SliceId).flat_map(|it| (0..self.count).map(move |nth| (it, nth)));
        numbers.filter(|(slice, number)| self.is_refused(*slice, *number))
    }

    /// Key, value and time of all records that are not refused.
    pub(crate) fn records(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        let numbers =
            (0..self.slices).map(SliceId).flat_map(|it| (0..self.count).map(move |nth| (it, nth)));
        numbers.filter(|(slice, number)| !self.is_refused(*slice, *number)).map(
            |(slice, number)| {
                let (key, value) = self.key_and_value(slice, number);
                (key, value, self.time(slice, number))
            },
        )
    }

    /// The same as a sink writes them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let records: Vec<_> = self.records().collect();
        let text = match self.is_bytes {
            true => journal_sink::text(&rows(&records, &RowsPool::new(1)).to_batch()),
            false => journal_sink::text(&batch(&records)),
        };
        text.expect("of columns that can be shown").lines().map(str::to_owned).collect()
    }

    /// The number of slices at first: some live sources get more.
    fn first(&self) -> u32 {
        let grows = self.every_us.is_some() && self.seed.is_multiple_of(2);
        if grows { self.slices.div_ceil(2) } else { self.slices }
    }

    /// When they are added, in microseconds of the monotonic clock.
    fn added_us(&self) -> u64 {
        self.every_us.map_or(0, |every_us| (self.seed >> 8) % (every_us * self.count))
    }

    /// When a record of a live source is there, in microseconds of the monotonic clock.
    fn there_us(&self, number: u64) -> u64 {
        let silence = if number > self.silent_after { 2_000_000 } else { 0 };
        self.every_us.map_or(0, |every_us| every_us * number + silence)
    }
}

pub(crate) fn schema() -> SchemaRef {
    let number = |name| Field::new(name, DataType::Int64, true);
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![number("key"), number("value"), Field::new(TIME_COLUMN, utc, false)]))
}

/// Rows of these keys, values and times.
fn batch(records: &[(i64, i64, i64)]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(records.iter().map(|it| it.2));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(records.iter().map(|it| Some(it.0)).collect::<Int64Array>()),
        Arc::new(records.iter().map(|it| Some(it.1)).collect::<Int64Array>()),
        Arc::new(times.with_timezone("UTC")),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

/// The same as bytes, some of them none and some of them many.
fn rows(records: &[(i64, i64, i64)], pool: &Arc<RowsPool>) -> Rows {
    let mut rows = pool.take();
    for (key, value, time) in records {
        match value % 16 {
            0 => rows.push(b""),
            1 => rows.push(format!("{key} {value:0>90} {time}").as_bytes()),
            _ => rows.push(format!("{key} {value} {time}").as_bytes()),
        }
    }
    rows
}

/// The committed positions of a source by slice, as a broker keeps the offsets of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommittedOffsets(Arc<Mutex<BTreeMap<SliceId, u64>>>);

impl CommittedOffsets {
    fn of(&self, slice: SliceId) -> u64 {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(&slice).copied().unwrap_or_default()
    }
}

/// Which slices of a source are read, as a job notes them for its next life.
#[derive(Clone, Debug)]
pub(crate) struct ReadSlices {
    known: Arc<AtomicU32>,
    /// The first cycle in which all are read. A real source that gets slices has no end; this one has,
    /// and none of its slices ends before there.
    whole_from: Arc<AtomicU64>,
    came: Arc<AtomicBool>,
}

impl ReadSlices {
    pub(crate) fn of(feed: &SourceFeed) -> Self {
        let known = Arc::new(AtomicU32::new(feed.first()));
        Self { known, whole_from: Arc::new(AtomicU64::new(u64::MAX)), came: Arc::default() }
    }

    fn count(&self) -> u32 {
        self.known.load(Ordering::SeqCst)
    }

    /// For one life, which reads all that are known from its first cycle on. One that is dead may still
    /// read, and says nothing by that.
    pub(crate) fn of_life(&self, feed: &SourceFeed) -> Self {
        let from = if self.count() == feed.slices { 0 } else { u64::MAX };
        Self { whole_from: Arc::new(AtomicU64::new(from)), ..self.clone() }
    }

    /// One is read for this cycle.
    fn read(&self, feed: &SourceFeed, slice: SliceId, cycle: Cycle) {
        if slice.0 >= feed.first() {
            let before = self.whole_from.fetch_min(cycle.0, Ordering::SeqCst);
            self.came.fetch_or(before == u64::MAX, Ordering::SeqCst);
        }
    }

    /// Returns true if slices were added while a life ran.
    pub(crate) fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    /// Returns true if a slice was not there when this life began.
    fn comes_late(&self, feed: &SourceFeed, slice: SliceId) -> bool {
        slice.0 >= feed.first() && self.whole_from.load(Ordering::SeqCst) != 0
    }

    fn are_whole_in(&self, cycle: Cycle) -> bool {
        self.whole_from.load(Ordering::SeqCst) <= cycle.0
    }
}

/// A source and its clock.
pub(crate) struct SimSource {
    pub(crate) feed: SourceFeed,
    pub(crate) slices: ReadSlices,
    pub(crate) clock: Arc<dyn Clock>,
    /// It follows, and a life begins where the ones before were told.
    pub(crate) told: Option<CommittedOffsets>,
    /// Its planted fault, if there is one.
    pub(crate) fault: Option<FaultySource>,
}

impl SimSource {
    /// Fails if this call is to fail.
    fn refuse(&self, asked: SourceCall) -> Result<(), SourceError> {
        let refusal = self.fault.as_ref().and_then(|it| it.fails(asked, None));
        refusal.map_or(Ok(()), |it| Err(it.error))
    }
}

impl SourceFactory for SimSource {
    fn schema(&self) -> SchemaRef {
        if self.feed.is_bytes { rows_schema() } else { schema() }
    }
    fn slices(&self) -> u32 {
        self.slices.count()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        match &self.fault {
            Some(fault) if self.slices.comes_late(&self.feed, slice) => {
                fault.fails_for_now(SourceCall::Open).map_or(Ok(()), |it| Err(it.error))?;
            }
            _ => self.refuse(SourceCall::Open)?,
        }
        let clock = Arc::clone(&self.clock);
        let next = self.told.as_ref().map_or(0, |told| told.of(slice));
        let pool = RowsPool::new(8);
        Ok(Box::new(SimSlice {
            feed: self.feed,
            slices: self.slices.clone(),
            clock,
            pool,
            slice,
            next,
            seen: Micros::MIN,
            fault: self.fault.clone(),
            has_failed: false,
        }))
    }
    fn begin(&self) -> Result<(), SourceError> {
        self.refuse(SourceCall::Begin)
    }
    fn live(&self) -> bool {
        self.feed.every_us.is_some()
    }
    fn growth(&self) -> Option<&dyn GrowingSource> {
        (self.feed.first() < self.feed.slices).then_some(self)
    }
    fn follower(&self) -> Option<&dyn CommitFollower> {
        self.told.is_some().then_some(self)
    }
}

impl GrowingSource for SimSource {
    fn began_with(&self) -> u32 {
        self.feed.first()
    }
    fn grow(&self) -> Result<u32, SourceError> {
        if self.clock.monotonic_micros() >= self.feed.added_us() {
            self.slices.known.store(self.feed.slices, Ordering::SeqCst);
        }
        Ok(self.slices())
    }
}

impl CommitFollower for SimSource {
    fn committed(&self, slice: SliceId, Position(position): Position) {
        if let Some(CommittedOffsets(told)) = &self.told {
            // A process that is dead may say last what it knew before.
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            let told = told.entry(slice).or_default();
            *told = position.max(*told);
        }
    }
}

struct SimSlice {
    feed: SourceFeed,
    slices: ReadSlices,
    clock: Arc<dyn Clock>,
    pool: Arc<RowsPool>,
    slice: SliceId,
    next: u64,
    seen: Micros,
    fault: Option<FaultySource>,
    has_failed: bool,
}

impl SimSlice {
    fn read_some(&mut self, request: &ReadRequest, letters: &mut Vec<DeadLetter>) -> Read {
        let feed = self.feed;
        self.slices.read(&feed, self.slice, request.cycle);
        if self.next == feed.count {
            return match self.slices.are_whole_in(request.cycle) {
                true => Read::End,
                false => Read::Idle { until: None },
            };
        }
        let now_us = self.clock.monotonic_micros();
        let most = request.records.min(request.bytes / RECORD_BYTES).clamp(1, 40) as u64;
        let until = request.until.map_or(feed.count, |until| until.0.min(feed.count));
        let from = self.next;
        let mut records = Vec::new();
        while self.next < until && self.next - from < most && feed.there_us(self.next) <= now_us {
            let number = self.next;
            self.next += 1;
            let time = feed.time(self.slice, number);
            self.seen = self.seen.max(Micros(time));
            if feed.is_refused(self.slice, number) {
                letters.push(DeadLetter {
                    stage: String::new(),
                    cycle: request.cycle,
                    slice: self.slice,
                    position: format!("{}:{number}", self.slice),
                    reason: "it is refused".to_owned(),
                    record: Vec::new(),
                });
            } else {
                let (key, value) = feed.key_and_value(self.slice, number);
                records.push((key, value, time));
            }
        }
        if self.next == from {
            return Read::Idle { until: Some(feed.there_us(self.next)) };
        }
        let payload = match feed.is_bytes {
            true => Payload::Rows(rows(&records, &self.pool)),
            false => Payload::Arrow(batch(&records)),
        };
        let bytes = (self.next - from) as usize * RECORD_BYTES;
        Read::Rows { payload, bytes }
    }
}

impl Source for SimSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let Some(fault) = &self.fault else { return Ok(self.read_some(request, letters)) };
        if self.has_failed {
            fault.must_not_be_read();
        }
        let Some(refusal) = fault.fails(SourceCall::Read, Some(request.cycle)) else {
            return Ok(self.read_some(request, letters));
        };
        self.has_failed = true;
        if refusal.was_read {
            let _lost = self.read_some(request, letters);
        }
        Err(refusal.error)
    }

    fn position(&self) -> Position {
        Position(self.next)
    }

    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        if let Some(refusal) = self.fault.as_ref().and_then(|it| it.fails(SourceCall::Seek, None)) {
            return Err(refusal.error);
        }
        // What it is told is all that it knows of what it read before, as it is of a file.
        self.next = to.0;
        self.seen = match watermark {
            Micros::MIN => Micros::MIN,
            Micros(watermark) => Micros(watermark + self.feed.lateness_us),
        };
        Ok(())
    }

    fn watermark(&self) -> Micros {
        match self.seen {
            Micros::MIN => Micros::MIN,
            Micros(seen) => Micros(seen - self.feed.lateness_us),
        }
    }
}
