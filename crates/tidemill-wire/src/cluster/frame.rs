//! The head of a frame, as it is before it is sealed.
//!
//! ```text
//! body length u32 │ type │ 0 │ kind u16 │ correlation u64 │ incarnation u32 │ timeout ms u32
//! ```
//!
//! A frame on the wire is the sealed head (24 bytes and a tag of 16), then the sealed body and its
//! tag if the body is not empty.

use super::fields::{ClusterDecodeError, FieldReader};
use tidemill_types::Incarnation;

/// Bytes of a head before it is sealed.
pub const FRAME_HEAD_BYTES: usize = 24;
/// Most bytes of a body in any version: a limit that no setting lifts.
pub const BODY_BYTES_MAX: u32 = 64 << 20;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterFrame {
    /// A request, from the caller alone.
    Request,
    /// The answer to the request of the same correlation, from the port alone.
    Answer,
    /// A refusal of the request of the same correlation, from the port alone.
    Refusal,
    /// A sign of life in a silence.
    Heartbeat,
    /// The sender is about to close the connection.
    Goodbye,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterFrameHead {
    /// The type.
    pub frame: ClusterFrame,
    /// The kind of request; 0 in frames without one.
    pub kind: u16,
    /// The number that joins a request and its answer; never used twice on a connection.
    pub correlation: u64,
    /// The sender's incarnation when it decided to send this.
    pub incarnation: Incarnation,
    /// The time that the sender waits for an answer, in milliseconds; 0 in other frames.
    pub timeout_ms: u32,
    /// Bytes of the body, without its tag.
    pub body_bytes: u32,
}

impl ClusterFrameHead {
    /// A frame without a request.
    #[must_use]
    pub fn bare(frame: ClusterFrame, incarnation: Incarnation) -> Self {
        Self { frame, kind: 0, correlation: 0, incarnation, timeout_ms: 0, body_bytes: 0 }
    }

    /// The head as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FRAME_HEAD_BYTES] {
        let frame: u8 = match self.frame {
            ClusterFrame::Request => 1,
            ClusterFrame::Answer => 2,
            ClusterFrame::Refusal => 3,
            ClusterFrame::Heartbeat => 4,
            ClusterFrame::Goodbye => 5,
        };
        let mut out = [0; FRAME_HEAD_BYTES];
        out[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[4] = frame;
        out[6..8].copy_from_slice(&self.kind.to_le_bytes());
        out[8..16].copy_from_slice(&self.correlation.to_le_bytes());
        out[16..20].copy_from_slice(&self.incarnation.0.to_le_bytes());
        out[20..].copy_from_slice(&self.timeout_ms.to_le_bytes());
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// A field has no meaning, or the body is over [`BODY_BYTES_MAX`].
    pub fn decode(bytes: &[u8; FRAME_HEAD_BYTES]) -> Result<Self, ClusterDecodeError> {
        let mut fields = FieldReader(bytes);
        let body_bytes = fields.u32("length")?;
        if body_bytes > BODY_BYTES_MAX {
            let bytes_max = BODY_BYTES_MAX;
            return Err(ClusterDecodeError::TooLarge { bytes: body_bytes, bytes_max });
        }
        let frame = match fields.u8("type")? {
            1 => ClusterFrame::Request,
            2 => ClusterFrame::Answer,
            3 => ClusterFrame::Refusal,
            4 => ClusterFrame::Heartbeat,
            5 => ClusterFrame::Goodbye,
            _ => return Err(ClusterDecodeError::Field("type")),
        };
        if fields.u8("reserved")? != 0 {
            return Err(ClusterDecodeError::Field("reserved"));
        }
        Ok(Self {
            frame,
            kind: fields.u16("kind")?,
            correlation: u64::from_le_bytes(fields.array("correlation")?),
            incarnation: Incarnation(fields.u32("incarnation")?),
            timeout_ms: fields.u32("timeout")?,
            body_bytes,
        })
    }
}
