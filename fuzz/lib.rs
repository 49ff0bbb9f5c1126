//! Parts that fuzz targets share: seeds, memory bounds, and reading a file of a format.
//!
//! Run one with `cargo +nightly fuzz run json --features connectors`.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, path::Path};

#[cfg(feature = "connectors")]
mod files;

#[cfg(feature = "connectors")]
pub use files::read_file;

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Libraries that trust their input in places. Their callers catch the panics and report damaged
/// input.
const CAUGHT: [&str; 3] = ["/arrow-", "/parquet-", "/datafusion-"];

/// Before the first input: puts seeds into the corpus of a target, and lets panics of [`CAUGHT`] be
/// caught, while all others end the process.
pub fn begin(target: &str, seeds: Vec<Vec<u8>>) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&corpus).expect("the corpus can be written to");
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{number}")), seed).expect("as said");
    }
    let ends = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |at| at.file());
        if !CAUGHT.iter().any(|it| file.contains(it)) {
            ends(panic);
        }
    }));
}

/// Runs this, and checks that all the memory that was asked for meanwhile, given back or not, was at
/// most so many bytes.
pub fn within<T>(bytes_max: usize, run: impl FnOnce() -> T) -> T {
    let region = Region::new(MEMORY);
    let result = run();
    let bytes = region.change().bytes_allocated;
    assert!(bytes <= bytes_max, "{bytes} bytes were asked for, {bytes_max} are possible");
    result
}
