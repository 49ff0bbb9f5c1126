//! `GET /streams/NAME/records`: records as lines, from a place on, waiting for the first if need be.
//!
//! A reader sees the same as a Kafka consumer of committed records: nothing of transactions that are
//! open or were aborted. It holds nothing on the node: where to go on is said in the header
//! `Tidemill-Next`.

use super::{
    append::{blocking, unknown},
    metrics::Lasting,
    parameters::Parameters,
    path::PathNames,
    position::{self, From, ReadPosition},
    problem::Problem,
    render::{self, ValueForm},
    state::{Charge, HttpState},
};
use crate::serve::settings::value;
use axum::{
    body::{Body, Bytes},
    extract::State as Shared,
    http::{HeaderName, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
};
use tidemill_broker::Committed;
use tidemill_log::{
    AppendError, CHUNK_HEAD_BYTES, OutgoingChunk, ReadCursor, ReadError, ReadLimit,
};
use tidemill_types::{ByteSize, Offset, Span, StreamletIx};
use tidemill_wire::{
    chunk::{ChunkHead, Codec},
    records::{Records, RecordsError, inflate, read_control},
};
use tokio::{sync::Notify, time::sleep};

#[cfg(test)]
mod tests;

pub(super) const PARAMETERS: &[&str] = &["from", "streamlet", "max_bytes", "wait", "values"];

/// Where to go on.
const NEXT: HeaderName = HeaderName::from_static("tidemill-next");
/// Longest time that a reader waits for records, in milliseconds.
const WAIT_MS_MAX: i64 = 60_000;
/// Streamlets that one request reads.
const STREAMLETS_MAX: u32 = 1_000;
/// Bytes of an answer, if the request does not say.
const BYTES: ByteSize = ByteSize(1 << 20);
/// The least that a compressed chunk is given to inflate to.
const INFLATED_BYTES_MIN: usize = 64 << 10;

/// The parameters of a request.
struct ReadQuery {
    from: From,
    only: Option<u32>,
    bytes_max: usize,
    wait: Span,
    values: ValueForm,
}

impl ReadQuery {
    fn of(uri: &Uri, state: &HttpState) -> Result<Self, Problem> {
        let parameters = Parameters::of(uri, PARAMETERS)?;
        let most = state.settings.body_bytes.0;
        let bytes = parameters.read("max_bytes", |text| value::size(text, 1, most))?;
        let wait = parameters.read("wait", |text| value::span(text, 0, WAIT_MS_MAX))?;
        Ok(Self {
            from: parameters.read("from", From::parse)?.unwrap_or(From::Earliest),
            only: parameters.value("streamlet", "the number of a streamlet")?,
            bytes_max: usize::try_from(bytes.unwrap_or(BYTES).0.min(most)).unwrap_or(usize::MAX),
            wait: wait.unwrap_or_default(),
            values: parameters
                .choice("values", ValueForm::NAMES)?
                .map(ValueForm::of_name)
                .unwrap_or_default(),
        })
    }
}

pub(super) async fn read(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked = ReadQuery::of(&uri, &state)?;
    let stream = state.log.get(&name).ok_or_else(|| unknown(&name))?;
    let streamlets = match (asked.only, stream.spec().streamlets) {
        (Some(only), _) => vec![StreamletIx(only)],
        (None, all) if all <= STREAMLETS_MAX => (0..all).map(StreamletIx).collect(),
        (None, all) => {
            let why = format!("the stream has {all} streamlets: say which one with `streamlet`");
            return Err(Problem::bad(why));
        }
    };
    let views: Arc<[Committed]> = {
        let view = |it: &StreamletIx| state.broker.committed(&name, *it).ok_or(*it);
        let views: Result<_, StreamletIx> = streamlets.iter().map(view).collect();
        views.map_err(|missing| {
            let why = format!("`{name}` has no streamlet {missing}");
            Problem::new(StatusCode::NOT_FOUND, why)
        })?
    };
    let ends = |index: StreamletIx| {
        let view = streamlets.binary_search(&index).ok().map(|at| &views[at]);
        let ends = view.map(|it| (it.streamlet().start_offset(), it.end_offset()));
        ends.and_then(|(start, end)| Some((Offset(start), Offset(end?)))).ok_or_else(unknown_end)
    };
    let mut positions = asked.from.positions(&streamlets, ends)?;
    let mut late = pin!(sleep(asked.wait.duration()));
    let mut stopped = state.stopped.clone();
    let mut waited = asked.wait == Span(0);
    loop {
        let charge = state.charge(2 * asked.bytes_max).await?;
        let before = positions.clone();
        let found = {
            let (state, views, streamlets) =
                (Arc::clone(&state), Arc::clone(&views), streamlets.clone());
            let (bytes_max, values) = (asked.bytes_max, asked.values);
            let text = String::new();
            let reader = PageReader {
                state,
                charge,
                bytes_max,
                values,
                text,
                records: 0,
                inflated_bytes: 0,
            };
            blocking(move || reader.read(&views, &streamlets, positions)).await??
        };
        // What a round came past may all be of aborted transactions, and records lie behind it: an
        // answer without any says that there are none.
        let goes_on = found.positions != before && !*stopped.borrow();
        if !found.text.is_empty() || (waited && !goes_on) {
            return Ok(answer(&state, found));
        }
        positions = found.positions;
        drop(found.charge);
        if goes_on {
            continue;
        }
        let news = Arc::new(Notify::new());
        let listen = |at: &ReadPosition| {
            let view = streamlets.binary_search(&at.streamlet).ok().map(|it| &views[it])?;
            let news = Arc::clone(&news);
            Some(view.on_readable(at.offset.0, Box::new(move || news.notify_one())))
        };
        let _waiting = Lasting::new(&state.counts, |it| &it.waiting);
        let _listening: Vec<_> = positions.iter().filter_map(listen).collect();
        tokio::select! {
            () = news.notified() => {}
            () = late.as_mut() => waited = true,
            _said_or_gone = stopped.wait_for(|it| *it) => waited = true,
        }
        // Who waits for a stream that is deleted must not wait on.
        if state.log.get(&name).is_none_or(|it| it.id() != stream.id()) {
            return Err(unknown(&name));
        }
    }
}

fn unknown_end() -> Problem {
    let why = "what is known of the streamlet's transactions cannot be read; see the node's log";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// Lines, the next position, and their charge of memory.
struct RecordPage {
    text: String,
    positions: Vec<ReadPosition>,
    charge: Charge,
}

/// An answer that gives its charge back when it was sent.
struct Charged {
    text: String,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn answer(state: &HttpState, found: RecordPage) -> Response {
    let next = position::text(&found.positions);
    state.counts.answer_bytes.fetch_add(found.text.len() as u64, Ordering::Relaxed);
    let body = Bytes::from_owner(Charged { text: found.text, _charge: found.charge });
    let head = [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (NEXT, next)];
    (head, Body::from(body)).into_response()
}

/// One round over the streamlets.
struct PageReader {
    state: Arc<HttpState>,
    charge: Charge,
    bytes_max: usize,
    values: ValueForm,
    text: String,
    records: u64,
    /// The charge for inflating: chunks are inflated one after the other.
    inflated_bytes: usize,
}

/// Why a round stopped at an offset.
struct Stopped {
    at: i64,
    why: Option<Problem>,
}

impl PageReader {
    /// Reads until there is as much as was asked for. A problem is told if it is all there is; else
    /// the next round comes to it.
    fn read(
        mut self,
        views: &[Committed],
        streamlets: &[StreamletIx],
        positions: Vec<ReadPosition>,
    ) -> Result<RecordPage, Problem> {
        let (mut had, mut had_none) = (Vec::new(), Vec::new());
        for position in positions {
            let streamlet = position.streamlet;
            let view = streamlets.binary_search(&streamlet).ok().map(|at| &views[at]);
            let Some(view) = view.filter(|_| self.text.len() < self.bytes_max) else {
                had_none.push(position);
                continue;
            };
            let next = |offset: i64| ReadPosition { streamlet, offset: Offset(offset) };
            match self.streamlet(view, position) {
                Ok(offset) => had.push(next(offset)),
                Err(Stopped { at, why }) => match why {
                    Some(problem) if self.text.is_empty() => {
                        return Err(problem.with("streamlet", streamlet.0).with("offset", at));
                    }
                    // It is among the first that are come to next time: behind others that always
                    // have something it would never be told.
                    Some(_) => had_none.push(next(at)),
                    None => had.push(next(at)),
                },
            }
        }
        self.state.counts.read_records.fetch_add(self.records, Ordering::Relaxed);
        // Those that had no turn are the first next time.
        had_none.append(&mut had);
        Ok(RecordPage { text: self.text, positions: had_none, charge: self.charge })
    }

    /// Reads one streamlet; gives back where to go on.
    fn streamlet(&mut self, view: &Committed, position: ReadPosition) -> Result<i64, Stopped> {
        let from = position.offset.0;
        let stop = |why: ReadError| Stopped { at: from, why: Some(why.into()) };
        let stop_for = |why: Problem| Stopped { at: from, why: Some(why) };
        let end = view.end_offset().ok_or_else(|| stop_for(unknown_end()))?;
        let start = view.streamlet().start_offset();
        if from < start || from > view.streamlet().high_watermark() {
            return Err(stop(ReadError::OutOfRange { offset: from, start, end }));
        }
        if from >= end {
            return Ok(from);
        }
        let max_bytes = self.bytes_max.saturating_sub(self.text.len());
        let stop = |error| match view.streamlet().failure() {
            // Its files went under us.
            Some(AppendError::Closed) => stop_for(unknown(view.streamlet().stream_name())),
            _ => stop(error),
        };
        let limit = ReadLimit { max_bytes, at_least_one: false, below: end };
        let mut cursor = ReadCursor::default();
        let mut read = view.streamlet().read(&mut cursor, from, limit).map_err(stop)?;
        if read.chunks.is_empty() && read.next_offset == from {
            // The first one is longer: as many bytes as its writer has put into it.
            let one = ReadLimit { max_bytes: 0, at_least_one: true, below: end };
            let first = view.streamlet().read_to_send(&mut cursor, from, one).map_err(stop)?;
            let bytes = first.chunks.iter().map(OutgoingChunk::len).sum();
            self.state.charge_more(&mut self.charge, bytes).map_err(stop_for)?;
            let limit = ReadLimit { at_least_one: true, ..limit };
            read = view.streamlet().read(&mut ReadCursor::default(), from, limit).map_err(stop)?;
        }
        let mut aborted = view.aborted(from, read.next_offset);
        aborted.sort_unstable_by_key(|(_, first_offset)| *first_offset);
        let mut aborted = aborted.into_iter().peekable();
        let mut leaving_out: Vec<i64> = Vec::new();
        let mut scratch = Vec::new();
        for chunk in &read.chunks {
            let head = ChunkHead::read(chunk).map_err(|error| self.damaged(from, &error))?;
            while let Some((producer, _)) =
                aborted.next_if(|(_, first_offset)| first_offset.0 <= head.base_offset)
            {
                leaving_out.push(producer.0);
            }
            if head.is_control() {
                let is_abort = read_control(chunk).is_some_and(|it| !it.is_commit);
                leaving_out.retain(|it| !is_abort || *it != head.producer_id);
                continue;
            }
            if head.is_transactional() && leaving_out.contains(&head.producer_id) {
                continue;
            }
            self.chunk(position, &head, &chunk[CHUNK_HEAD_BYTES..], &mut scratch)?;
        }
        Ok(read.next_offset)
    }

    fn chunk(
        &mut self,
        position: ReadPosition,
        head: &ChunkHead,
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), Stopped> {
        let from = position.offset.0;
        let first = from.max(head.base_offset);
        let plain = self.plain(first, head, body, scratch)?;
        for record in Records::new(head, plain) {
            let record = record.map_err(|error| self.damaged(first, &error))?;
            let offset = head.base_offset + i64::from(record.offset_delta);
            if offset < from {
                continue;
            }
            if self.text.len() >= self.bytes_max {
                return Err(Stopped { at: offset, why: None });
            }
            let at = ReadPosition { offset: Offset(offset), ..position };
            render::line(&mut self.text, at, &record, self.values);
            self.records += 1;
        }
        Ok(())
    }

    /// The records of a chunk without compression. Memory is charged before it is taken: little
    /// first, since most chunks become a few times as long.
    fn plain<'b>(
        &mut self,
        first: i64,
        head: &ChunkHead,
        body: &'b [u8],
        scratch: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Stopped> {
        if head.codec() == Ok(Codec::None) {
            return Ok(body);
        }
        let most = self.state.inflated_bytes_max();
        let mut limit = body.len().saturating_mul(8).clamp(INFLATED_BYTES_MIN.min(most), most);
        loop {
            if limit > self.inflated_bytes {
                let more = limit - self.inflated_bytes;
                let charged = self.state.charge_more(&mut self.charge, more);
                charged.map_err(|why| Stopped { at: first, why: Some(why) })?;
                self.inflated_bytes = limit;
            }
            match inflate(head, body, limit, scratch) {
                Err(RecordsError::TooLarge { .. }) if limit < most => {
                    limit = limit.saturating_mul(4).min(most);
                }
                Err(error @ RecordsError::TooLarge { .. }) => {
                    let why = format!("{error}: read them with a Kafka client");
                    let why = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why);
                    return Err(Stopped { at: first, why: Some(why) });
                }
                Err(error) => return Err(self.damaged(first, &error)),
                Ok(plain) => {
                    let length = plain.len();
                    return Ok(&scratch[..length]);
                }
            }
        }
    }

    fn damaged(&self, at: i64, error: &dyn std::error::Error) -> Stopped {
        tracing::error!(at, %error, "a chunk that was stored does not read");
        let why = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        Stopped { at, why: Some(why) }
    }
}
