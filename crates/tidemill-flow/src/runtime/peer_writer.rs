//! Frames on their way to a socket: as many a call as wait, up to a megabyte.
//!
//! ```text
//! what waits   block          end   credit   block          end
//! one call     head ▏rows ▏ head·end·head·head ▏rows ▏ head·end
//!              ╰ own memory, or the block's, by reference ╯
//! ```
//!
//! A system call and the wake of the reader cost as much for a small piece as for a large one, and
//! a relay over TCP is mostly that. Large byte records are not copied.

use super::peer::{Address, Outgoing};
use crate::block::{Block, Payload, Routing};
use crate::rows::Rows;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::writer::StreamWriter;
use arrow_select::take::take_record_batch;
use std::{
    io::{IoSlice, Write},
    ops::Range,
};
use tidemill_types::{job::CompressionSpec, limits::FRAME_BYTES_MAX};
use tidemill_wire::{
    compression::Compressor,
    link::{FrameHead, FrameKind, HEAD_BYTES, PayloadKind, checksum},
};
use zerocopy::IntoBytes;

#[cfg(test)]
mod tests;

/// A call takes no more blocks from this many bytes on.
const CALL_BYTES: usize = 1 << 20;
/// Nor once there might be more pieces than these: a block that is sent by reference adds three.
const CALL_PIECES: usize = 64;
/// Byte records of fewer bytes are copied: a piece of a call costs more than that.
const REFERRED_BYTES_MIN: usize = 4 << 10;

/// Writes frames.
pub(crate) struct FrameWriter {
    out: Box<dyn Write + Send>,
    compressor: Compressor,
    /// Heads, and bodies that are sent from here.
    own: Vec<u8>,
    /// The pieces of one call, in order.
    pieces: Vec<IoPiece>,
    /// The bytes of `own` that no piece has yet begin here.
    from: usize,
    /// Bytes that are referred to.
    referred: usize,
    /// Bodies stay in the memory of this machine, and go without a checksum.
    is_within_machine: bool,
}

/// A piece of a call.
#[derive(Clone, Debug)]
enum IoPiece {
    /// A part of the writer's own memory.
    Own(Range<usize>),
    /// Where each byte record of the frame of this number begins.
    Offsets(usize),
    /// The byte records themselves.
    Values(usize),
}

/// The rows of a block that a lane reads: all of them, or these.
type RowOrder<'a> = Option<&'a [u32]>;

fn head_for(kind: FrameKind, address: Address) -> FrameHead {
    FrameHead {
        link: address.link.0,
        lane: address.lane.0,
        input: address.input,
        layout: address.layout.0,
        ..FrameHead::bare(kind)
    }
}

fn small(length: usize) -> std::io::Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|it| *it as usize <= FRAME_BYTES_MAX)
        .ok_or_else(|| std::io::Error::other(format!("a block of {length} bytes is too large")))
}

impl FrameWriter {
    pub(crate) fn new(out: Box<dyn Write + Send>, is_within_machine: bool) -> Self {
        Self {
            out,
            compressor: Compressor::new(CompressionSpec::Off),
            own: Vec::new(),
            pieces: Vec::new(),
            from: 0,
            referred: 0,
            is_within_machine,
        }
    }

    pub(crate) fn compress(&mut self, policy: CompressionSpec) {
        self.compressor = Compressor::new(policy);
    }

    /// Writes the first of these frames, as many as one call takes, and at least one. Gives back
    /// how many.
    ///
    /// # Errors
    /// The socket's, or a block over the limit of a frame.
    pub(crate) fn write(&mut self, frames: &[Outgoing]) -> std::io::Result<usize> {
        self.own.clear();
        self.pieces.clear();
        (self.from, self.referred) = (0, 0);
        let mut count = 0;
        for frame in frames {
            if !self.has_room_for(frame) {
                break;
            }
            self.gather(count, frame)?;
            count += 1;
        }
        self.end_piece();
        self.send(frames)?;
        Ok(count)
    }

