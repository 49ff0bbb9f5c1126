//! Frames open at their own place of their own direction, or not at all.

use super::*;
use crate::{ClusterKey, key::transcript};
use proptest::prelude::*;
use tidemill_types::Incarnation;
use tidemill_wire::cluster::ClusterFrame;

fn secret(connection: u8) -> ConnectionSecret {
    let key = ClusterKey::parse(b"correct horse battery staple").expect("it is a key");
    key.connection(&transcript(&[connection], b"port"))
}

fn head(correlation: u64, body: &[u8]) -> ClusterFrameHead {
    ClusterFrameHead {
        frame: ClusterFrame::Request,
        kind: 3,
        correlation,
        incarnation: Incarnation(4),
        timeout_ms: 5,
        body_bytes: body.len() as u32,
    }
}

/// A frame as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WireFrame {
    head: [u8; SEALED_HEAD_BYTES],
    body: Vec<u8>,
    tag: Option<[u8; SEAL_BYTES]>,
}

fn seal(sealer: &mut FrameSealer, correlation: u64, body: &[u8]) -> WireFrame {
    let mut body = body.to_vec();
    let (sealed, tag) = sealer.seal(&head(correlation, &body), &mut body);
    WireFrame { head: sealed, body, tag }
}

fn open(opener: &mut FrameOpener, frame: &WireFrame) -> Result<(u64, Vec<u8>), FrameDamage> {
    let head = opener.open_head(&frame.head)?;
    let mut body = frame.body.clone();
    if let Some(tag) = &frame.tag {
        opener.open_body(&mut body, tag)?;
    }
    Ok((head.correlation, body))
}

#[test]
fn keys_change_and_both_sides_follow() {
    let mut sealer = FrameSealer::new(&secret(1), ConnectionSide::Caller);
    let mut opener = FrameOpener::new(&secret(1), ConnectionSide::Caller);
    sealer.0.next = FRAMES_OF_KEY - 2;
    opener.counter.next = FRAMES_OF_KEY - 2;
    for number in 0..4 {
        let frame = seal(&mut sealer, number, b"body");
        assert_eq!(open(&mut opener, &frame), Ok((number, b"body".to_vec())));
    }
    // With the first key these would not open.
    let mut stale = FrameOpener::new(&secret(1), ConnectionSide::Caller);
    stale.counter.next = FRAMES_OF_KEY + 1;
    let frame = {
        let mut sealer = FrameSealer::new(&secret(1), ConnectionSide::Caller);
        sealer.0.next = FRAMES_OF_KEY;
        seal(&mut sealer, 0, b"");
        seal(&mut sealer, 1, b"body")
    };
    assert_eq!(open(&mut stale, &frame), Err(FrameDamage::Tag));
}

#[test]
fn nothing_of_a_frame_is_readable_on_the_wire() {
    let mut sealer = FrameSealer::new(&secret(1), ConnectionSide::Caller);
    let body = b"the password is swordfish".repeat(10);
    let frame = seal(&mut sealer, 0x0102_0304_0506_0708, &body);
    let wire = [&frame.head[..], &frame.body].concat();
    assert!(!wire.windows(9).any(|it| it == b"swordfish"));
    assert!(!wire.windows(8).any(|it| it == 0x0102_0304_0506_0708_u64.to_le_bytes()));
}

#[test]
fn a_frame_of_another_connection_or_direction_does_not_open() {
    let frame = seal(&mut FrameSealer::new(&secret(1), ConnectionSide::Caller), 1, b"body");
    for (connection, sender) in
        [(2, ConnectionSide::Caller), (1, ConnectionSide::Port), (2, ConnectionSide::Port)]
    {
        let mut opener = FrameOpener::new(&secret(connection), sender);
        assert_eq!(open(&mut opener, &frame), Err(FrameDamage::Tag));
    }
}

/// One thing that is done to the frames on their way.
#[derive(Clone, Debug)]
enum Tampering {
    Flip { frame: prop::sample::Index, at: prop::sample::Index, bits: u8 },
    Drop(prop::sample::Index),
    Repeat(prop::sample::Index),
    Swap(prop::sample::Index),
    SwapBodies(prop::sample::Index),
}

fn any_tampering() -> impl Strategy<Value = Tampering> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), index(), 1..=255_u8).prop_map(|(frame, at, bits)| Tampering::Flip {
            frame,
            at,
            bits
        }),
        index().prop_map(Tampering::Drop),
        index().prop_map(Tampering::Repeat),
        index().prop_map(Tampering::Swap),
        index().prop_map(Tampering::SwapBodies),
    ]
}

