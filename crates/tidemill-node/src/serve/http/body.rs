//! A request's body: whole, within its limit and its deadline, inflated if it is gzip.
//!
//! The deadline moves as bytes come, so that a large body may take its time and a dripping one may
//! not. Memory is charged as bytes come, never by the length that a head claims.

use super::{
    problem::Problem,
    state::{Charge, HttpState},
};
use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use flate2::read::MultiGzDecoder;
use hyper::body::Body as _;
use std::{future::poll_fn, io::Read, pin::Pin, time::Duration};
use tokio::time::{Instant, timeout_at};

#[cfg(test)]
mod tests;

/// Bytes that are charged at a time.
const STEP_BYTES: usize = 64 << 10;

/// Bytes a second below which a body is too slow.
const SECOND_BYTES: u64 = 64 << 10;

/// Most bytes that deflate makes of one (RFC 1951: 258 of two bits).
const DEFLATE_RATIO_MAX: usize = 1_032;

/// A body that was received.
#[derive(Debug)]
pub(super) struct Received {
    bytes: Vec<u8>,
    is_gzip: bool,
    /// Its charge of memory.
    pub(super) charge: Charge,
}

fn too_large(limit: usize) -> Problem {
    let why = format!("the body has more than {limit} bytes: send it in pieces");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why).with("limit_bytes", limit)
}

/// True if the body is gzip. Another encoding is refused.
fn is_gzip(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(header::CONTENT_ENCODING).map(|it| it.as_bytes().to_ascii_lowercase()) {
        None => Ok(false),
        Some(it) if it == b"identity" => Ok(false),
        Some(it) if it == b"gzip" || it == b"x-gzip" => Ok(true),
        Some(_) => {
            let why = "this content encoding is not known: send gzip or none";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
    }
}

/// Receives a body.
pub(super) async fn receive(
    state: &HttpState,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Problem> {
    let limit = state.body_bytes_max();
    let is_gzip = is_gzip(headers)?;
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let (bytes, charge) = collect(state, body, limit).await?;
    Ok(Received { bytes, is_gzip, charge })
}

/// Longest time of a body that has this number of bytes so far.
fn patience(base: Duration, bytes: usize) -> Duration {
    base + Duration::from_micros(bytes as u64 * 1_000_000 / SECOND_BYTES)
}

async fn collect(
    state: &HttpState,
    mut body: Body,
    limit: usize,
) -> Result<(Vec<u8>, Charge), Problem> {
    let mut charge = state.charge(STEP_BYTES).await?;
    let (mut bytes, mut charged) = (Vec::new(), STEP_BYTES);
    let began = Instant::now();
    loop {
        let until = began + patience(state.settings.transfer_time.duration(), bytes.len());
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = match timeout_at(until, next).await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(_) => {
                let why = format!("the body was not whole in time: {} bytes came", bytes.len());
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, why));
            }
        };
        let frame = frame.map_err(|error| {
            Problem::bad(format!(
                "the body broke off after {} bytes ({error}): send it again, whole, with its \
                     length in `Content-Length` or in chunks",
                bytes.len()
            ))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(too_large(limit));
        }
        // A vector that grows has twice what it holds, for a moment three times.
        while charged < 2 * (bytes.len() + data.len()) {
            state.charge_more(&mut charge, STEP_BYTES)?;
            charged += STEP_BYTES;
        }
        bytes.extend_from_slice(&data);
    }
    state.counts.body_bytes.fetch_add(bytes.len() as u64, std::sync::atomic::Ordering::Relaxed);
    Ok((bytes, charge))
}

impl Received {
    /// The body without compression, and its charge. Blocks.
    pub(super) fn plain(self, state: &HttpState) -> Result<(Vec<u8>, Charge), Problem> {
        if !self.is_gzip {
            return Ok((self.bytes, self.charge));
        }
        // What came goes with its own charge once it is inflated.
        let mut charge = Charge::NONE;
        let bytes = inflate(&self.bytes, state.body_bytes_max(), &mut |more| {
            state.charge_more(&mut charge, more)
        })?;
        Ok((bytes, charge))
    }
}

/// Inflates gzip to at most `limit` bytes; `charge` is asked before memory is written to.
fn inflate(
    packed: &[u8],
    limit: usize,
    charge: &mut dyn FnMut(usize) -> Result<(), Problem>,
) -> Result<Vec<u8>, Problem> {
    // The addresses are taken at once, the memory as it is written: a vector that grew would leave
    // as much again behind in the allocator, for every thread that inflates.
    let most = packed.len().saturating_mul(DEFLATE_RATIO_MAX).min(limit.saturating_add(1));
    let mut plain = Vec::new();
    if plain.try_reserve_exact(most).is_err() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "there is no memory for the body",
        ));
    }
    let mut decoder = MultiGzDecoder::new(packed);
    loop {
        let room = STEP_BYTES.min(limit - plain.len() + 1);
        charge(room)?;
        let before = plain.len();
        let read = decoder.by_ref().take(room as u64).read_to_end(&mut plain);
        read.map_err(|error| {
            Problem::bad(format!(
                "the body is not gzip as `Content-Encoding` says, or not all of it ({error}): pack it \
                 again, or send it plain and without that header"
            ))
        })?;
        if plain.len() > limit {
            return Err(too_large(limit));
        }
        if plain.len() - before < room {
            return Ok(plain);
        }
    }
}
