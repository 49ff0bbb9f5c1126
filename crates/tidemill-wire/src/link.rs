//! Frames of a link between processes.
//!
//! ```text
//! ┌ head, 72 bytes ┬ body … ┐
//!  magic version kind packing payload │ link lane input │ cycle │ body, plain, rows, slices │
//!  share │ unchecked │ CRC-32C of the body │ CRC-32C of the head before it
//! ```
//!
//! All numbers are little endian. Version 2. Between processes of one machine bodies go without a
//! checksum: other data in memory has none either, and it took a sixth of the time of such a link.
//! A frame with another magic or version, a wrong checksum or a size over the limit ends the
//! connection: nothing after it can be trusted.

use tidemill_types::{Cycle, limits::FRAME_BYTES_MAX};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

#[cfg(test)]
mod tests;

const MAGIC: [u8; 4] = *b"TMLK";
const LINK_VERSION: u8 = 2;

/// Bytes of a head.
pub const HEAD_BYTES: usize = size_of::<RawHead>();

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    magic: [u8; 4],
    version: u8,
    kind: u8,
    packing: u8,
    payload: u8,
    link: U32,
    lane: U32,
    input: U32,
    body: U32,
    cycle: U64,
    plain: U32,
    rows: U32,
    slices: U32,
    layout: U32,
    share: U64,
    unchecked: u8,
    reserved: [u8; 7],
    body_crc: U32,
    head_crc: U32,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The first frame of a connection: the sender's identity.
    Hello,
    /// Rows of a cycle.
    Block,
    /// The end of a cycle of one input.
    End,
    /// Bytes that were processed: credit for the sender.
    Credit,
    /// The last frame of a connection: the sender has finished its part of the job.
    Bye,
}

/// The form of a block's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// Byte records: offsets, then values, as in an Arrow binary column.
    Rows,
    /// An Arrow IPC stream of one batch.
    Arrow,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The kind of the body.
    pub kind: FrameKind,
    /// True if the body is LZ4.
    pub packed: bool,
    /// The form of a block's rows.
    pub payload: PayloadKind,
    /// The link, by its place in the graph.
    pub link: u32,
    /// The lane that reads, by its place in its node.
    pub lane: u32,
    /// The input of that lane.
    pub input: u32,
    /// The layout that both lanes belong to.
    pub layout: u32,
    /// The cycle.
    pub cycle: Cycle,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the body once unpacked.
    pub plain: u32,
    /// Rows of a block.
    pub rows: u32,
    /// The number of slices that a block's rows are sorted by; as many counts lead its body. Zero:
    /// the block is not routed.
    pub slices: u32,
    /// Bytes that the block counts on its link; of a credit, bytes given back.
    pub share: u64,
    /// Checksum of the body as it is sent; none if it does not leave the machine.
    pub body_crc: Option<u32>,
}

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not a frame of this protocol.
    #[error("not a frame of a link: it begins with {0:02x?}")]
    Magic([u8; 4]),
    /// Another version.
    #[error("version {0} of the link protocol is not known to this build")]
    Version(u8),
    /// The head is damaged.
    #[error("the head of a frame is damaged")]
    Checksum,
    /// A field has a value that has no meaning.
    #[error("field `{0}` of a frame has no such value")]
    Field(&'static str),
    /// The body would be over the limit.
    #[error("a body of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLarge(u32),
}

/// CRC-32C over several pieces of bytes.
#[must_use]
pub fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

impl FrameHead {
    /// A head without a body.
    #[must_use]
    pub fn bare(kind: FrameKind) -> Self {
        Self {
            kind,
            packed: false,
            payload: PayloadKind::Rows,
            link: 0,
            lane: 0,
            input: 0,
            layout: 0,
            cycle: Cycle::NONE,
            body: 0,
            plain: 0,
            rows: 0,
            slices: 0,
            share: 0,
            body_crc: Some(0),
        }
    }

    /// The head as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut raw = RawHead {
            magic: MAGIC,
            version: LINK_VERSION,
            kind: self.kind as u8,
            packing: u8::from(self.packed),
            payload: self.payload as u8,
            link: self.link.into(),
            lane: self.lane.into(),
            input: self.input.into(),
            body: self.body.into(),
            cycle: self.cycle.0.into(),
            plain: self.plain.into(),
            rows: self.rows.into(),
            slices: self.slices.into(),
            layout: self.layout.into(),
            share: self.share.into(),
            unchecked: u8::from(self.body_crc.is_none()),
            reserved: [0; 7],
            body_crc: self.body_crc.unwrap_or(0).into(),
            head_crc: 0.into(),
        };
        let bytes = raw.as_bytes();
        raw.head_crc = checksum(&[&bytes[..HEAD_BYTES - 4]]).into();
        let mut out = [0; HEAD_BYTES];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// It is not one, or states sizes over the limits. The connection must be closed.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, HeadError> {
        let raw = RawHead::ref_from_bytes(bytes).map_err(|_| HeadError::Field("length"))?;
        if raw.magic != MAGIC {
            return Err(HeadError::Magic(raw.magic));
        }
        if raw.version != LINK_VERSION {
            return Err(HeadError::Version(raw.version));
        }
        if raw.head_crc.get() != checksum(&[&bytes[..HEAD_BYTES - 4]]) {
            return Err(HeadError::Checksum);
        }
        let kind = match raw.kind {
            0 => FrameKind::Hello,
            1 => FrameKind::Block,
            2 => FrameKind::End,
            3 => FrameKind::Credit,
            4 => FrameKind::Bye,
            _ => return Err(HeadError::Field("kind")),
        };
        let payload = match raw.payload {
            0 => PayloadKind::Rows,
            1 => PayloadKind::Arrow,
            _ => return Err(HeadError::Field("payload")),
        };
        for size in [raw.body.get(), raw.plain.get()] {
            if size as usize > FRAME_BYTES_MAX {
                return Err(HeadError::TooLarge(size));
            }
        }
        Ok(Self {
            kind,
            packed: raw.packing != 0,
            payload,
            link: raw.link.get(),
            lane: raw.lane.get(),
            input: raw.input.get(),
            layout: raw.layout.get(),
            cycle: Cycle(raw.cycle.get()),
            body: raw.body.get(),
            plain: raw.plain.get(),
            rows: raw.rows.get(),
            slices: raw.slices.get(),
            share: raw.share.get(),
            body_crc: (raw.unchecked == 0).then(|| raw.body_crc.get()),
        })
    }
}
