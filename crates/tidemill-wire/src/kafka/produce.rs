//! A produce request in pieces, so that its chunks need not be copied on their way to the socket.
//!
//! ```text
//! piece 0: length, head, …, length of chunk 0 │ piece 1: chunk 0 │ piece 2: …, length of chunk 1 │ …
//! ```
//!
//! Invariant: the pieces together are the bytes that [`request_frame`](super::request_frame) makes
//! of the same request; a test compares them in every version.

use super::{KafkaString, KafkaUuid, MessageError, is_flexible, message::ApiKey};
use bytes::{BufMut, Bytes, BytesMut};
use kacrab_protocol::{
    generated::request_header::RequestHeaderData,
    primitives::{write_array_length, write_compact_array_length, write_unsigned_varint},
    string::{
        write_compact_nullable_string, write_compact_string, write_nullable_string, write_string,
    },
    version::request_header_version,
};

/// The first version that names streams by id.
const BY_ID: i16 = 13;

/// The content of a produce request.
#[derive(Clone, Debug, Default)]
pub struct Produce {
    /// The transactional producer, if it is one.
    pub transactional_id: Option<KafkaString>,
    /// When it counts: 0 unanswered, 1 when the leader has it, -1 when all replicas have.
    pub acks: i16,
    /// The longest wait of the node for replicas, in milliseconds.
    pub timeout_ms: i32,
    /// Chunks by stream.
    pub streams: Vec<ProduceStream>,
}

/// Chunks for one stream.
#[derive(Clone, Debug, Default)]
pub struct ProduceStream {
    /// The topic's name, used before version 13.
    pub name: KafkaString,
    /// The topic's id, used from version 13 on.
    pub id: Option<KafkaUuid>,
    /// Streamlets, each with one chunk.
    pub chunks: Vec<(i32, Bytes)>,
}

/// Writes the request as a whole frame.
///
/// # Errors
/// It is longer than a frame can say, or a name than a string can be.
pub fn produce_frame(
    produce: &Produce,
    version: i16,
    correlation_id: i32,
    client_id: &KafkaString,
) -> Result<Vec<Bytes>, MessageError> {
    let key = ApiKey::Produce as i16;
    let flexible = is_flexible(ApiKey::Produce, version);
    let mut out = BytesMut::with_capacity(256);
    out.put_i32(0);
    RequestHeaderData::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(client_id.clone()))
        .write(&mut out, request_header_version(key, version))?;
    let transactional_id = produce.transactional_id.as_ref();
    if flexible {
        write_compact_nullable_string(&mut out, transactional_id).map_err(wrong)?;
    } else {
        write_nullable_string(&mut out, transactional_id).map_err(wrong)?;
    }
    out.put_i16(produce.acks);
    out.put_i32(produce.timeout_ms);
    put_count(&mut out, flexible, produce.streams.len());
    // The first piece is kept open until the length of all is known.
    let mut first: Option<BytesMut> = None;
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    for stream in &produce.streams {
        match version {
            BY_ID.. => out.put_slice(&stream.id.unwrap_or(KafkaUuid::ZERO).to_bytes()),
            _ if flexible => write_compact_string(&mut out, &stream.name).map_err(wrong)?,
            _ => write_string(&mut out, &stream.name).map_err(wrong)?,
        }
        put_count(&mut out, flexible, stream.chunks.len());
        for (index, chunk) in &stream.chunks {
            out.put_i32(*index);
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            if flexible {
                write_unsigned_varint(&mut out, length.saturating_add(1));
            } else {
                out.put_u32(length);
            }
            let before = out.split();
            bytes += before.len() + chunk.len();
            match &first {
                None => first = Some(before),
                Some(_) => pieces.push(before.freeze()),
            }
            pieces.push(chunk.clone());
            put_end(&mut out, flexible);
        }
        put_end(&mut out, flexible);
    }
    put_end(&mut out, flexible);
    bytes += out.len();
    let rest = out;
    let (mut first, last) = match first {
        Some(first) => (first, Some(rest)),
        None => (rest, None),
    };
    let length = i32::try_from(bytes - super::FRAME_HEAD_BYTES).map_err(|_| too_long(bytes))?;
    first[..super::FRAME_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    let mut frame = Vec::with_capacity(pieces.len() + 2);
    frame.push(first.freeze());
    frame.append(&mut pieces);
    frame.extend(last.map(BytesMut::freeze).filter(|it| !it.is_empty()));
    Ok(frame)
}

fn wrong(error: impl Into<kacrab_protocol::ProtocolError>) -> MessageError {
    MessageError::from(error.into())
}

fn too_long(bytes: usize) -> MessageError {
    let max = i32::MAX as usize;
    wrong(kacrab_protocol::string::StringError::new(
        kacrab_protocol::string::StringErrorKind::TooLong { length: bytes, max },
    ))
}

fn put_count(out: &mut BytesMut, flexible: bool, count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    if flexible {
        write_compact_array_length(out, count);
    } else {
        write_array_length(out, count);
    }
}

/// No tagged fields, where there may be some.
fn put_end(out: &mut BytesMut, flexible: bool) {
    if flexible {
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests;
