//! Any bytes as a file of the format `parquet`.

#![no_main]

use tidemill_connectors::fuzzing::seeds;
use tidemill_types::job::Format;

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("parquet", seeds(Format::Parquet)),
    |bytes: &[u8]| tidemill_fuzz::read_file(Format::Parquet, bytes)
);
