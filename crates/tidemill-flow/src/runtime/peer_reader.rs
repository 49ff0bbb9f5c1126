//! Blocks and ends of cycles from a socket.

use super::inbox::CycleEnd;
use super::job::Job;
use super::lane::Lane;
use super::peer::Address;
use crate::block::{Block, Payload, Routing};
use crate::partition::{Partition, hash_bytes, hash_columns};
use crate::rows::{Rows, RowsPool};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use std::{
    io::{self, IoSliceMut, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_types::{
    LaneIx, LayoutVersion, LinkIx, Micros, SliceId, StageIx, limits::FRAME_BYTES_MAX,
};
use tidemill_wire::{
    arrow::refuse_compressed_stream,
    compression::decompress,
    link::{FrameHead, FrameKind, HEAD_BYTES, PayloadKind, checksum},
};
use zerocopy::IntoBytes;

#[cfg(test)]
mod tests;

/// A frame from a peer.
pub(crate) enum Incoming {
    Block { address: Address, block: Block, share: u64 },
    End { address: Address, end: CycleEnd },
    Credit { link: LinkIx, bytes: u64 },
    Bye,
}

/// Bytes that are read ahead at most: a call of the system serves several small frames.
const AHEAD_BYTES: usize = 32 << 10;

/// The same around long pieces, where only heads are worth it: bytes read ahead of one are copied
/// once more.
const AHEAD_OF_LONG_BYTES: usize = 4 << 10;

/// Reads whole pieces from a socket, and the bytes behind them in the same call.
struct ReadAhead {
    from: Box<dyn Read + Send>,
    /// The bytes read ahead: `bytes[start..end]`.
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// The most bytes to read ahead; it grows while they are all used.
    most: usize,
}

impl ReadAhead {
    fn new(from: Box<dyn Read + Send>) -> Self {
        Self { from, bytes: vec![0; AHEAD_BYTES].into(), start: 0, end: 0, most: AHEAD_BYTES }
    }

    /// Fills all of `target`.
    ///
    /// # Errors
    /// The socket's, or the connection ends before.
    fn fill(&mut self, mut target: &mut [u8]) -> io::Result<()> {
        let here = (self.end - self.start).min(target.len());
        target[..here].copy_from_slice(&self.bytes[self.start..self.start + here]);
        self.start += here;
        target = &mut target[here..];
        while !target.is_empty() {
            let wanted = target.len();
            if wanted >= AHEAD_BYTES {
                self.most = AHEAD_OF_LONG_BYTES;
            }
            let ahead = &mut self.bytes[..self.most];
            let mut pieces = [IoSliceMut::new(target), IoSliceMut::new(ahead)];
            match self.from.read_vectored(&mut pieces) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    (self.start, self.end) = (0, read.saturating_sub(wanted));
                    if self.end == self.most {
                        self.most = (self.most * 2).min(AHEAD_BYTES);
                    }
                    target = &mut target[read.min(wanted)..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads frames.
pub(crate) struct FrameReader {
    from: ReadAhead,
    pool: Arc<RowsPool>,
    counts: Vec<u32>,
    body: Vec<u8>,
    plain: Vec<u8>,
}

impl FrameReader {
    pub(crate) fn new(from: Box<dyn Read + Send>) -> Self {
        Self {
            from: ReadAhead::new(from),
            pool: RowsPool::restless(256),
            counts: Vec::new(),
            body: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// The connection ended, or the bytes are no frame for this job.
    pub(crate) fn read(&mut self, job: &Job) -> Result<Incoming, String> {
        let mut head = [0; HEAD_BYTES];
        self.from.fill(&mut head).map_err(|error| format!("the connection ended: {error}"))?;
        let head = FrameHead::decode(&head).map_err(|error| error.to_string())?;
        let address = Address {
            link: LinkIx(head.link),
            lane: LaneIx(head.lane),
            input: head.input,
            layout: LayoutVersion(head.layout),
        };
        match head.kind {
            FrameKind::Hello => Err("a second hello".to_owned()),
            FrameKind::Bye => Ok(Incoming::Bye),
            FrameKind::Credit => {
                Ok(Incoming::Credit { link: LinkIx(head.link), bytes: head.share })
            }
            FrameKind::End => {
                self.read_body(&head)?;
                Ok(Incoming::End { address, end: end_of(&head, &self.plain)? })
            }
            FrameKind::Block => {
                let block = self.read_block(job, &head)?;
                Ok(Incoming::Block { address, block, share: head.share })
            }
        }
    }

    /// Reads the body into `plain`, unpacked and checked.
    fn read_body(&mut self, head: &FrameHead) -> Result<(), String> {
        let target = if head.packed { &mut self.body } else { &mut self.plain };
        target.resize(head.body as usize, 0);
        self.from.fill(target).map_err(|error| format!("a frame was cut off: {error}"))?;
        check(head, &[target])?;
        if head.packed {
            decompress(&self.body, head.plain as usize, &mut self.plain)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn read_block(&mut self, job: &Job, head: &FrameHead) -> Result<Block, String> {
        let link = job.plan.links.get(head.link as usize);
        let link = link.ok_or_else(|| format!("there is no link {}", head.link))?;
        if head.rows as usize > FRAME_BYTES_MAX {
            return Err(format!("a block of {} rows is too large", head.rows));
        }
        let lane = lane_of(job, head, link.to).ok_or("a block for a lane that is not here")?;
        let slices = job.plan[link.to].slices;
        let is_routed = link.partition.whole(SliceId(0), slices).is_none();
        let sorted_by = if is_routed { lane.slices.len() } else { 0 };
        if head.slices as usize != sorted_by {
            return Err(format!("a block is sorted by {} of {sorted_by} slices", head.slices));
        }
        let counts = head.slices.max(1) as usize * 4;
        let is_rows = head.payload == PayloadKind::Rows;
        let payload = if is_rows && !head.packed {
            self.read_rows(head, counts)?
        } else {
            self.read_body(head)?;
            let (counts, rest) = self.plain.split_at_checked(counts).ok_or("a block is short")?;
            self.counts.clear();
            self.counts.extend(numbers(counts));
            if is_rows {
                Payload::Rows(rows_from(&self.pool, head.rows as usize, rest)?)
            } else {
                Payload::Arrow(batch_from(rest)?)
            }
        };
        // Columns of nulls take no bytes, however many rows they claim: rows are bounded by the head.
        let rows = super::plan::rows_of(&payload);
        if rows != u64::from(head.rows) {
            return Err(format!("a block has {rows} rows and says {}", head.rows));
        }
        if is_routed {
            return routed(slices, &lane, (&self.counts, payload), &link.partition);
        }
        let slice = SliceId(self.counts[0]);
        match link.partition == Partition::All {
            true if slice == Block::EVERY => {}
            false if lane.slices.contains(&slice.0) => {}
            _ => return Err(format!("a block for slice {slice} of another lane")),
        }
        Ok(Block::whole(payload, slice))
    }

    /// Reads counts, and byte records straight into pooled memory.
    fn read_rows(&mut self, head: &FrameHead, counts_bytes: usize) -> Result<Payload, String> {
        let cut_off = |error: io::Error| format!("a frame was cut off: {error}");
        self.counts.resize(counts_bytes / 4, 0);
        let offsets_bytes = (head.rows as usize + 1) * 4;
        let values_bytes = (head.body as usize)
            .checked_sub(counts_bytes + offsets_bytes)
            .ok_or("a block is short")?;
        let mut rows = self.pool.take_as_it_is();
        let (offsets, values) = rows.parts_mut();
        offsets.resize(head.rows as usize + 1, 0);
        values.resize(values_bytes, 0);
        self.from.fill(self.counts.as_mut_bytes()).map_err(cut_off)?;
        self.from.fill(offsets.as_mut_bytes()).map_err(cut_off)?;
        self.from.fill(values).map_err(cut_off)?;
        check(head, &[self.counts.as_bytes(), offsets.as_bytes(), values])?;
        if !rows.checked() {
            return Err("the offsets of a block make no sense".to_owned());
        }
        Ok(Payload::Rows(rows))
    }
}

/// Checks the body of a frame. The sender decides if it has a checksum: behind a proxy the two ends
/// may disagree on the path between them.
fn check(head: &FrameHead, body: &[&[u8]]) -> Result<(), String> {
    match head.body_crc {
        Some(crc) if crc != checksum(body) => Err("the body of a frame is damaged".to_owned()),
        _ => Ok(()),
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
}

fn end_of(head: &FrameHead, body: &[u8]) -> Result<CycleEnd, String> {
    let body: &[u8; 17] = body.try_into().map_err(|_| "an end of a cycle has another length")?;
    let (time, rest) = body.split_first_chunk().ok_or("unreachable: 17 bytes")?;
    let (watermark, ended) = rest.split_first_chunk().ok_or("unreachable: 9 bytes")?;
    Ok(CycleEnd {
        cycle: head.cycle,
        time: Micros(i64::from_le_bytes(*time)),
        watermark: Micros(i64::from_le_bytes(*watermark)),
        ended: ended != [0],
    })
}

fn rows_from(pool: &Arc<RowsPool>, count: usize, bytes: &[u8]) -> Result<Rows, String> {
    let (offsets, values) = bytes.split_at_checked((count + 1) * 4).ok_or("a block is short")?;
    let mut rows = pool.take();
    let (row_offsets, row_values) = rows.parts_mut();
    row_offsets.clear();
    row_offsets.extend(numbers(offsets).map(|it| it as i32));
    row_values.extend_from_slice(values);
    if rows.checked() { Ok(rows) } else { Err("the offsets of a block make no sense".to_owned()) }
}

/// The batch of an Arrow stream. Claimed lengths reserve no memory: its columns stay in one copy of
/// the bytes. The Arrow reader trusts offsets in places, so its panic is an error too.
fn batch_from(bytes: &[u8]) -> Result<RecordBatch, String> {
    let not_arrow = |error| format!("a block is not an Arrow stream: {error}");
    let read = || {
        let (mut decoder, mut rest) = (StreamDecoder::new(), Buffer::from(bytes));
        refuse_compressed_stream(&rest).map_err(|why| format!("a block is refused: {why}"))?;
        while !rest.is_empty() {
            if let Some(batch) = decoder.decode(&mut rest).map_err(not_arrow)? {
                return Ok(batch);
            }
        }
        Err("a block without a batch".to_owned())
    };
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err("an Arrow stream whose parts contradict each other".to_owned()))
}

/// The lane that a block is for, if it is here.
fn lane_of(job: &Job, head: &FrameHead, stage: StageIx) -> Option<Arc<Lane>> {
    let layouts = job.layouts.read().expect("no panic while held");
    let layout = layouts.iter().find(|layout| layout.version.0 == head.layout)?;
    layout.lanes_of(stage).get(head.lane as usize).map(Arc::clone)
}

/// Puts a block together: rows came sorted by slice, with the count of each.
fn routed(
    slices: u32,
    lane: &Lane,
    (counts, payload): (&[u32], Payload),
    partition: &Partition,
) -> Result<Block, String> {
    let rows = super::plan::rows_of(&payload);
    if counts.iter().map(|count| u64::from(*count)).sum::<u64>() != rows {
        return Err("the counts of a block make no sense".to_owned());
    }
    let mut starts = vec![0_u32; slices as usize + 1];
    for slice in 0..starts.len() - 1 {
        let mine = (slice as u32).checked_sub(lane.slices.start);
        let count = mine.and_then(|index| counts.get(index as usize)).copied().unwrap_or(0);
        starts[slice + 1] = starts[slice] + count;
    }
    let hashes = match (partition, &payload) {
        (Partition::Key(columns), Payload::Arrow(batch)) => {
            if columns.iter().any(|column| *column >= batch.num_columns()) {
                return Err("a block has fewer columns than its key".to_owned());
            }
            hash_columns(batch, columns).map_err(|error| error.to_string())?
        }
        (Partition::Key(_), Payload::Rows(rows)) => rows.iter().map(hash_bytes).collect(),
        _ => Vec::new(),
    };
    let order = (0..rows as u32).collect();
    let routing = Some(Routing { order, starts, hashes });
    Ok(Block { payload, routing, slice: SliceId(0) })
}
