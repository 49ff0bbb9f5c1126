//! Frames of a hostile peer, for tests and for the fuzz target `link`.
//!
//! ```text
//! process 0 (bytes)  ── rows by key, byte records at random, rows to all ─▶  process 1: a real job
//! ```
//!
//! The bytes are frames as they are on the wire. Lengths and checksums of heads are set right, as
//! nothing else would get past them; a byte of the head that is reserved says which are left alone.

use crate::block::{Block, Payload, Routing, rows_schema};
use crate::engine::{JobHandle, Processes, RunOptions, start};
use crate::graph::{JobGraph, Link, StageKind};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, SliceState,
};
use crate::partition::Partition;
use crate::rows::Rows;
use crate::runtime::{
    inbox::CycleEnd,
    layout::Layout,
    peer::{Address, Outgoing},
    peer_writer::FrameWriter,
    plan::Plan,
};
use crate::sink::{Sink, SinkError};
use crate::source::{Position, Read, ReadRequest, Source, SourceError, SourceFactory};
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{
    io::{self, Cursor, Write},
    sync::{Arc, PoisonError},
    time::Duration,
};
use tidemill_env::{Connection, Listener, Net, World, sync::Mutex};
use tidemill_types::{
    Cycle, LayoutVersion, LinkIx, Micros, ProcessIx, SliceId, StageIx, job::CompressionSpec,
};
use tidemill_wire::link::{HEAD_BYTES, checksum};

/// Slices of the stage that reads.
const SLICES: u32 = 4;
/// Its lanes.
const WORKERS: usize = 2;

fn schema() -> SchemaRef {
    let field = |name, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![field("key", DataType::Int64), field("text", DataType::Utf8)]))
}

struct Elsewhere(SchemaRef);

impl SourceFactory for Elsewhere {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Nothing))
    }
}

struct Nothing;

