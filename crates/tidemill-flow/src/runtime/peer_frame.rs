//! Blocks and ends of cycles as frames on a socket.

use super::inbox::CycleEnd;
use super::job::Job;
use super::peer::{Address, Outgoing};
use crate::block::{Block, Payload, Routing};
use crate::partition::{Partition, hash_bytes, hash_columns};
use crate::rows::{Rows, RowsPool};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_select::take::take_record_batch;
use std::{
    io::{BufReader, BufWriter, IoSlice, Read, Write},
    sync::Arc,
};
use tidemill_types::{Micros, SliceId, job::CompressionSpec};
use tidemill_wire::{
    compression::{Compressor, decompress},
    link::{FrameHead, FrameKind, HEAD_BYTES, PayloadKind, checksum},
};
use zerocopy::IntoBytes;

/// What came from a peer.
pub(crate) enum Incoming {
    Block { address: Address, block: Block, share: u64 },
    End { address: Address, end: CycleEnd },
    Credit { link: usize, bytes: u64 },
    Bye,
}

/// What is smaller goes through a buffer, so that a call of the system serves several frames.
const BUFFER_BYTES: usize = 32 << 10;

/// Writes frames.
pub(crate) struct FrameWriter {
    out: BufWriter<Box<dyn Write + Send>>,
    compressor: Compressor,
    counts: Vec<u32>,
    scratch: Vec<u8>,
    /// A body in one piece, to be compressed.
    whole: Vec<u8>,
}

/// Reads frames.
pub(crate) struct FrameReader {
    from: BufReader<Box<dyn Read + Send>>,
    pool: Arc<RowsPool>,
    counts: Vec<u32>,
    body: Vec<u8>,
    plain: Vec<u8>,
}

fn head_for(kind: FrameKind, address: Address) -> FrameHead {
    FrameHead {
        link: address.link,
        lane: address.lane,
        input: address.input,
        layout: address.layout,
        ..FrameHead::bare(kind)
    }
}

fn small(length: usize) -> std::io::Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|it| *it as usize <= tidemill_types::limits::FRAME_BYTES_MAX)
        .ok_or_else(|| std::io::Error::other(format!("a block of {length} bytes is too large")))
}

