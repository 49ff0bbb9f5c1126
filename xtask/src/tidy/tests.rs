//! What the rules refuse, and what they let pass.

use super::rules::{dependencies, offences, own_versions};

const MANIFEST: &str = "\
[package]
name = \"tidemill-x\"
[dependencies]
tidemill-types.workspace = true
# tidemill-node.workspace = true
bytes = { workspace = true, features = [\"serde\"] }
serde = \"1\"

[dev-dependencies]
tidemill-node.workspace = true
tokio.version = \"1\"
";

#[test]
fn dependencies_are_those_of_one_section() {
    assert_eq!(dependencies(MANIFEST), ["tidemill-types", "bytes", "serde"]);
    assert_eq!(own_versions(MANIFEST), ["serde = \"1\"", "tokio.version = \"1\""]);
}

/// The words by which the offences of a source are known, in their order.
fn check(name: &str, text: &str, expected: &[&str]) {
    let found = offences(name, text);
    assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
    for (offence, word) in found.iter().zip(expected) {
        assert!(offence.contains(word), "{name}: `{offence}` does not speak of `{word}`");
    }
}

#[test]
fn what_a_simulation_cannot_see_is_refused_where_it_must() {
    let lock = "//! A lock.\nuse std::{io, sync::{Arc, Mutex}};\nuse std::time::Duration;\n";
    check("crates/tidemill-flow/src/runtime/job.rs", lock, &["`Mutex` of `std`"]);
    check("crates/tidemill-flow/src/engine/tests.rs", lock, &[]);
    check("crates/tidemill-broker/src/broker.rs", lock, &[]);
    let seen =
        "//! A lock.\nuse std::sync::Arc;\nuse tidemill_env::sync::{Mutex, atomic::AtomicU64};\n";
    check("crates/tidemill-checkpoints/src/file_backend.rs", seen, &[]);
    let inline = "//! A lock.\nstatic ONE: std::sync::RwLock<()> = new();\n";
    check("crates/tidemill-checkpoints/src/file_backend.rs", inline, &["`RwLock` of `std`"]);
    for room in ["client", "cluster", "coord", "log"] {
        let file = format!("crates/tidemill-{room}/src/log.rs");
        check(&file, lock, &["`Mutex` of `std`"]);
        check(&file, "//! A wait.\nfn f() { std::thread::yield_now() }\n", &["`std::thread`"]);
        check(&file, "//! A wait.\nuse std::{io, thread, time::Duration};\n", &["`std::thread`"]);
        check(&file, "//! A wait.\nuse std::{io, time::Duration};\nmod thread;\n", &[]);
        check(&file, "//! A wait.\n// std::thread::sleep is the clock's.\n", &[]);
    }
}

#[test]
fn a_source_is_refused_for_what_it_is() {
    let file = "crates/tidemill-flow/src/block.rs";
    check(file, "//! A block.\nfn safe() {}\n", &[]);
    check(file, "fn safe() {}\n", &["header"]);
    check(file, &format!("//! Long.\n{}", "\n".repeat(500)), &["501 lines"]);
    check(file, concat!("//! Later.\nfn f() { todo", "!() }\n"), &["leftover"]);
    check(file, concat!("//! Later.\n// TO", "DO: this\n"), &["leftover"]);
    check(file, concat!("//! Asleep.\n#[ig", "nore]\nfn f() {}\n"), &["leftover"]);
    check(file, concat!("//! Bold.\nfn f() { unsafe", " { g() } }\n"), &["allowed in"]);
    check(file, concat!("//! Talks of it.\n// unsafe", " { } is denied\n"), &[]);
    check(file, concat!("//! Vague.\npub(crate) mod", " utils;\n"), &["module `utils`"]);
    check(file, "//! Disk.\nuse std::fs;\n", &["env::Disk"]);
    check(file, "//! Speaks.\n/// Unlike std::fs, this is simulated.\n", &[]);
}

#[test]
fn a_path_decides_what_applies() {
    check("crates/tidemill-flow/src/block/tests.rs", &format!("//! T.\n{}", "\n".repeat(900)), &[]);
    check("crates/tidemill-flow/src/block/tests.rs", "//! T.\nuse std::fs;\n", &[]);
    check("crates/tidemill-env/src/real.rs", "//! Disk.\nuse std::fs;\n", &[]);
    check("crates/tidemill/src/alloc.rs", concat!("//! A.\nunsafe", " impl G for C {}\n"), &[]);
    check("crates/tidemill-flow/src/common.rs", "//! Vague.\n", &["`common`"]);
    check("crates/tidemill-flow/src/string_utils.rs", "//! Vague.\n", &["`utils`"]);
}
