//! Both sides' versions meet, or it is said that they do not.

use super::*;
use bytes::BytesMut;
use tidemill_wire::kafka::{Message, message::api_versions_response::ApiVersion};

fn versions(of: &[(ApiKey, i16, i16)]) -> Versions {
    Versions(of.iter().map(|(key, from, to)| (*key as i16, (*from, *to))).collect())
}

#[test]
fn the_newest_that_both_know_is_taken() {
    let newest = *known_versions(ApiKey::Metadata).end();
    let pick = |from, to| versions(&[(ApiKey::Metadata, from, to)]).pick(ApiKey::Metadata, "a:1");
    assert_eq!(pick(0, 5), Ok(5));
    assert_eq!(pick(0, i16::MAX), Ok(newest));
    assert_eq!(versions(&[(ApiKey::OffsetCommit, 0, 30)]).pick(ApiKey::OffsetCommit, ""), Ok(9));
    let error = pick(newest + 1, newest + 2).unwrap_err().to_string();
    assert!(error.contains("a:1 does not take Metadata"), "{error}");
    let error = versions(&[]).pick(ApiKey::Fetch, "a:1").unwrap_err().to_string();
    assert!(error.contains("it takes none"), "{error}");
}

#[test]
fn an_answer_is_read_and_an_error_in_it_is_one() {
    let row = ApiVersion::default().with_api_key(3).with_min_version(1).with_max_version(4);
    let answer = ApiVersionsResponseData::default().with_api_keys(vec![row]);
    let mut bytes = BytesMut::new();
    Message::write(&answer, &mut bytes, 3).unwrap();
    let read = Versions::read(&mut bytes.freeze(), 3).unwrap();
    assert_eq!(read, versions(&[(ApiKey::Metadata, 1, 4)]));

    let mut bytes = BytesMut::new();
    Message::write(&answer.with_error_code(42), &mut bytes, 3).unwrap();
    assert_eq!(Versions::read(&mut bytes.freeze(), 3), Err("InvalidRequest".to_owned()));
}
