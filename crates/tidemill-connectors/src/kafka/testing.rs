//! The shared part of test brokers: requests and answers in frames.

use bytes::{Bytes, BytesMut};
use std::io;
use tidemill_env::Connection;
use tidemill_wire::kafka::{
    ApiKey, Message, RequestHead, end_frame, known_versions,
    message::{ApiVersionsResponseData, api_versions_response::ApiVersion},
};

/// Answers until the other side goes.
pub(super) fn serve(
    mut connection: Connection,
    answer: impl Fn(&RequestHead, ApiKey, Bytes) -> Vec<u8>,
) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        connection.reader.read_exact(&mut length)?;
        let mut content = vec![0; u32::from_be_bytes(length) as usize];
        connection.reader.read_exact(&mut content)?;
        let mut content = Bytes::from(content);
        let head = RequestHead::read(&mut content).unwrap();
        let asked = ApiKey::from_i16(head.key).unwrap();
        connection.writer.write_all(&answer(&head, asked, content))?;
    }
}

/// All requests that are known but these, in all versions.
pub(super) fn versions(but: &[ApiKey]) -> ApiVersionsResponseData {
    let known = (0..80).filter_map(ApiKey::from_i16);
    let rows = known.filter(|it| !but.contains(it)).map(|key| {
        let known = known_versions(key);
        ApiVersion::default()
            .with_api_key(key as i16)
            .with_min_version(*known.start())
            .with_max_version(*known.end())
    });
    ApiVersionsResponseData::default().with_api_keys(rows.collect())
}

/// An answer as a frame.
pub(super) fn written(head: &RequestHead, message: &impl Message) -> Vec<u8> {
    let mut content = BytesMut::new();
    message.write(&mut content, head.version).unwrap();
    let mut out = head.begin_response(content.len());
    out.extend_from_slice(&content);
    end_frame(&mut out, 0).unwrap();
    out.to_vec()
}