    /// Returns true if a frame fits the call. Small frames always do: the end of a cycle goes with
    /// its last block.
    fn has_room_for(&self, frame: &Outgoing) -> bool {
        let is_small = !matches!(frame, Outgoing::Block { .. });
        let bytes = self.own.len() + self.referred;
        is_small || (bytes < CALL_BYTES && self.pieces.len() + 4 <= CALL_PIECES)
    }

    fn gather(&mut self, number: usize, frame: &Outgoing) -> std::io::Result<()> {
        match frame {
            Outgoing::Block { address, cycle, block, share, slices } => {
                let mut head = head_for(FrameKind::Block, *address);
                (head.cycle, head.share) = (*cycle, *share);
                self.gather_block(head, number, block, slices)
            }
            Outgoing::End { address, end } => {
                let head = FrameHead { cycle: end.cycle, ..head_for(FrameKind::End, *address) };
                let start = self.begin();
                self.own.extend_from_slice(&end.time.0.to_le_bytes());
                self.own.extend_from_slice(&end.watermark.0.to_le_bytes());
                self.own.push(u8::from(end.ended));
                self.finish(head, start)
            }
            Outgoing::Credit { link, bytes } => {
                let head = FrameHead { link: link.0, ..FrameHead::bare(FrameKind::Credit) };
                let start = self.begin();
                self.finish(FrameHead { share: *bytes, ..head }, start)
            }
            Outgoing::Bye => {
                let start = self.begin();
                self.finish(FrameHead::bare(FrameKind::Bye), start)
            }
        }
    }

    fn gather_block(
        &mut self,
        mut head: FrameHead,
        number: usize,
        block: &Block,
        slices: &Range<u32>,
    ) -> std::io::Result<()> {
        let start = self.begin();
        let taken = match &block.routing {
            Some(routing) => Some(self.counts(&mut head, routing, slices)),
            None => {
                // Which slice the whole block belongs to: one of the reading stage, or every one.
                self.own.extend_from_slice(&block.slice.0.to_le_bytes());
                None
            }
        };
        match &block.payload {
            Payload::Rows(rows) => {
                head.payload = PayloadKind::Rows;
                head.rows = small(taken.map_or(rows.len(), <[u32]>::len))?;
                let is_large = rows.values().len() >= REFERRED_BYTES_MIN;
                if taken.is_none() && is_large && self.compressor.is_off() {
                    return self.refer(head, start, number, rows);
                }
                self.copy_rows(rows, taken);
            }
            Payload::Arrow(batch) => {
                head.payload = PayloadKind::Arrow;
                head.rows = small(taken.map_or(batch.num_rows(), <[u32]>::len))?;
                self.copy_batch(batch, taken).map_err(std::io::Error::other)?;
            }
        }
        self.pack(&mut head, start)?;
        self.finish(head, start)
    }

