//! Answers of a node, as they are and changed.

use super::*;
use crate::testing::log::FakeLog;
use proptest::prelude::*;
use std::sync::OnceLock;
use tidemill_wire::records::{ChunkBuilder, Compression};

/// What a node answers to each deed.
fn seeds() -> &'static [Vec<u8>] {
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEEDS.get_or_init(|| (0..DEEDS).map(seed).collect())
}

fn seed(deed: u8) -> Vec<u8> {
    let node = FakeLog::start(&[("t", 1)]);
    let mut chunk = ChunkBuilder::new(Compression::NONE);
    for number in 0..3_u8 {
        drop(chunk.append(7, None, Some(&[number; 20]), std::iter::empty()));
    }
    node.put("t", 0, chunk.finish().expect("it has records").to_vec());
    let mut connection =
        World::real().net.connect(node.address(), Duration::from_secs(5)).expect("it listens");
    record(deed, move |content| {
        let _stays = &node;
        let length = (content.len() as u32).to_be_bytes();
        connection.writer.write_all(&length).ok()?;
        connection.writer.write_all(&content).ok()?;
        let mut length = [0; 4];
        connection.reader.read_exact(&mut length).ok()?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        connection.reader.read_exact(&mut answer).ok()?;
        Some([&length[..], &answer].concat().into())
    })
}

#[test]
fn a_node_was_heard_and_says_the_same_again() {
    for (deed, seed) in seeds().iter().enumerate() {
        assert!(seed.len() > 40, "deed {deed}: {} bytes", seed.len());
        client(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_change_of_an_answer_panics_or_hangs(
        deed in 0..DEEDS,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        large in proptest::option::of(any::<prop::sample::Index>()),
        keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = seeds()[usize::from(deed)].clone();
        for (at, byte) in changes {
            // The deed stays.
            let at = 1 + at.index(bytes.len() - 1);
            bytes[at] = byte;
        }
        if let Some(at) = large {
            let at = 1 + at.index(bytes.len() - 5);
            bytes[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
        }
        if let Some(keep) = keep {
            bytes.truncate(1 + keep.index(bytes.len() - 1));
        }
        client(&bytes);
    }
}
