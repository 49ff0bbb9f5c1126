//! What a hostile peer says fails the job, and nothing else.

use super::*;
use arrow_array::{NullArray, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use proptest::prelude::*;
use tidemill_wire::link::{FrameHead, FrameKind, PayloadKind};

#[test]
fn what_an_honest_peer_says_is_read_to_the_end() {
    for seed in link_seeds() {
        assert_eq!(sealed(&seed), seed, "lengths and checksums were right");
        assert_eq!(link(&seed), Ok(()));
    }
}

/// A block for lane 0 as a whole frame.
fn block(link: u32, head: FrameHead, body: &[u8]) -> Vec<u8> {
    let body_bytes = body.len() as u32;
    let head = FrameHead { link, input: link, layout: 1, cycle: Cycle::FIRST, ..head };
    let head = FrameHead { body: body_bytes, plain: body_bytes, ..head };
    [&head.encode(), body].concat()
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a schema");
    writer.write(batch).expect("a batch");
    writer.finish().expect("into memory");
    bytes
}

const HEAD: FrameHead = FrameHead {
    kind: FrameKind::Block,
    packed: false,
    payload: PayloadKind::Arrow,
    link: 0,
    lane: 0,
    input: 0,
    layout: 1,
    cycle: Cycle::FIRST,
    body: 0,
    plain: 0,
    rows: 0,
    slices: 0,
    share: 0,
    body_crc: Some(0),
};

/// A column of nulls takes no bytes: without a bound a few hundred bytes became sixteen gigabytes.
#[test]
fn a_block_has_as_many_rows_as_its_head_says_and_no_more_than_a_frame_may_have() {
    let rows = u32::MAX as usize;
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Null, true)]));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = vec![Arc::new(NullArray::new(rows)) as _];
    let batch = RecordBatch::try_new_with_options(schema, columns, &options).expect("nulls");
    let body = [&u32::MAX.to_le_bytes()[..], &[0; 4], &stream(&batch)].concat();
    for (rows, why) in
        [(u32::MAX, "4294967295 rows is too large"), (7, "4294967295 rows and says 7")]
    {
        let frame = block(0, FrameHead { rows, slices: 2, ..HEAD }, &body);
        let refused = link(&frame).expect_err("it is refused");
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn an_arrow_body_takes_no_memory_by_the_length_it_claims() {
    let [Block { payload: Payload::Arrow(batch), .. }, ..] = blocks() else { panic!("as made") };
    let stream = stream(&batch);
    // The length of a batch's body is in its head: made so large that no machine has the memory.
    let length = 1_u64 << 46;
    let bodies: Vec<u64> = (8..=256).step_by(8).collect();
    let mut claimed = 0;
    for at in (0..stream.len() - 8).step_by(8) {
        let word = u64::from_le_bytes(stream[at..at + 8].try_into().expect("eight bytes"));
        if !bodies.contains(&word) {
            continue;
        }
        let mut changed = stream.clone();
        changed[at..at + 8].copy_from_slice(&length.to_le_bytes());
        let body = [&Block::EVERY.0.to_le_bytes()[..], &changed].concat();
        claimed += usize::from(link(&block(2, FrameHead { rows: 4, ..HEAD }, &body)).is_err());
    }
    assert!(claimed > 0, "the length was among those words");
}

#[test]
fn a_block_is_for_slices_of_the_lane_that_it_names() {
    let [Block { payload: Payload::Arrow(batch), .. }, ..] = blocks() else { panic!("as made") };
    let stream = stream(&batch);
    let body = |number: u32| [&number.to_le_bytes()[..], &stream].concat();
    let refused = |link_number, head, body: &[u8]| {
        link(&block(link_number, head, body)).expect_err("it is refused")
    };
    let rows = FrameHead { rows: 4, ..HEAD };
    let why = refused(2, rows, &body(7));
    assert!(why.contains("for slice 7 of another lane"), "{why}");
    let why = refused(0, rows, &body(0));
    assert!(why.contains("sorted by 0 of 2 slices"), "{why}");
    let why = refused(2, FrameHead { slices: 1, ..rows }, &body(4));
    assert!(why.contains("sorted by 1 of 0 slices"), "{why}");
    let why = refused(2, FrameHead { lane: 2, ..rows }, &body(Block::EVERY.0));
    assert!(why.contains("a lane that is not here"), "{why}");
}

#[test]
fn bodies_without_checksums_are_read_as_those_with_them() {
    for mut seed in link_seeds() {
        let mut at = 0;
        while let Some(head) = seed[at..].first_chunk_mut() {
            let said = FrameHead::decode(head).expect("an honest head");
            *head = FrameHead { body_crc: None, ..said }.encode();
            at += HEAD_BYTES + said.body as usize;
        }
        assert_eq!(at, seed.len());
        assert_eq!(link(&seed), Ok(()));
    }
}

#[test]
fn shares_that_would_overflow_are_refused() {
    let [Block { payload: Payload::Arrow(batch), .. }, ..] = blocks() else { panic!("as made") };
    let body = [&Block::EVERY.0.to_le_bytes()[..], &stream(&batch)].concat();
    let why = link(&block(2, FrameHead { rows: 4, share: u64::MAX, ..HEAD }, &body));
    assert!(why.expect_err("it is refused").contains("is too large"));
}

#[test]
fn credit_is_given_back_only_for_what_was_sent_to_that_peer() {
    let head = FrameHead { link: 0, ..FrameHead::bare(FrameKind::Credit) };
    let why = link(&head.encode()).expect_err("link 0 ends here");
    assert!(why.contains("there is no link 0"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_change_of_an_honest_stream_panics_or_hangs(
        packed: bool,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut frames = link_seeds().swap_remove(usize::from(packed));
        for (at, byte) in changes {
            let at = at.index(frames.len());
            frames[at] = byte;
        }
        if let Some(keep) = keep {
            frames.truncate(keep.index(frames.len()));
        }
        let _outcome = link(&frames);
    }
}

/// The decoder would take memory for what a compressed body says of itself.
#[test]
fn an_arrow_body_that_is_compressed_is_refused_before_it_is_decoded() {
    let stream = include_bytes!("../../../tidemill-wire/src/arrow/compressed-zstd.arrows");
    let body = [&Block::EVERY.0.to_le_bytes()[..], stream].concat();
    let refused = link(&block(2, FrameHead { rows: 100, ..HEAD }, &body)).expect_err("it is");
    assert!(refused.contains("a block is refused: it is compressed by ZSTD"), "{refused}");
}
