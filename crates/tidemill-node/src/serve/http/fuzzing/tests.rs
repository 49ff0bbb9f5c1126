//! Every route is reached, and no bytes make the node say that it is to blame.

use super::*;
use proptest::prelude::*;

#[test]
fn every_request_of_the_seeds_is_answered() {
    for seed in http_seeds() {
        let answer = String::from_utf8_lossy(&http(&seed, Duration::from_secs(30))).into_owned();
        let asked = String::from_utf8_lossy(&seed).into_owned();
        assert!(answer.starts_with("HTTP/1.1 "), "{asked}: {answer}");
        for status in ["400 Bad Request\r\nconn", "403", "405"] {
            assert!(!answer.starts_with(&format!("HTTP/1.1 {status}")), "{asked}: {answer}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn row_34_any_bytes_over_a_connection_are_requests_or_refusals(
        which: prop::sample::Index,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
    ) {
        let seeds = http_seeds();
        let mut bytes = seeds[which.index(seeds.len())].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _answer = http(&bytes, Duration::from_millis(20));
    }
}
