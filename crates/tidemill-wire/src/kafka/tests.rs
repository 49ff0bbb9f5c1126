//! Frames of both sides meet; nothing from outside panics.

use super::{message::*, *};
use proptest::prelude::*;

#[test]
fn a_request_and_its_answer_come_over() {
    let request = MetadataRequestData::default();
    let frame = request_frame(&request, 12, 7, &text("me")).unwrap().freeze();
    let mut content = frame.slice(4..);
    assert_eq!(frame.len(), 4 + i32::from_be_bytes(frame[..4].try_into().unwrap()) as usize);
    let head = RequestHead::read(&mut content).unwrap();
    assert_eq!((head.key, head.version, head.correlation_id), (3, 12, 7));
    assert_eq!(head.client_id, Some(text("me")));
    let read = <MetadataRequestData as Message>::read(&mut content, 12).unwrap();
    assert_eq!(read, request);

    let response = MetadataResponseData::default();
    let mut out = head.begin_response(0);
    Message::write(&response, &mut out, 12).unwrap();
    end_frame(&mut out, 0).unwrap();
    let mut content = out.freeze().slice(4..);
    assert_eq!(read_response_head(&mut content, ApiKey::Metadata, 12).unwrap(), 7);
    let read = <MetadataResponseData as Message>::read(&mut content, 12);
    assert_eq!(read.unwrap(), response);
}

#[test]
fn the_answer_about_versions_has_the_oldest_head() {
    let head = RequestHead { key: 18, version: 4, correlation_id: 9, client_id: None };
    assert_eq!(&head.begin_response(0)[..], [0, 0, 0, 0, 0, 0, 0, 9]);
}

proptest! {
    #[test]
    fn no_head_panics(bytes: Vec<u8>) {
        let _any = RequestHead::read(&mut Bytes::from(bytes));
    }

    /// A count of 2^31 - 1 in four bytes must not become that much memory.
    #[test]
    fn no_request_panics_or_takes_memory_by_its_word(
        version in 0i16..20,
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0usize..40,
    ) {
        if bytes.len() > at + 4 {
            bytes[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
        }
        let bytes = Bytes::from(bytes);
        let _any = ProduceRequestData::read(&mut bytes.clone(), version);
        let _any = FetchRequestData::read(&mut bytes.clone(), version);
        let _any = MetadataRequestData::read(&mut bytes.clone(), version);
        let _any = JoinGroupRequestData::read(&mut bytes.clone(), version);
    }
}
