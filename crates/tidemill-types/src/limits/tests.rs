//! The head of `limits.rs` and the figures of the documents hold.

use super::*;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A number with commas, as documents write it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the largest binary unit that it is a multiple of.
fn bytes(number: u64) -> String {
    match number {
        it if it % (1 << 20) == 0 => format!("{} MiB", it >> 20),
        it => format!("{} KiB", it >> 10),
    }
}

#[test]
fn documents_name_the_figures_of_the_code() {
    let job = "docs/job.md";
    let formats = "docs/formats.md";
    let per_second = 1_000_000 / CHECKPOINT_EVERY_US_MIN;
    let per_minute = 60_000_000 / CHECKPOINT_EVERY_US_MAX;
    assert_eq!((per_second, per_minute, WINDOWS_OF_RECORD_MAX), (10, 1, 1_000_000));
    for (document, sentence) in [
        (job, format!("A file has at most {}", bytes(JOB_FILE_BYTES_MAX))),
        (job, format!("at most {} sources, stages and sinks", grouped(STAGES_MAX as u64))),
        (job, format!("slices of every keyed stage, at most {}", grouped(SLICES_MAX.into()))),
        (job, format!("worker threads for this job, at most {}", grouped(WORKERS_MAX as u64))),
        (job, "from ten times a second to once a minute".to_owned()),
        (job, "`size` is no more than a million times `every`".to_owned()),
        (formats, format!("longer than {}", bytes(RECORD_BYTES_MAX as u64))),
        (formats, format!("its first {}", bytes(DEAD_LETTER_BYTES_MAX as u64))),
        (formats, format!("plain body are at most {}", bytes(FRAME_BYTES_MAX as u64))),
    ] {
        assert!(read(document).contains(&sentence), "{document} does not say: {sentence}");
    }
    // The number of a structure is a byte.
    assert_eq!(STRUCTURES_MAX, usize::from(u8::MAX) + 1);
}

/// The sources of all crates but this one.
fn sources() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("it is there").path();
            if path.is_dir() && !path.ends_with("tidemill-types") && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                text.push_str(&fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    text
}

#[test]
fn every_limit_is_kept_by_another_crate() {
    let sources = sources();
    let limits = read("crates/tidemill-types/src/limits.rs");
    let names =
        limits.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        assert!(sources.contains(name), "{name} is used by no other crate");
    }
}
