//! Frames that leave together are those that leave one by one.

use super::*;
use crate::runtime::inbox::CycleEnd;
use arrow_array::{ArrayRef, Int64Array};
use arrow_ipc::reader::StreamReader;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use tidemill_types::{Cycle, LaneIx, LayoutVersion, LinkIx, Micros, SliceId};
use tidemill_wire::compression::decompress;

const ADDRESS: Address =
    Address { link: LinkIx(3), lane: LaneIx(1), input: 2, layout: LayoutVersion(1) };

/// What was written in each call; a call takes so many bytes at most.
#[derive(Clone)]
struct Socket {
    calls: Arc<Mutex<Vec<Vec<u8>>>>,
    bytes_max: usize,
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> std::io::Result<usize> {
        let mut taken = Vec::new();
        for slice in slices {
            let room = self.bytes_max - taken.len();
            taken.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let count = taken.len();
        self.calls.lock().unwrap().push(taken);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The calls in which a writer writes these frames.
fn calls(frames: &[Outgoing], policy: CompressionSpec, bytes_max: usize) -> Vec<Vec<u8>> {
    let socket = Socket { calls: Arc::default(), bytes_max };
    let mut writer = FrameWriter::new(Box::new(socket.clone()), false);
    writer.compress(policy);
    let mut written = 0;
    while written < frames.len() {
        let count = writer.write(&frames[written..]).unwrap();
        assert!(count > 0, "a call takes at least one frame");
        written += count;
    }
    assert_eq!(written, frames.len());
    socket.calls.lock().unwrap().clone()
}

fn rows(records: &[Vec<u8>]) -> Rows {
    let mut rows = Rows::default();
    records.iter().for_each(|record| rows.push(record));
    rows
}

fn block(payload: Payload, routing: Option<Routing>, slices: Range<u32>) -> Outgoing {
    let block = Arc::new(Block { payload, routing, slice: SliceId(2) });
    Outgoing::Block { address: ADDRESS, cycle: Cycle(7), block, share: 11, slices }
}

fn end(cycle: u64) -> Outgoing {
    let end = CycleEnd {
        cycle: Cycle(cycle),
        time: Micros(5),
        watermark: Micros(-6),
        ended: cycle.is_multiple_of(2),
    };
    Outgoing::End { address: ADDRESS, end }
}

/// The heads and the bodies, unpacked, of what was written.
fn parsed(mut bytes: &[u8]) -> Vec<(FrameHead, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let head = FrameHead::decode(head).unwrap();
        let (body, rest) = rest.split_at(head.body as usize);
        assert_eq!(Some(checksum(&[body])), head.body_crc);
        let mut plain = body.to_vec();
        if head.packed {
            decompress(body, head.plain as usize, &mut plain).unwrap();
        }
        assert_eq!(plain.len(), head.plain as usize);
        frames.push((head, plain));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a head at the end");
    frames
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
}

#[derive(Clone, Debug)]
enum Shape {
    Whole(Vec<Vec<u8>>),
    Sorted(Vec<Vec<u8>>),
    End(u64),
    Credit(u64),
    Bye,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let records = || {
        let record = (any::<u8>(), 0_usize..600);
        prop::collection::vec(record.prop_map(|(byte, count)| vec![byte; count]), 0..40)
    };
    let shape = prop_oneof![
        records().prop_map(Shape::Whole),
        records().prop_map(Shape::Sorted),
        (0..9_u64).prop_map(Shape::End),
        any::<u64>().prop_map(Shape::Credit),
        Just(Shape::Bye),
    ];
    prop::collection::vec(shape, 1..70)
}

/// Slices 1 to 2 of 3 read: every third record goes to each slice.
fn outgoing(shape: &Shape) -> Outgoing {
    match shape {
        Shape::Whole(records) => block(Payload::Rows(rows(records)), None, 0..1),
        Shape::Sorted(records) => {
            let mut order: Vec<u32> = (0..records.len() as u32).collect();
            order.sort_by_key(|row| row % 3);
            let before = |slice| order.iter().filter(|row| **row % 3 < slice).count() as u32;
            let starts = (0..=3).map(before).collect();
            let routing = Routing { order, starts, hashes: Vec::new() };
            block(Payload::Rows(rows(records)), Some(routing), 1..3)
        }
        Shape::End(cycle) => end(*cycle),
        Shape::Credit(bytes) => Outgoing::Credit { link: LinkIx(4), bytes: *bytes },
        Shape::Bye => Outgoing::Bye,
    }
}

fn assert_is(shape: &Shape, head: &FrameHead, body: &[u8]) {
    let (taken, counts) = match shape {
        Shape::Whole(records) => (records.clone(), vec![2]),
        Shape::Sorted(records) => {
            let of = |slice: usize| records.iter().skip(slice).step_by(3).cloned();
            let counts = vec![of(1).count() as u32, of(2).count() as u32];
            (of(1).chain(of(2)).collect(), counts)
        }
        Shape::End(cycle) => {
            assert_eq!((head.kind, head.cycle.0), (FrameKind::End, *cycle));
            let times = [5_i64.to_le_bytes(), (-6_i64).to_le_bytes()].concat();
            let ended = u8::from(cycle.is_multiple_of(2));
            return assert_eq!(body, [&times[..], &[ended]].concat());
        }
        Shape::Credit(bytes) => {
            return assert_eq!((head.kind, head.link, head.share), (FrameKind::Credit, 4, *bytes));
        }
        Shape::Bye => return assert_eq!(head.kind, FrameKind::Bye),
    };
    let expected = rows(&taken);
    let is_sorted = matches!(shape, Shape::Sorted(_));
    assert_eq!(head.slices, if is_sorted { 2 } else { 0 });
    assert_eq!((head.rows as usize, head.share, head.cycle.0), (taken.len(), 11, 7));
    let (start, rest) = body.split_at(counts.len() * 4);
    assert_eq!(numbers(start), counts);
    let (offsets, values) = rest.split_at((taken.len() + 1) * 4);
    assert_eq!(offsets, expected.offsets().as_bytes());
    assert_eq!(values, expected.values());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However frames are put into calls, and however little a socket takes of one, each comes out
    /// whole and in its turn.
    #[test]
    fn frames_that_leave_together_are_those_that_were_given(
        shapes in shapes(),
        bytes_max in prop_oneof![40_usize..5_000, Just(usize::MAX)],
        is_packed in any::<bool>(),
    ) {
        let frames: Vec<_> = shapes.iter().map(outgoing).collect();
        let policy = if is_packed { CompressionSpec::Always } else { CompressionSpec::Off };
        let written = calls(&frames, policy, bytes_max).concat();
        let parsed = parsed(&written);
        prop_assert_eq!(parsed.len(), shapes.len());
        for (shape, (head, body)) in shapes.iter().zip(&parsed) {
            assert_is(shape, head, body);
        }
    }
}

#[test]
fn small_frames_leave_in_one_call() {
    let frames: Vec<_> = (0..100).map(end).collect();
    assert_eq!(calls(&frames, CompressionSpec::Off, usize::MAX).len(), 1);
}

#[test]
fn large_blocks_leave_a_megabyte_a_call() {
    let records = vec![vec![1; 1_024]; 256];
    let frames: Vec<_> = (0..8)
        .flat_map(|cycle| [block(Payload::Rows(rows(&records)), None, 0..1), end(cycle)])
        .collect();
    let calls = calls(&frames, CompressionSpec::Off, usize::MAX);
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.len() >= CALL_BYTES), "{:?}", calls[0].len());
}

/// Pieces have a bound of their own: blocks just large enough not to be copied.
#[test]
fn a_call_has_no_more_pieces_than_it_has_room_for() {
    let records = vec![vec![1; REFERRED_BYTES_MIN]];
    let frames: Vec<_> =
        (0..100).map(|_| block(Payload::Rows(rows(&records)), None, 0..1)).collect();
    let calls = calls(&frames, CompressionSpec::Off, usize::MAX);
    assert!((4..=6).contains(&calls.len()), "{}", calls.len());
    assert_eq!(parsed(&calls.concat()).len(), 100);
}

#[test]
fn columns_arrive_with_the_rows_that_the_lane_reads() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let routing = Routing {
        order: (0..100).rev().collect(),
        starts: vec![0, 40, 60, 100],
        hashes: Vec::new(),
    };
    for policy in [CompressionSpec::Off, CompressionSpec::Always] {
        let frame = block(Payload::Arrow(batch.clone()), None, 0..1);
        let routed = Routing {
            order: routing.order.clone(),
            starts: routing.starts.clone(),
            hashes: Vec::new(),
        };
        let sorted = block(Payload::Arrow(batch.clone()), Some(routed), 1..2);
        let parsed = parsed(&calls(&[frame, sorted], policy, usize::MAX).concat());
        let read = |body: &[u8]| StreamReader::try_new(&body[4..], None).unwrap().next().unwrap();
        assert_eq!(read(&parsed[0].1).unwrap(), batch);
        assert_eq!((parsed[0].0.rows, parsed[0].0.slices), (100, 0));
        let expected: ArrayRef = Arc::new(Int64Array::from_iter_values((40..60).rev()));
        assert_eq!(read(&parsed[1].1).unwrap().column(0), &expected);
        assert_eq!((parsed[1].0.rows, parsed[1].0.slices), (20, 1));
        assert_eq!(numbers(&parsed[1].1[..4]), [20]);
    }
}

