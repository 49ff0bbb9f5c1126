//! Any bytes as changes to the files of a log: it is opened or not, and what it serves are whole
//! chunks; without checksums set right they are those that were written there.

#![no_main]

use tidemill_log::fuzzing::{log, log_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("log", log_seeds()),
    // Metadata may name a thousand streamlets, and segments of a megabyte are read whole.
    |bytes: &[u8]| tidemill_fuzz::within(512 << 20, || log(bytes))
);
