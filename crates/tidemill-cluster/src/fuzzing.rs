//! Any bytes as a stranger's handshake, and any changes of frames on their way.

use crate::{
    ClusterKey, ClusterPortMetrics, Identity,
    cipher::{FrameOpener, FrameSealer},
    deadline::Deadline,
    handshake::{CallerHandshake, PortHandshake, ReceivedRecord},
    key::{ConnectionSide, transcript},
    transport::{SealedReader, SealedWriter, WireReader, buffered, read_record},
};
use std::{
    io::{self, Cursor, Write},
    sync::Arc,
};
use tidemill_env::{World, lock::Mutex};
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::{ClusterFrame, ClusterFrameHead, NONCE_BYTES};

#[cfg(test)]
mod tests;

/// Largest body of a frame here, in bytes.
const BODY_BYTES_MAX: u32 = 1 << 16;

fn key() -> ClusterKey {
    ClusterKey::parse(b"correct horse battery staple").expect("it is a key")
}

fn identity(node: i32) -> Identity {
    Identity {
        cluster: "tide-pool".parse().expect("it is an id"),
        node: NodeId(node),
        incarnation: Incarnation(node.unsigned_abs()),
        version: "0.1.0".to_owned(),
    }
}

fn reader(bytes: &[u8]) -> WireReader {
    buffered(Box::new(Cursor::new(bytes.to_vec())))
}

/// The bytes as all that the other side sends, once to a port and once to a caller.
///
/// # Panics
/// A side takes a stranger for a node, or gives a stranger a proof.
pub fn handshake(bytes: &[u8]) {
    let mut from = reader(bytes);
    if let Ok(hello) = read_record(&mut from)
        && let Ok((port, answer)) = PortHandshake::on_hello(identity(2), [2; NONCE_BYTES], &hello)
    {
        assert!(!answer.is_empty());
        if let Ok(proof) = read_record(&mut from) {
            let judged = port.on_proof(&key(), &proof, |_, _| Ok(()));
            let refusal = judged.expect_err("the stranger does not have the key");
            let bytes = refusal.record.unwrap_or_default();
            assert!(bytes.len() < 600, "a refusal is short");
        }
    }
    let mut from = reader(bytes);
    let (mut caller, _) = CallerHandshake::begin(identity(1), NodeId(2), [1; NONCE_BYTES]);
    if let Ok(hello) = read_record(&mut from)
        && caller.on_hello(&key(), &hello).is_ok()
        && let Ok(verdict) = read_record(&mut from)
    {
        let outcome = caller.on_verdict(&key(), &verdict);
        assert!(outcome.is_err(), "the stranger does not have the key");
    }
}

/// A writer into memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes as a script: frames that are sent, and what is done to them on their way. Returns the
/// number of frames that were sent and that arrived.
///
/// # Panics
/// Panics if the receiver reads other bytes than a prefix of those that were sent.
pub fn frames(script: &[u8]) -> (usize, usize) {
    let secret = key().connection(&transcript(b"caller", b"port"));
    let clock = World::simulated(1).world.clock;
    let deadline = Deadline::new(clock);
    let metrics = Arc::new(ClusterPortMetrics::default());
    let memory = Memory::default();
    let sealer = FrameSealer::new(&secret, ConnectionSide::Caller);
    let mut writer = SealedWriter::new(Box::new(memory.clone()), sealer, 1, Arc::clone(&metrics));
    let (mut sent, mut wire) = (Vec::new(), Vec::<u8>::new());
    let (mut pieces, _) = script.as_chunks::<4>();
    // The first pieces up to a zero are frames by their length, the rest are changes.
    while let Some(([kind, low, high, fill], rest)) = pieces.split_first()
        && *kind > 0
    {
        let body = vec![*fill; usize::from(u16::from_le_bytes([*low, *high]))];
        let head = ClusterFrameHead {
            kind: u16::from(*kind),
            correlation: sent.len() as u64,
            body_bytes: body.len() as u32,
            ..ClusterFrameHead::bare(ClusterFrame::Request, Incarnation(3))
        };
        sent.push((head, body.clone()));
        writer.write(vec![(head, body)], &deadline).expect("memory takes all");
        pieces = rest;
    }
    wire.extend(memory.bytes());
    for [change, low, high, value] in pieces.iter().skip(1) {
        let place = usize::from(u16::from_le_bytes([*low, *high]));
        let at = if wire.is_empty() { 0 } else { place % wire.len() };
        match change % 5 {
            0 if !wire.is_empty() => wire[at] ^= value,
            1 => wire.truncate(at),
            2 => drop(wire.drain(..at)),
            3 => wire.extend_from_within(at..),
            _ => wire.insert(at, *value),
        }
    }
    let opener = FrameOpener::new(&secret, ConnectionSide::Caller);
    let mut reader = SealedReader::new(reader(&wire), opener, BODY_BYTES_MAX, 1, metrics);
    let mut arrived = 0;
    while let Ok(frame) = reader.read(&deadline) {
        assert_eq!(Some(&frame), sent.get(arrived), "frame {arrived}");
        arrived += 1;
    }
    (sent.len(), arrived)
}

/// Good inputs to begin with, for both doors.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let nonces = ([1; NONCE_BYTES], [2; NONCE_BYTES]);
    let (mut caller, hello) = CallerHandshake::begin(identity(1), NodeId(2), nonces.0);
    let received = |bytes: &[u8]| -> ReceivedRecord {
        read_record(&mut reader(bytes)).expect("it is a record")
    };
    let shaken = PortHandshake::on_hello(identity(2), nonces.1, &received(&hello));
    let (port, answer) = shaken.expect("it is a good hello");
    let proof = caller.on_hello(&key(), &received(&answer)).expect("it is a good hello");
    let judged = port.on_proof(&key(), &received(&proof), |_, _| Ok(()));
    let (_, verdict) = judged.expect("it is a good proof");
    // With the last byte changed neither side trusts them.
    let without_proof = |mut records: Vec<u8>| {
        if let Some(last) = records.last_mut() {
            *last ^= 1;
        }
        records
    };
    vec![
        [&[0], &without_proof([hello, proof].concat())[..]].concat(),
        [&[0], &without_proof([answer, verdict].concat())[..]].concat(),
        b"\x01\x01\x05\0a\x02\0\x01b\x01\0\0c\0\0\0\0".to_vec(),
        b"\x01\x01\x05\0a\x02\0\x01b\x01\0\0c\0\0\0\0\x03\x30\0\0".to_vec(),
    ]
}

/// An input of the fuzz target: the first byte chooses the door.
pub fn cluster(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, records)) => handshake(records),
        Some((_, script)) => drop(frames(script)),
        None => {}
    }
}
