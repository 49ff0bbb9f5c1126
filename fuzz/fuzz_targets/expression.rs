//! Any bytes as choices of which an expression is made: it is refused, or gives the same values however
//! its rows are put into batches, and whether they are columns or constants.

#![no_main]

use tidemill_operators::fuzzing::{expression, expression_seeds};

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("expression", expression_seeds()),
    |bytes: &[u8]| tidemill_fuzz::within(2 << 30, || {
        expression(bytes);
    })
);
