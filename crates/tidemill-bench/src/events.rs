//! The source of `tidemill-bench window` and `tidemill-bench windows`: events of 100 bytes, uniform over the keys.

use super::messages::mix;
use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::{collections::VecDeque, sync::Arc};
use tidemill_flow::{
    DeadLetter, Payload, Position, Read, ReadRequest, Source, SourceError, SourceFactory,
    TIME_COLUMN,
};
use tidemill_types::{Micros, SliceId};

/// Keys of the events, if nothing else is said.
pub(crate) const KEYS: u64 = 1_000_000;
/// Events in a second of event time.
pub(crate) const PER_SECOND: u64 = 2_000_000;
/// Bytes of an event: key, time, value and 76 bytes of payload.
pub(crate) const EVENT_BYTES: usize = 100;
const PAYLOAD_BYTES: usize = 76;

/// Events for ever; slice `s` of `n` makes every n-th.
pub(crate) struct Events {
    pub(crate) slices: u32,
    keys: u64,
    key_bytes: usize,
    per_second: u64,
    schema: SchemaRef,
}

struct EventsSlice {
    step: u64,
    keys: u64,
    key_bytes: usize,
    per_second: u64,
    next: u64,
    last_us: i64,
    schema: SchemaRef,
    payload: Vec<u8>,
    /// Payloads of earlier batches, the oldest first: their memory is used again once they are
    /// let go.
    earlier: VecDeque<Buffer>,
    zone: Arc<str>,
}

/// Payloads that are kept, at most.
const EARLIER_MAX: usize = 64;

impl Events {
    pub(crate) fn new(slices: u32, keys: u64) -> Self {
        Self { slices, keys, key_bytes: 0, per_second: PER_SECOND, schema: schema(DataType::Int64) }
    }

    /// Keys are text of so many bytes, digits with zeros before them; numbers if it is 0.
    pub(crate) fn key_bytes(self, key_bytes: usize) -> Self {
        let schema = if key_bytes == 0 { self.schema } else { schema(DataType::Utf8) };
        Self { key_bytes, schema, ..self }
    }

    /// So many events in a second of event time, at least one.
    pub(crate) fn per_second(self, per_second: u64) -> Self {
        Self { per_second: per_second.max(1), ..self }
    }
}

fn schema(key: DataType) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("key", key, false),
        Field::new("value", DataType::Float64, false),
        Field::new("payload", DataType::FixedSizeBinary(PAYLOAD_BYTES as i32), false),
        Field::new(TIME_COLUMN, time, false),
    ]))
}

/// Keys as text of so many bytes.
fn text(keys: &[i64], bytes: usize) -> StringArray {
    let mut text = vec![b'0'; keys.len() * bytes];
    for (key, place) in keys.iter().zip(text.chunks_exact_mut(bytes)) {
        let mut rest = *key;
        for digit in place.iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }
    let offsets = OffsetBuffer::from_repeated_length(bytes, keys.len());
    StringArray::new(offsets, Buffer::from_vec(text), None)
}

impl SourceFactory for Events {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn slices(&self) -> u32 {
        self.slices
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(EventsSlice {
            step: u64::from(self.slices),
            keys: self.keys,
            key_bytes: self.key_bytes,
            per_second: self.per_second,
            next: u64::from(slice.0),
            last_us: i64::MIN,
            schema: Arc::clone(&self.schema),
            payload: vec![1_u8; PAYLOAD_BYTES],
            earlier: VecDeque::new(),
            zone: "UTC".into(),
        }))
    }
}

impl EventsSlice {
    /// Memory for a payload: that of the oldest one if nobody reads it any more.
    fn memory(&mut self, bytes: usize) -> Vec<u8> {
        let oldest = self.earlier.pop_front_if(|oldest| oldest.strong_count() == 1);
        match oldest.map(Buffer::into_vec::<u8>) {
            Some(Ok(mut memory)) => {
                memory.clear();
                memory
            }
            Some(Err(_)) | None => Vec::with_capacity(bytes),
        }
    }

    fn batch(&mut self, count: usize) -> RecordBatch {
        let (mut keys, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut times = Vec::with_capacity(count);
        let mut payload = self.memory(count * PAYLOAD_BYTES);
        for _ in 0..count {
            let random = mix(self.next);
            keys.push(((random >> 1) % self.keys) as i64);
            values.push((mix(random) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64) * 1_000.0);
            times.push((self.next * 1_000 / self.per_second) as i64 * 1_000);
            payload.extend_from_slice(&self.payload);
            self.next += self.step;
        }
        self.last_us = times.last().copied().unwrap_or(self.last_us);
        let payload = Buffer::from_vec(payload);
        if self.earlier.len() < EARLIER_MAX {
            self.earlier.push_back(payload.clone());
        }
        let payload = FixedSizeBinaryArray::new(PAYLOAD_BYTES as i32, payload, None);
        let times = TimestampMicrosecondArray::from(times).with_timezone(Arc::clone(&self.zone));
        let keys: ArrayRef = match self.key_bytes {
            0 => Arc::new(Int64Array::from(keys)),
            bytes => Arc::new(text(&keys, bytes)),
        };
        let columns: Vec<ArrayRef> =
            vec![keys, Arc::new(Float64Array::from(values)), Arc::new(payload), Arc::new(times)];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns of the schema, of one length")
    }
}

impl Source for EventsSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let count = (request.bytes / EVENT_BYTES).clamp(1, request.records);
        let payload = Payload::Arrow(self.batch(count));
        Ok(Read::Rows { payload, bytes: count * EVENT_BYTES })
    }

    fn position(&self) -> Position {
        Position(self.next)
    }

    fn watermark(&self) -> Micros {
        Micros(self.last_us)
    }
}