    /// Writes the number of rows of each slice of a lane; returns those rows.
    fn counts<'a>(
        &mut self,
        head: &mut FrameHead,
        routing: &'a Routing,
        slices: &Range<u32>,
    ) -> &'a [u32] {
        let starts = &routing.starts[slices.start as usize..=slices.end as usize];
        head.slices = slices.len() as u32;
        for pair in starts.windows(2) {
            self.own.extend_from_slice(&(pair[1] - pair[0]).to_le_bytes());
        }
        &routing.order[starts[0] as usize..starts[starts.len() - 1] as usize]
    }

    fn copy_rows(&mut self, rows: &Rows, taken: RowOrder<'_>) {
        let Some(order) = taken else {
            self.own.extend_from_slice(rows.offsets().as_bytes());
            self.own.extend_from_slice(rows.values());
            return;
        };
        let mut end = 0_i32;
        self.own.extend_from_slice(&end.to_le_bytes());
        for row in order {
            end += rows.get(*row as usize).len() as i32;
            self.own.extend_from_slice(&end.to_le_bytes());
        }
        for row in order {
            self.own.extend_from_slice(rows.get(*row as usize));
        }
    }

    fn copy_batch(
        &mut self,
        batch: &RecordBatch,
        taken: RowOrder<'_>,
    ) -> Result<(), arrow_schema::ArrowError> {
        let mine = match taken {
            Some(order) => &take_record_batch(batch, &UInt32Array::from(order.to_vec()))?,
            None => batch,
        };
        let mut writer = StreamWriter::try_new(&mut self.own, &mine.schema())?;
        writer.write(mine)?;
        writer.finish()
    }

    /// Compresses the body that begins at `start`, if that is worth it.
    fn pack(&mut self, head: &mut FrameHead, start: usize) -> std::io::Result<()> {
        if self.compressor.is_off() {
            return Ok(());
        }
        let body = &self.own[start + HEAD_BYTES..];
        head.plain = small(body.len())?;
        if let Some(packed) = self.compressor.compress(body) {
            head.packed = true;
            self.own.truncate(start + HEAD_BYTES);
            self.own.extend_from_slice(packed);
        }
        Ok(())
    }

    /// Leaves room for a head. Gives back where it goes.
    fn begin(&mut self) -> usize {
        let start = self.own.len();
        self.own.resize(start + HEAD_BYTES, 0);
        start
    }

    /// Writes the head of a body that is all behind it.
    fn finish(&mut self, mut head: FrameHead, start: usize) -> std::io::Result<()> {
        let body = &self.own[start + HEAD_BYTES..];
        head.body = small(body.len())?;
        if !head.packed {
            head.plain = head.body;
        }
        head.body_crc = (!self.is_within_machine).then(|| checksum(&[body]));
        self.own[start..start + HEAD_BYTES].copy_from_slice(&head.encode());
        Ok(())
    }

    /// Writes the head of a body whose byte records stay where they are.
    fn refer(
        &mut self,
        mut head: FrameHead,
        start: usize,
        number: usize,
        rows: &Rows,
    ) -> std::io::Result<()> {
        let body = [&self.own[start + HEAD_BYTES..], rows.offsets().as_bytes(), rows.values()];
        head.body = small(body.iter().map(|piece| piece.len()).sum())?;
        head.plain = head.body;
        head.body_crc = (!self.is_within_machine).then(|| checksum(&body));
        self.own[start..start + HEAD_BYTES].copy_from_slice(&head.encode());
        self.end_piece();
        self.pieces.extend([IoPiece::Offsets(number), IoPiece::Values(number)]);
        self.referred += rows.bytes();
        Ok(())
    }

    /// Ends a piece with the bytes written to `own` since the piece before.
    fn end_piece(&mut self) {
        if self.from < self.own.len() {
            self.pieces.push(IoPiece::Own(self.from..self.own.len()));
            self.from = self.own.len();
        }
    }

    /// Writes all pieces with as few calls as the socket allows.
    fn send(&mut self, frames: &[Outgoing]) -> std::io::Result<()> {
        let mut slices = [IoSlice::new(&[]); CALL_PIECES];
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(match piece {
                IoPiece::Own(range) => &self.own[range.clone()],
                IoPiece::Offsets(number) => rows_of(&frames[*number]).offsets().as_bytes(),
                IoPiece::Values(number) => rows_of(&frames[*number]).values(),
            });
        }
        let mut rest = &mut slices[..self.pieces.len()];
        while !rest.is_empty() {
            match self.out.write_vectored(rest) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The byte records of a frame that are sent from where they are.
fn rows_of(frame: &Outgoing) -> &Rows {
    match frame {
        Outgoing::Block { block, .. } => match &block.payload {
            Payload::Rows(rows) => rows,
            Payload::Arrow(_) => unreachable!("only byte records are referred to"),
        },
        _ => unreachable!("only blocks are referred to"),
    }
}
