//! Any bytes as frames of another process of a job: the job ends, with or without an error.

#![no_main]

use tidemill_flow::fuzzing::{link, link_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("link", link_seeds()),
    |bytes: &[u8]| {
        // Frames and what they become, for each of a few that say that they are as long as can be.
        let _outcome = tidemill_fuzz::within(1 << 30, || link(bytes));
    }
);
