//! The source of `tidemill-bench relay`: messages of one size, at a rate or as fast as the relay takes them.

use super::measure::{Meter, SAMPLE};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_flow::{
    Block, DeadLetter, Payload, Position, Read, ReadRequest, RowsPool, Source, SourceError,
    SourceFactory, rows_schema,
};
use tidemill_types::{Micros, SliceId};

/// Messages, each freshly written: a copy of a template; every 64th begins with its send time.
pub(crate) struct Messages {
    meter: Arc<Meter>,
    bytes: usize,
    rate: Option<f64>,
}

struct MessagesSlice {
    meter: Arc<Meter>,
    template: Vec<u8>,
    rate: Option<f64>,
    sequence: u64,
    start_us: u64,
    pool: Arc<RowsPool>,
}

impl Messages {
    pub(crate) fn new(meter: Arc<Meter>, bytes: usize, rate: Option<f64>) -> Self {
        Self { meter, bytes: bytes.max(8), rate }
    }
}

/// The finaliser of SplitMix64: spreads a counter over all numbers.
pub(crate) fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl SourceFactory for Messages {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }

    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let mut template: Vec<u8> = (0..self.bytes as u64).map(|it| mix(it) as u8).collect();
        template[..8].fill(0);
        Ok(Box::new(MessagesSlice {
            meter: Arc::clone(&self.meter),
            template,
            rate: self.rate,
            sequence: 0,
            start_us: 0,
            pool: RowsPool::new(256),
        }))
    }

    fn live(&self) -> bool {
        true
    }
}

impl MessagesSlice {
    /// The send time of the next message: the scheduled one at a fixed rate, so that a source that
    /// falls behind does not hide it.
    fn stamp(&self) -> u64 {
        match self.rate {
            Some(rate) => self.start_us.saturating_add((self.sequence as f64 / rate * 1e6) as u64),
            None => self.meter.now_us(),
        }
    }

    /// Messages that may be sent now.
    fn due(&mut self, most: usize) -> usize {
        let Some(rate) = self.rate else { return most };
        let now_us = self.meter.now_us();
        if self.start_us == 0 {
            self.start_us = now_us;
        }
        let due = ((now_us - self.start_us) as f64 / 1e6 * rate) as u64;
        usize::try_from(due.saturating_sub(self.sequence)).unwrap_or(most).min(most)
    }
}

impl Source for MessagesSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let size = self.template.len();
        let most = (request.bytes / (size + 4)).clamp(1, request.records);
        let count = self.due(most);
        if count == 0 {
            let rate = self.rate.unwrap_or(1.0);
            let after_us = ((self.sequence + 1) as f64 / rate * 1e6) as u64;
            let next_us = self.start_us.saturating_add(after_us);
            return Ok(Read::Idle { until: Some(next_us.max(self.meter.now_us())) });
        }
        let mut rows = self.pool.take();
        rows.reserve(count, count * size);
        for _ in 0..count {
            if self.sequence.is_multiple_of(SAMPLE) {
                let stamp = self.stamp();
                rows.push_with(|bytes| {
                    bytes.extend_from_slice(&stamp.to_le_bytes());
                    bytes.extend_from_slice(&self.template[8..]);
                });
            } else {
                rows.push(&self.template);
            }
            self.sequence += 1;
        }
        Ok(Read::Rows { payload: Payload::Rows(rows), bytes: count * (size + 4) })
    }

    fn position(&self) -> Position {
        Position(self.sequence)
    }

    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

/// Looks at every message of a block: counts them and collects the send times they carry.
pub(crate) fn count_rows(block: &Block, stamps: &mut Vec<u64>) -> u64 {
    let Payload::Rows(rows) = &block.payload else { return block.len() as u64 };
    let mut count = 0;
    for message in rows.iter() {
        count += 1;
        let head = message.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
        if head != 0 {
            stamps.push(head);
        }
    }
    count
}