impl FrameWriter {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        let compressor = Compressor::new(CompressionSpec::Off);
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        Self { out, compressor, counts: Vec::new(), scratch: Vec::new(), whole: Vec::new() }
    }

    pub(crate) fn compress(&mut self, policy: CompressionSpec) {
        self.compressor = Compressor::new(policy);
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// The socket's, or a block over the limit of a frame.
    pub(crate) fn write(&mut self, frame: &Outgoing) -> std::io::Result<()> {
        match frame {
            Outgoing::Block { address, cycle, block, share, lane } => {
                let mut head = head_for(FrameKind::Block, *address);
                (head.cycle, head.share) = (*cycle, *share);
                self.write_block(head, block, lane.slices.clone())
            }
            Outgoing::End { address, end } => {
                let mut head = head_for(FrameKind::End, *address);
                head.cycle = end.cycle;
                let mut body = [0; 17];
                body[..8].copy_from_slice(&end.time.0.to_le_bytes());
                body[8..16].copy_from_slice(&end.watermark.0.to_le_bytes());
                body[16] = u8::from(end.ended);
                self.send(head, &[&body])
            }
            Outgoing::Credit { link, bytes } => {
                let head = FrameHead { link: *link as u32, ..FrameHead::bare(FrameKind::Credit) };
                self.send(FrameHead { share: *bytes, ..head }, &[])
            }
            Outgoing::Bye => self.send(FrameHead::bare(FrameKind::Bye), &[]),
        }
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    fn write_block(
        &mut self,
        mut head: FrameHead,
        block: &Block,
        slices: std::ops::Range<u32>,
    ) -> std::io::Result<()> {
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        let taken = block.routing.as_ref().map(|routing| {
            let starts = &routing.starts[slices.start as usize..=slices.end as usize];
            counts.extend(starts.windows(2).map(|pair| pair[1] - pair[0]));
            &routing.order[starts[0] as usize..starts[starts.len() - 1] as usize]
        });
        head.slices = counts.len() as u32;
        if block.routing.is_none() {
            // Which slice the whole block belongs to: a slice of the reading node, or every one.
            counts.push(block.slice.0);
        }
        let written = match (&block.payload, taken) {
            (Payload::Rows(rows), None) => self.write_rows(head, &counts, rows),
            (Payload::Rows(rows), Some(order)) => {
                let mut mine = Rows::default();
                order.iter().for_each(|row| mine.push(rows.get(*row as usize)));
                self.write_rows(head, &counts, &mine)
            }
            (Payload::Arrow(batch), None) => self.write_batch(head, &counts, batch),
            (Payload::Arrow(batch), Some(order)) => {
                let order = UInt32Array::from(order.to_vec());
                let mine = take_record_batch(batch, &order).map_err(std::io::Error::other)?;
                self.write_batch(head, &counts, &mine)
            }
        };
        self.counts = counts;
        written
    }

    fn write_rows(
        &mut self,
        mut head: FrameHead,
        counts: &[u32],
        rows: &Rows,
    ) -> std::io::Result<()> {
        head.rows = small(rows.len())?;
        head.payload = PayloadKind::Rows;
        self.send(head, &[counts.as_bytes(), rows.offsets().as_bytes(), rows.values()])
    }

    fn write_batch(
        &mut self,
        mut head: FrameHead,
        counts: &[u32],
        batch: &RecordBatch,
    ) -> std::io::Result<()> {
        head.rows = small(batch.num_rows())?;
        head.payload = PayloadKind::Arrow;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let written = (|| {
            let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema())?;
            writer.write(batch)?;
            writer.finish()
        })();
        written.map_err(std::io::Error::other)?;
        let sent = self.send(head, &[counts.as_bytes(), &bytes]);
        self.scratch = bytes;
        sent
    }

    fn send(&mut self, mut head: FrameHead, pieces: &[&[u8]]) -> std::io::Result<()> {
        let plain: usize = pieces.iter().map(|piece| piece.len()).sum();
        head.plain = small(plain)?;
        if head.kind == FrameKind::Block && !self.compressor.is_off() {
            self.whole.clear();
            pieces.iter().for_each(|piece| self.whole.extend_from_slice(piece));
            if let Some(packed) = self.compressor.compress(&self.whole) {
                head.packed = true;
                head.body = small(packed.len())?;
                head.body_crc = checksum(&[packed]);
                return write_all(&mut self.out, &head.encode(), &[packed]);
            }
        }
        head.body = head.plain;
        head.body_crc = checksum(pieces);
        write_all(&mut self.out, &head.encode(), pieces)
    }
}

/// Pieces of a body, at most.
const PIECES_MAX: usize = 3;

