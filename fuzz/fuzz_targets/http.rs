//! Any bytes over an HTTP connection: requests that are answered, or refused; the node is never to
//! blame.

#![no_main]

use std::time::Duration;
use tidemill_node::serve::http::fuzzing::{http, http_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("http", http_seeds()),
    // A node is made for each input.
    |bytes: &[u8]| {
        let _answer = tidemill_fuzz::within(256 << 20, || http(bytes, Duration::from_millis(20)));
    }
);
