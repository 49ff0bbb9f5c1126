//! Inflating stops at its limit, whatever the bytes are.

use super::*;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn free(_: usize) -> Result<(), Problem> {
    Ok(())
}

#[test]
fn what_was_packed_comes_out_up_to_the_limit() {
    for length in [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES] {
        let plain = vec![b'a'; length];
        assert_eq!(inflate(&packed(&plain), length, &mut free).unwrap(), plain);
        if length > 0 {
            let error = inflate(&packed(&plain), length - 1, &mut free).unwrap_err();
            assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE, "{length}");
        }
    }
    let twice = [packed(b"one "), packed(b"two")].concat();
    assert_eq!(inflate(&twice, 100, &mut free).unwrap(), b"one two");
}

#[test]
fn a_bomb_takes_no_more_than_the_limit() {
    let bomb = packed(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let mut charged = 0;
    let mut count = |bytes| {
        charged += bytes;
        Ok(())
    };
    let error = inflate(&bomb, 1 << 20, &mut count).unwrap_err();
    assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(charged < 3 << 20, "{charged}");
    let refused = inflate(&bomb, 1 << 30, &mut |_| Err(Problem::busy("full"))).unwrap_err();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn what_is_no_gzip_is_refused() {
    let whole = packed(b"some text that is long enough to be cut");
    for bytes in [&b""[..], b"plain text", &whole[..whole.len() - 9], &whole[..5]] {
        let error = inflate(bytes, 1 << 20, &mut free).unwrap_err();
        assert_eq!(error.status, StatusCode::BAD_REQUEST, "{bytes:?}");
        let message = &error.message;
        assert!(
            message.starts_with("the body is not gzip as `Content-Encoding` says"),
            "{message}"
        );
        assert!(message.ends_with("or send it plain and without that header"), "{message}");
    }
}

#[test]
fn large_bodies_have_time_and_dripping_ones_do_not() {
    let base = Duration::from_secs(10);
    assert_eq!(patience(base, 0), base);
    assert_eq!(patience(base, 1 << 20), base + Duration::from_secs(16));
    assert!(patience(base, 100) < base + Duration::from_millis(2));
}