/// Writes head and pieces with as few calls as the socket allows.
fn write_all(out: &mut dyn Write, head: &[u8], pieces: &[&[u8]]) -> std::io::Result<()> {
    assert!(pieces.len() <= PIECES_MAX, "no body is in more pieces");
    let mut slices = [IoSlice::new(&[]); PIECES_MAX + 1];
    slices[0] = IoSlice::new(head);
    let pieces = pieces.iter().filter(|piece| !piece.is_empty());
    let mut count = 1;
    for (slice, piece) in slices[1..].iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
        count += 1;
    }
    let mut rest = &mut slices[..count];
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl FrameReader {
    pub(crate) fn new(from: Box<dyn Read + Send>) -> Self {
        let from = BufReader::with_capacity(BUFFER_BYTES, from);
        Self {
            from,
            pool: RowsPool::new(256),
            counts: Vec::new(),
            body: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// The connection ended, or what came is not a frame for this job.
    pub(crate) fn read(&mut self, job: &Job) -> Result<Incoming, String> {
        let mut head = [0; HEAD_BYTES];
        self.from
            .read_exact(&mut head)
            .map_err(|error| format!("the connection ended: {error}"))?;
        let head = FrameHead::decode(&head).map_err(|error| error.to_string())?;
        let address =
            Address { link: head.link, lane: head.lane, input: head.input, layout: head.layout };
        match head.kind {
            FrameKind::Hello => Err("a second hello".to_owned()),
            FrameKind::Bye => Ok(Incoming::Bye),
            FrameKind::Credit => {
                Ok(Incoming::Credit { link: head.link as usize, bytes: head.share })
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
        self.from.read_exact(target).map_err(|error| format!("a frame was cut off: {error}"))?;
        if checksum(&[target]) != head.body_crc {
            return Err("the body of a frame is damaged".to_owned());
        }
        if head.packed {
            decompress(&self.body, head.plain as usize, &mut self.plain)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn read_block(&mut self, job: &Job, head: &FrameHead) -> Result<Block, String> {
        let link = job.plan.links.get(head.link as usize);
        let link = link.ok_or_else(|| format!("there is no link {}", head.link))?;
        let slices = job.plan.nodes[link.to].slices;
        if head.slices > slices {
            return Err(format!("a block is sorted by {} of {slices} slices", head.slices));
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
        routed(job, head, (&self.counts, payload), &link.partition)
    }

    /// Reads counts, and byte records straight into pooled memory.
    fn read_rows(&mut self, head: &FrameHead, counts_bytes: usize) -> Result<Payload, String> {
        let cut_off = |error: std::io::Error| format!("a frame was cut off: {error}");
        self.counts.resize(counts_bytes / 4, 0);
        let offsets_bytes = (head.rows as usize + 1) * 4;
        let values_bytes = (head.body as usize)
            .checked_sub(counts_bytes + offsets_bytes)
            .ok_or("a block is short")?;
        let mut rows = self.pool.take_as_it_is();
        let (offsets, values) = rows.parts_mut();
        offsets.resize(head.rows as usize + 1, 0);
        values.resize(values_bytes, 0);
        self.from.read_exact(self.counts.as_mut_bytes()).map_err(cut_off)?;
        self.from.read_exact(offsets.as_mut_bytes()).map_err(cut_off)?;
        self.from.read_exact(values).map_err(cut_off)?;
        if checksum(&[self.counts.as_bytes(), offsets.as_bytes(), values]) != head.body_crc {
            return Err("the body of a frame is damaged".to_owned());
        }
        if !rows.checked() {
            return Err("the offsets of a block make no sense".to_owned());
        }
        Ok(Payload::Rows(rows))
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

fn batch_from(bytes: &[u8]) -> Result<RecordBatch, String> {
    let not_arrow = |error| format!("a block is not an Arrow stream: {error}");
    let mut reader = StreamReader::try_new(bytes, None).map_err(not_arrow)?;
    let batch = reader.next().ok_or("a block without a batch")?;
    batch.map_err(not_arrow)
}

/// Puts a block together: rows came sorted by slice, with the count of each.
fn routed(
    job: &Job,
    head: &FrameHead,
    (counts, payload): (&[u32], Payload),
    partition: &Partition,
) -> Result<Block, String> {
    let rows = super::plan::rows_of(&payload);
    if head.slices == 0 {
        return Ok(Block::whole(payload, SliceId(counts[0])));
    }
    if counts.iter().map(|count| u64::from(*count)).sum::<u64>() != rows {
        return Err("the counts of a block make no sense".to_owned());
    }
    let link = &job.plan.links[head.link as usize];
    let layouts = job.layouts.read().expect("no panic while held");
    let layout = layouts.iter().find(|layout| layout.version == u64::from(head.layout));
    let lane = layout.and_then(|layout| layout.lanes[link.to].get(head.lane as usize));
    let lane = lane.filter(|lane| lane.slices.len() == counts.len());
    let lane = lane.ok_or("a block for a lane that is not here")?;
    let mut starts = vec![0_u32; job.plan.nodes[link.to].slices as usize + 1];
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