impl Source for Nothing {
    fn read(&mut self, _: &ReadRequest, _: &mut Vec<DeadLetter>) -> Result<Read, SourceError> {
        Ok(Read::End)
    }
    fn position(&self) -> Position {
        Position(0)
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

impl Sink for Nothing {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Reads every row of every slice, and says how many there were.
struct Count;

impl OperatorFactory for Count {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for Count {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        for slice in context.slices.clone().map(SliceId) {
            let mut count = 0;
            for port in 0..3 {
                for block in input.port(port) {
                    assert!(block.count_in(&context.slices) <= block.len() || port == 2);
                    let keyed = block.routing.as_ref().map_or(0, |it| it.hashes.len());
                    let mut each = |row: usize| {
                        assert!(row < block.len() && (keyed == 0 || row < keyed));
                        if let Payload::Rows(rows) = &block.payload {
                            count += rows.get(row).len();
                        }
                        count += 1;
                    };
                    block.rows_of(slice).for_each(&mut each);
                }
            }
            output.set_slice(slice);
            output.push(count.to_string().as_bytes());
        }
        Ok(())
    }
}

fn graph() -> JobGraph {
    let mut graph = JobGraph::new("hostile");
    graph.workers = WORKERS;
    let source =
        |schema| StageKind::Source { factory: Arc::new(Elsewhere(schema)), preload: false };
    let count = StageKind::Operator { factory: Arc::new(Count), slices: SLICES };
    let count = graph.add("count", count);
    let partitions = [
        (schema(), Partition::Key(vec![0])),
        (rows_schema(), Partition::Random),
        (schema(), Partition::All),
    ];
    for (port, (schema, partition)) in partitions.into_iter().enumerate() {
        let from = graph.add(format!("source {port}"), source(schema));
        graph.links.push(Link { from, output: 0, to: count, port, partition });
    }
    let out = graph.add("out", StageKind::Sink { sink: Box::new(Nothing) });
    graph.link(count, out, Partition::One);
    graph
}

fn processes(me: u32) -> Processes {
    let addresses = vec!["peer".to_owned(), "me".to_owned()];
    Processes { me: ProcessIx(me), addresses, of_stage: [1, 0, 0, 0, 0].map(ProcessIx).to_vec() }
}

/// A network in which the one peer says these bytes, and hangs up.
struct PeerScript(Mutex<Vec<u8>>);

impl Net for PeerScript {
    fn listen(&self, _: &str) -> io::Result<Box<dyn Listener>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn connect(&self, _: &str, _: Duration) -> io::Result<Connection> {
        let said = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Connection {
            reader: Box::new(Cursor::new(said)),
            writer: Box::new(io::sink()),
            closer: Arc::new(|| {}),
            is_within_machine: false,
            peer: "a fuzzer".to_owned(),
        })
    }
}

/// Runs a job whose peer says these frames; why it failed, if it did.
///
/// # Errors
/// The job has failed: the message is for people.
///
/// # Panics
/// A part of the engine did.
pub fn link(frames: &[u8]) -> Result<(), String> {
    let mut world = World::real();
    world.net = Arc::new(PeerScript(Mutex::new(sealed(frames))));
    let options = RunOptions { processes: processes(1), ..RunOptions::default() };
    let handle: JobHandle = start(graph(), &world, &options).expect("the graph can run");
    match handle.wait() {
        Ok(_) => Ok(()),
        Err(error) => {
            assert!(!error.panicked, "{error}");
            Err(error.to_string())
        }
    }
}

/// The frames, with lengths and checksums that are right.
fn sealed(mut frames: &[u8]) -> Vec<u8> {
    const BODY: std::ops::Range<usize> = 20..24;
    const RESERVED: usize = HEAD_BYTES - 15;
    let mut out = Vec::with_capacity(frames.len());
    while let Some((head, rest)) = frames.split_first_chunk::<HEAD_BYTES>() {
        let mut head = *head;
        let as_it_is = head[RESERVED];
        let said = u32::from_le_bytes([head[20], head[21], head[22], head[23]]) as usize;
        let (body, rest) = rest.split_at(said.min(rest.len()));
        if as_it_is & 1 == 0 {
            head[..5].copy_from_slice(b"TMLK\x02");
            head[BODY].copy_from_slice(&(body.len() as u32).to_le_bytes());
        }
        if as_it_is & 2 == 0 {
            head[HEAD_BYTES - 8..HEAD_BYTES - 4].copy_from_slice(&checksum(&[body]).to_le_bytes());
        }
        if as_it_is & 4 == 0 {
            let sum = checksum(&[&head[..HEAD_BYTES - 4]]);
            head[HEAD_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        }
        out.extend_from_slice(&head);
        out.extend_from_slice(body);
        frames = rest;
    }
    out.extend_from_slice(frames);
    out
}

#[derive(Clone, Default)]
struct SharedBytes(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The frames of an honest peer: two cycles over all links, plain and packed, then a good-bye.
///
/// # Panics
/// Never.
#[must_use]
pub fn link_seeds() -> Vec<Vec<u8>> {
    let policies = [CompressionSpec::Off, CompressionSpec::Always];
    policies.into_iter().map(honest).collect()
}

fn honest(policy: CompressionSpec) -> Vec<u8> {
    let (plan, _) = Plan::new(graph(), &processes(0)).expect("the graph can run");
    let layout = Layout::new(&plan, LayoutVersion(1), Cycle::FIRST, WORKERS);
    let said = SharedBytes::default();
    let mut writer = FrameWriter::new(Box::new(said.clone()), false);
    writer.compress(policy);
    let mut say = |frame| assert_eq!(writer.write(&[frame]).expect("into memory"), 1);
    for cycle in [Cycle(1), Cycle(2)] {
        for lane in layout.lanes_of(StageIx(0)) {
            for (link, block) in blocks().into_iter().enumerate() {
                let address = Address {
                    link: LinkIx::at(link),
                    lane: lane.index,
                    input: link as u32,
                    layout: LayoutVersion(1),
                };
                let (block, share, slices) = (Arc::new(block), 100, lane.slices.clone());
                say(Outgoing::Block { address, cycle, block, share, slices });
                let (time, watermark) = (Micros(1), Micros(2));
                let end = CycleEnd { cycle, time, watermark, ended: cycle == Cycle(2) };
                say(Outgoing::End { address, end });
            }
        }
        say(Outgoing::Credit { link: LinkIx(3), bytes: 0 });
    }
    say(Outgoing::Bye);
    said.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A block for each link.
fn blocks() -> [Block; 3] {
    let keys = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
    let texts = StringArray::from(vec![Some("one"), Some("two"), None, Some("")]);
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(texts)]);
    let batch = batch.expect("columns of the schema");
    let mut rows = Rows::default();
    ["a", "", "three", "a record that is longer"].iter().for_each(|it| rows.push(it.as_bytes()));
    let routing = |hashes| Routing { order: vec![3, 0, 2, 1], starts: vec![0, 1, 1, 3, 4], hashes };
    let routed =
        |payload, hashes| Block { payload, routing: Some(routing(hashes)), slice: SliceId(0) };
    [
        routed(Payload::Arrow(batch.clone()), vec![1, 2, 3, 4]),
        routed(Payload::Rows(rows), Vec::new()),
        Block::whole(Payload::Arrow(batch), Block::EVERY),
    ]
}

#[cfg(test)]
mod tests;
