//! The Kafka protocol: messages, heads, error codes, frames.
//!
//! ```text
//! frame: length i32 of the rest │ request head │ request              one request
//!        length i32 of the rest │ response head │ response            its answer
//! head:  api key i16, version i16, correlation id i32, client id       of a request
//!        correlation id i32                                            of a response
//! ```
//!
//! Messages are generated from Kafka's own schemas by the crate `kacrab-protocol`; this module is
//! the only place that names it, so that another codec could take its place. Its readers take
//! strings and bytes out of the frame without copying and never allocate by a length that a message
//! claims, but by the rest of the frame.
//!
//! Invariants: no bytes panic or allocate more than a small multiple of their own length; a message
//! is only read in a version that is asked for and known.

use bytes::{Buf, BufMut, Bytes, BytesMut};
pub use kacrab_protocol::{
    KafkaString, KafkaUuid, RawTaggedField,
    generated::{self as message, ApiKey, ErrorCode},
};
use kacrab_protocol::{
    ProtocolError,
    version::{request_header_version, response_header_version},
};

mod messages;
mod produce;
mod produce_counts;

pub use produce::{Produce, ProduceStream, produce_frame};
pub use produce_counts::{ProduceCounts, count_produce};

#[cfg(test)]
mod tests;

/// Bytes of a frame before its content.
pub const FRAME_HEAD_BYTES: usize = 4;

/// Why bytes are no message, or a message cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(Box<ProtocolError>);

impl From<ProtocolError> for MessageError {
    fn from(error: ProtocolError) -> Self {
        Self(Box::new(error))
    }
}

/// A request or a response, without its head.
pub trait Message: Sized {
    /// Takes one off the front of `bytes`.
    ///
    /// # Errors
    /// The bytes are no such message, or the version is not known.
    fn read(bytes: &mut Bytes, version: i16) -> Result<Self, MessageError>;
    /// Appends it to `into`.
    ///
    /// # Errors
    /// The version is not known, or has no field for a value that is set.
    fn write(&self, into: &mut BytesMut, version: i16) -> Result<(), MessageError>;
}

/// A request, with the type of its answer.
pub trait Request: Message {
    /// Which request.
    const KEY: ApiKey;
    /// The answer's type.
    type Response: Message;
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Which request; see [`ApiKey::from_i16`].
    pub key: i16,
    /// In which version.
    pub version: i16,
    /// The number that the answer repeats.
    pub correlation_id: i32,
    /// The name the client gives itself.
    pub client_id: Option<KafkaString>,
}

impl RequestHead {
    /// Takes a head off the front of a frame's content.
    ///
    /// # Errors
    /// The bytes are no head.
    pub fn read(bytes: &mut Bytes) -> Result<Self, MessageError> {
        let (key, version) = if bytes.len() < 4 {
            (-1, -1)
        } else {
            (i16::from_be_bytes([bytes[0], bytes[1]]), i16::from_be_bytes([bytes[2], bytes[3]]))
        };
        // A version that is not known here has the head of the newest one.
        let flexible = request_header_version(key, version)
            .max(i16::from(key == ApiKey::ApiVersions as i16 && version >= 3) * 2);
        let head = message::request_header::RequestHeaderData::read(bytes, flexible)
            .map_err(MessageError::from)?;
        Ok(Self {
            key: head.request_api_key,
            version: head.request_api_version,
            correlation_id: head.correlation_id,
            // A copy: who keeps the head does not keep the frame.
            client_id: head.client_id.map(|it| text(it.as_str())),
        })
    }

    /// Begins an answer: the room for a frame's length, and the head. [`end_frame`] ends it.
    #[must_use]
    pub fn begin_response(&self, capacity: usize) -> BytesMut {
        let mut out = BytesMut::with_capacity(capacity + 16);
        out.put_i32(0);
        out.put_i32(self.correlation_id);
        if response_header_version(self.key, self.version) >= 1 {
            out.put_u8(0);
        }
        out
    }
}

/// Writes the frame's length into its first four bytes; `more` bytes follow that are not in
/// `frame`. None if the length does not fit.
#[must_use]
pub fn end_frame(frame: &mut BytesMut, more: usize) -> Option<()> {
    let length = i32::try_from(frame.len() - FRAME_HEAD_BYTES + more).ok()?;
    frame[..FRAME_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Some(())
}

/// A whole request as a frame.
///
/// # Errors
/// See [`Message::write`].
pub fn request_frame<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &KafkaString,
) -> Result<BytesMut, MessageError> {
    let mut out = BytesMut::with_capacity(256);
    out.put_i32(0);
    let head = message::request_header::RequestHeaderData::default()
        .with_request_api_key(R::KEY as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(client_id.clone()));
    head.write(&mut out, request_header_version(R::KEY as i16, version))?;
    request.write(&mut out, version)?;
    let length = i32::try_from(out.len() - FRAME_HEAD_BYTES).unwrap_or(i32::MAX);
    out[..FRAME_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(out)
}

/// Takes the head off the front of an answer's content: its correlation id.
///
/// # Errors
/// The bytes are no head.
pub fn read_response_head(
    bytes: &mut Bytes,
    key: ApiKey,
    version: i16,
) -> Result<i32, MessageError> {
    let head = message::response_header::ResponseHeaderData::read(
        bytes,
        response_header_version(key as i16, version),
    )?;
    Ok(head.correlation_id)
}

/// The versions of a request that are known here.
#[must_use]
pub fn known_versions(key: ApiKey) -> std::ops::RangeInclusive<i16> {
    let info = message::client_api_info(key);
    info.min_version..=info.max_version
}

/// True if a request of this version has compact lengths and tagged fields.
#[must_use]
pub fn is_flexible(key: ApiKey, version: i16) -> bool {
    version >= message::client_api_info(key).flexible_versions_start
}

/// A string of ours as one of the protocol.
#[must_use]
pub fn text(text: &str) -> KafkaString {
    KafkaString::new(Bytes::copy_from_slice(text.as_bytes())).expect("a &str is UTF-8")
}

/// Drops the bytes after a frame's known fields, such as tagged fields of newer versions.
pub fn skip_rest(bytes: &mut Bytes) {
    bytes.advance(bytes.len());
}
