//! Any bytes on the cluster port: a stranger proves nothing, and a changed frame never arrives.

#![no_main]

use tidemill_cluster::fuzzing::{cluster, seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("cluster", seeds()),
    |bytes: &[u8]| {
        // Frames are built, sent and read: some copies of at most 64 KiB for each four bytes.
        tidemill_fuzz::within(1 << 30, || cluster(bytes));
    }
);