fn tamper(frames: &mut Vec<WireFrame>, tampering: &Tampering) {
    let count = frames.len();
    match tampering {
        Tampering::Flip { frame, at, bits } => {
            let frame = &mut frames[frame.index(count)];
            let mut wire = [&frame.head[..], &frame.body].concat();
            let tag = frame.tag.map_or(0, |tag| {
                wire.extend(tag);
                tag.len()
            });
            let at = at.index(wire.len());
            wire[at] ^= bits;
            let end = wire.len() - tag;
            frame.head.copy_from_slice(&wire[..SEALED_HEAD_BYTES]);
            frame.body = wire[SEALED_HEAD_BYTES..end].to_vec();
            frame.tag = wire[end..].try_into().ok();
        }
        Tampering::Drop(frame) => drop(frames.remove(frame.index(count))),
        Tampering::Repeat(frame) => {
            let place = frame.index(count);
            let again = frames[place].clone();
            frames.insert(place + 1, again);
        }
        Tampering::Swap(frame) => {
            let place = frame.index(count - 1);
            frames.swap(place, place + 1);
        }
        Tampering::SwapBodies(frame) => {
            let place = frame.index(count - 1);
            let (left, right) = frames.split_at_mut(place + 1);
            std::mem::swap(&mut left[place].body, &mut right[0].body);
            std::mem::swap(&mut left[place].tag, &mut right[0].tag);
        }
    }
}

/// The bytes of frames one after the other.
fn wire(frames: &[WireFrame]) -> Vec<u8> {
    let bytes = |it: &WireFrame| {
        let tag = it.tag.map_or_else(Vec::new, |tag| tag.to_vec());
        [&it.head[..], &it.body, &tag].concat()
    };
    frames.iter().flat_map(bytes).collect()
}

/// Opens what is read from a connection, as a reader does it: as many bytes as the heads say.
fn open_all(mut wire: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut opener = FrameOpener::new(&secret(1), ConnectionSide::Port);
    let mut opened = Vec::new();
    while let Some((sealed, rest)) = wire.split_first_chunk() {
        let Ok(head) = opener.open_head(sealed) else { break };
        wire = rest;
        let mut body = Vec::new();
        if head.body_bytes > 0 {
            let Some((sealed, rest)) = wire.split_at_checked(head.body_bytes as usize) else {
                break;
            };
            let Some((tag, rest)) = rest.split_at_checked(SEAL_BYTES) else { break };
            body = sealed.to_vec();
            if opener.open_body(&mut body, tag).is_err() {
                break;
            }
            wire = rest;
        }
        opened.push((head.correlation, body));
    }
    opened
}

proptest! {
    #[test]
    fn what_opens_is_a_prefix_of_what_was_sent(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 2..8),
        tampering in any_tampering(),
    ) {
        let mut sealer = FrameSealer::new(&secret(1), ConnectionSide::Port);
        let sent: Vec<_> =
            bodies.iter().enumerate().map(|(it, body)| (it as u64, body.clone())).collect();
        let frames: Vec<_> =
            sent.iter().map(|(number, body)| seal(&mut sealer, *number, body)).collect();
        let mut arrived = frames.clone();
        tamper(&mut arrived, &tampering);
        let opened = open_all(&wire(&arrived));
        prop_assert_eq!(&opened[..], &sent[..opened.len()]);
        // Dropping the last frames is all that goes unnoticed, until the next one is missed.
        if arrived.len() >= frames.len() && arrived != frames {
            prop_assert!(opened.len() < arrived.len());
        }
    }

    #[test]
    fn a_connection_that_ends_anywhere_delivers_whole_frames(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
        end in any::<prop::sample::Index>(),
    ) {
        let mut sealer = FrameSealer::new(&secret(1), ConnectionSide::Port);
        let frames: Vec<_> =
            bodies.iter().enumerate().map(|(it, body)| seal(&mut sealer, it as u64, body)).collect();
        let wire = wire(&frames);
        let opened = open_all(&wire[..end.index(wire.len() + 1)]);
        let sent: Vec<_> =
            bodies.iter().enumerate().map(|(it, body)| (it as u64, body.clone())).collect();
        prop_assert_eq!(&opened[..], &sent[..opened.len()]);
    }
}
