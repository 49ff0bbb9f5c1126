//! Records and sealed frames over a connection's reader and writer.
//!
//! Invariant: memory for a body grows with the bytes that came, not with the length that was stated.

use crate::{
    ClusterPortMetrics,
    cipher::{FrameDamage, FrameOpener, FrameSealer, SEAL_BYTES, SEALED_HEAD_BYTES},
    deadline::Deadline,
    handshake::ReceivedRecord,
    outbox::OpenFrame,
};
use std::{
    io::{self, BufReader, IoSlice, Read, Write},
    sync::Arc,
};
use tidemill_wire::cluster::{
    ClusterDecodeError, ClusterFrameHead, HandshakeHead, RECORD_HEAD_BYTES,
};

/// Bytes that are read ahead.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Bytes that the memory of a body begins with.
const BODY_STEP_BYTES: usize = 1 << 20;
/// Bodies up to this are copied behind their head; longer ones are written from where they are.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// The reader of a connection.
pub(crate) type WireReader = BufReader<Box<dyn Read + Send>>;
/// The writer of a connection.
pub(crate) type WireWriter = Box<dyn Write + Send>;

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Record(#[from] ClusterDecodeError),
    #[error("{0}")]
    Frame(#[from] FrameDamage),
}

/// A reader with room to read ahead.
pub(crate) fn buffered(reader: Box<dyn Read + Send>) -> WireReader {
    BufReader::with_capacity(READ_AHEAD_BYTES, reader)
}

/// Reads one record of the handshake. The time limit is that of the whole handshake.
pub(crate) fn read_record(reader: &mut WireReader) -> Result<ReceivedRecord, TransportError> {
    let mut head = [0; RECORD_HEAD_BYTES];
    reader.read_exact(&mut head)?;
    let HandshakeHead { kind, body_bytes } = HandshakeHead::decode(&head)?;
    let mut bytes = head.to_vec();
    bytes.resize(RECORD_HEAD_BYTES + body_bytes, 0);
    reader.read_exact(&mut bytes[RECORD_HEAD_BYTES..])?;
    Ok(ReceivedRecord { kind, bytes })
}

/// Reads sealed frames.
pub(crate) struct SealedReader {
    reader: WireReader,
    opener: FrameOpener,
    body_bytes_max: u32,
    silence_us: u64,
    metrics: Arc<ClusterPortMetrics>,
}

impl SealedReader {
    pub(crate) fn new(
        reader: WireReader,
        opener: FrameOpener,
        body_bytes_max: u32,
        silence_us: u64,
        metrics: Arc<ClusterPortMetrics>,
    ) -> Self {
        Self { reader, opener, body_bytes_max, silence_us, metrics }
    }

    /// The next frame. A silence that is too long ends the connection; a frame that is long to come
    /// does not, as long as bytes come.
    pub(crate) fn read(&mut self, deadline: &Deadline) -> Result<OpenFrame, TransportError> {
        let read = self.read_frame(deadline);
        deadline.disarm();
        match &read {
            Ok((_, body)) => {
                self.metrics.frames_in.increment();
                let seal = if body.is_empty() { 0 } else { SEAL_BYTES };
                self.metrics.bytes_in.add((SEALED_HEAD_BYTES + body.len() + seal) as u64);
            }
            Err(TransportError::Io(_)) => {}
            Err(TransportError::Record(_) | TransportError::Frame(_)) => {
                self.metrics.damaged_frames.increment();
            }
        }
        read
    }

    fn read_frame(&mut self, deadline: &Deadline) -> Result<OpenFrame, TransportError> {
        let mut sealed = [0; SEALED_HEAD_BYTES];
        self.fill(&mut sealed, deadline)?;
        let head = self.opener.open_head(&sealed)?;
        if head.body_bytes > self.body_bytes_max {
            let (bytes, bytes_max) = (head.body_bytes, self.body_bytes_max);
            return Err(FrameDamage::TooLarge { bytes, bytes_max }.into());
        }
        let mut body = Vec::new();
        let wanted = head.body_bytes as usize;
        while body.len() < wanted {
            let start = body.len();
            // Doubled, so that a long body is moved a few times at most.
            let end = wanted.min((2 * start).max(BODY_STEP_BYTES));
            body.reserve_exact(end - start);
            body.resize(end, 0);
            self.fill(&mut body[start..], deadline)?;
        }
        if wanted > 0 {
            let mut tag = [0; SEAL_BYTES];
            self.fill(&mut tag, deadline)?;
            self.opener.open_body(&mut body, &tag)?;
        }
        Ok((head, body))
    }

    fn fill(&mut self, into: &mut [u8], deadline: &Deadline) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            deadline.arm(self.silence_us);
            match self.reader.read(&mut into[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes sealed frames.
pub(crate) struct SealedWriter {
    writer: WireWriter,
    sealer: FrameSealer,
    write_us: u64,
    /// Sealed bytes that are not written yet.
    buffer: Vec<u8>,
    metrics: Arc<ClusterPortMetrics>,
}

impl SealedWriter {
    pub(crate) fn new(
        writer: WireWriter,
        sealer: FrameSealer,
        write_us: u64,
        metrics: Arc<ClusterPortMetrics>,
    ) -> Self {
        Self { writer, sealer, write_us, buffer: Vec::new(), metrics }
    }

    /// Seals and writes frames. A long body is sealed in its place and never copied.
    pub(crate) fn write(&mut self, frames: Vec<OpenFrame>, deadline: &Deadline) -> io::Result<()> {
        let result = frames.into_iter().try_for_each(|frame| self.add(frame, deadline));
        let result = result.and_then(|()| self.flush(&[], deadline));
        deadline.disarm();
        result
    }

    fn add(&mut self, frame: OpenFrame, deadline: &Deadline) -> io::Result<()> {
        let (head, mut body): (ClusterFrameHead, Vec<u8>) = frame;
        let (sealed, tag) = self.sealer.seal(&head, &mut body);
        let tag = tag.as_ref().map_or(&[][..], |it| &it[..]);
        self.metrics.frames_out.increment();
        self.metrics.bytes_out.add((sealed.len() + body.len() + tag.len()) as u64);
        self.buffer.extend_from_slice(&sealed);
        if body.len() > COPIED_BYTES_MAX {
            return self.flush(&[&body, tag], deadline);
        }
        self.buffer.extend_from_slice(&body);
        self.buffer.extend_from_slice(tag);
        if self.buffer.len() > READ_AHEAD_BYTES { self.flush(&[], deadline) } else { Ok(()) }
    }

    /// Writes what was gathered, and these parts after it.
    fn flush(&mut self, parts: &[&[u8]], deadline: &Deadline) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.buffer);
        let mut slices = vec![IoSlice::new(&gathered)];
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            deadline.arm(self.write_us);
            match self.writer.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer = gathered;
        self.buffer.clear();
        self.writer.flush()
    }
}
