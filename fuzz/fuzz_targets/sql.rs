//! Any text as a query of a state, and as an expression of a job: refused, or it gives the same
//! answer to the same rows, however they are put into batches.

#![no_main]

use tidemill_operators::fuzzing::{sql, sql_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("sql", sql_seeds()),
    |text: &str| tidemill_fuzz::within(2 << 30, || sql(text))
);
