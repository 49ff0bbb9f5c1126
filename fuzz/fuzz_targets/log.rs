//! Any bytes as changes to the files of a log. The log opens or refuses; it serves whole chunks only,
//! and without corrected checksums only chunks that were written there.

#![no_main]

use tidemill_log::fuzzing::{log, log_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("log", log_seeds()),
    // Metadata may name a thousand streamlets, and segments of a megabyte are read whole.
    |bytes: &[u8]| tidemill_fuzz::within(512 << 20, || log(bytes))
);
