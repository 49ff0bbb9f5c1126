//! Records of one request on their way to streamlets: put into chunks, appended, waited for.
//!
//! ```text
//! add ─▶ streamlet of the key ─▶ its chunk, until that is full ─▶ append all ─▶ wait for all
//! ```
//!
//! Invariant: nothing is appended before every record of the request was taken; so a request that
//! is refused has written nothing. The error of a disk that fails in the middle says how much was written.

use super::problem::Problem;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use tidemill_log::{Append, AppendError, AppendOptions, Stream};
use tidemill_wire::{
    partitioner::streamlet_of,
    records::{ChunkBuilder, Compression, Headers, RecordRefused},
};
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// Records that are not appended yet.
pub(super) struct AppendBatch {
    stream: Arc<Stream>,
    streamlets: u32,
    /// Where all records go, if the request says so.
    only: Option<u32>,
    /// Where records without a key go.
    keyless: u32,
    chunk_bytes_max: usize,
    open: BTreeMap<u32, ChunkBuilder>,
    full: Vec<(u32, Vec<u8>)>,
    pub(super) record_count: usize,
    /// Those of them that have no key.
    pub(super) keyless_count: usize,
}

/// A record is longer than the stream takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong {
    pub(super) bytes: usize,
    pub(super) max: usize,
}

impl From<TooLong> for Problem {
    fn from(error: TooLong) -> Self {
        let TooLong { bytes, max } = error;
        let why = format!("a record of {bytes} bytes: this stream takes chunks of at most {max}");
        Self::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, why)
    }
}

/// Offsets that records of a request got.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) streamlet: u32,
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
}

/// Chunks that were appended, and why not all were.
#[must_use]
pub(super) struct Appending {
    ranges: Vec<Range>,
    outcomes: Vec<oneshot::Receiver<Result<(), AppendError>>>,
    error: Option<AppendError>,
}

impl AppendBatch {
    /// Records for a stream: for one streamlet of it, or by their keys, and without keys for the
    /// streamlet whose turn it is by `number`.
    pub(super) fn new(
        stream: Arc<Stream>,
        only: Option<u32>,
        number: u64,
    ) -> Result<Self, Problem> {
        let spec = stream.spec();
        let streamlets = spec.streamlets;
        if let Some(only) = only.filter(|it| *it >= streamlets) {
            let why = format!("there is no streamlet {only}: `{}` has {streamlets}", stream.name());
            return Err(Problem::new(axum::http::StatusCode::NOT_FOUND, why));
        }
        Ok(Self {
            stream,
            streamlets,
            only,
            keyless: u32::try_from(number % u64::from(streamlets.max(1))).unwrap_or(0),
            chunk_bytes_max: usize::try_from(spec.max_chunk_bytes.0).unwrap_or(usize::MAX),
            open: BTreeMap::new(),
            full: Vec::new(),
            record_count: 0,
            keyless_count: 0,
        })
    }

    /// Takes a record; one that is too long is left out, and the others stay as they are.
    pub(super) fn add(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(), TooLong> {
        let keyed = key.map(|key| streamlet_of(key, self.streamlets));
        let streamlet = self.only.or(keyed).unwrap_or(self.keyless);
        let builder =
            self.open.entry(streamlet).or_insert_with(|| ChunkBuilder::new(Compression::NONE));
        let most = ChunkBuilder::record_bytes_most(key, Some(value), Headers::NONE);
        let max = self.chunk_bytes_max;
        if builder.len_bytes() + most > max {
            self.full.extend(builder.finish().map(|chunk| (streamlet, chunk)));
        }
        let mut appended = builder.append(timestamp_ms, key, Some(value), Headers::NONE);
        if matches!(appended, Err(RecordRefused::Timestamp(_))) {
            self.full.extend(builder.finish().map(|chunk| (streamlet, chunk)));
            appended = builder.append(timestamp_ms, key, Some(value), Headers::NONE);
        }
        match appended {
            Err(RecordRefused::TooLarge { bytes }) => return Err(TooLong { bytes, max }),
            Err(RecordRefused::Timestamp(_)) => unreachable!("the chunk is empty"),
            Ok(_) => {}
        }
        let bytes = builder.len_bytes();
        if bytes > max {
            // It did not fit behind others, so it is alone in its chunk.
            *builder = ChunkBuilder::new(Compression::NONE);
            return Err(TooLong { bytes, max });
        }
        self.record_count += 1;
        self.keyless_count += usize::from(key.is_none());
        Ok(())
    }

    /// Appends all records; `lane` keeps those of a streamlet in their order. May block.
    pub(super) fn append(mut self, lane: u64) -> Appending {
        for (streamlet, builder) in &mut self.open {
            self.full.extend(builder.finish().map(|chunk| (*streamlet, chunk)));
        }
        let mut appending = Appending { ranges: Vec::new(), outcomes: Vec::new(), error: None };
        let how = AppendOptions { order_key: lane };
        for (index, chunk) in self.full {
            let streamlet = self.stream.streamlet(index).ok_or(AppendError::Closed);
            match streamlet.and_then(|it| it.append(&chunk, how)) {
                Ok(append) => appending.add(index, append),
                Err(error) => {
                    appending.error = Some(error);
                    break;
                }
            }
        }
        appending
    }
}

impl Appending {
    fn add(&mut self, streamlet: u32, append: Append) {
        let (first_offset, last_offset) = (append.base_offset, append.last_offset);
        self.ranges.push(Range { streamlet, first_offset, last_offset });
        let (tell, told) = oneshot::channel();
        self.outcomes.push(told);
        append.on_durable(Box::new(move |outcome| {
            // Whoever asked may be gone.
            let _gone = tell.send(outcome);
        }));
    }

    /// Waits until all appended records are durable. Records that are not after all are reported as a
    /// problem, with the ranges that do.
    pub(super) async fn durable(self) -> Result<Vec<Range>, Problem> {
        let Self { ranges, outcomes, mut error } = self;
        let mut counting: Vec<Range> = Vec::new();
        for (range, outcome) in ranges.into_iter().zip(outcomes) {
            match outcome.await.unwrap_or(Err(AppendError::Closed)) {
                Ok(()) => match counting.last_mut() {
                    Some(last) if last.goes_on(&range) => last.last_offset = range.last_offset,
                    _ => counting.push(range),
                },
                Err(why) => error = error.or(Some(why)),
            }
        }
        match error {
            None => Ok(counting),
            Some(error) => Err(Problem::from(error).with("appended", json_of(&counting))),
        }
    }
}

impl Range {
    fn goes_on(&self, next: &Self) -> bool {
        self.streamlet == next.streamlet && self.last_offset + 1 == next.first_offset
    }
}

/// Ranges as they are answered.
pub(super) fn json_of(ranges: &[Range]) -> Value {
    let one = |it: &Range| {
        json!({
            "streamlet": it.streamlet,
            "first_offset": it.first_offset,
            "last_offset": it.last_offset,
        })
    };
    ranges.iter().map(one).collect()
}