#[test]
fn a_block_over_the_limit_of_a_frame_is_an_error() {
    let socket = Socket { calls: Arc::default(), bytes_max: usize::MAX };
    let mut writer = FrameWriter::new(Box::new(socket.clone()), false);
    let records = vec![vec![0; FRAME_BYTES_MAX]];
    let error = writer.write(&[block(Payload::Rows(rows(&records)), None, 0..1)]).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    assert!(socket.calls.lock().unwrap().is_empty(), "nothing was written");
}

#[test]
fn within_a_machine_frames_differ_only_in_that_bodies_have_no_checksum() {
    let records: Vec<Vec<u8>> = (0..100).map(|it| vec![it; 100]).collect();
    let frames = || [block(Payload::Rows(rows(&records)), None, 0..1), end(1), Outgoing::Bye];
    let [checked, unchecked] = [false, true].map(|is_within_machine| {
        let socket = Socket { calls: Arc::default(), bytes_max: usize::MAX };
        let mut writer = FrameWriter::new(Box::new(socket.clone()), is_within_machine);
        assert_eq!(writer.write(&frames()).unwrap(), 3);
        socket.calls.lock().unwrap().concat()
    });
    let (mut at, mut heads) = (0, 0);
    while let Some(head) = checked[at..].first_chunk() {
        let head = FrameHead::decode(head).unwrap();
        let other = FrameHead::decode(unchecked[at..].first_chunk().unwrap()).unwrap();
        assert!(head.body_crc.is_some());
        assert_eq!(other, FrameHead { body_crc: other.body_crc, ..head });
        assert!(other.body_crc.is_none() || head.body == 0);
        let body = at + HEAD_BYTES..at + HEAD_BYTES + head.body as usize;
        assert_eq!(checked[body.clone()], unchecked[body.clone()]);
        (at, heads) = (body.end, heads + 1);
    }
    assert_eq!((at, heads), (unchecked.len(), 3));
}
