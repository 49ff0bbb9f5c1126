//! Any bytes as a file of the format `parquet`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::read_file(tidemill_types::job::Format::Parquet, bytes);
});
