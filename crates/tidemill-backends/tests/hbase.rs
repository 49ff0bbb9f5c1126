//! The contract on a real HBase, and what only HBase has.
//!
//! `TIDEMILL_TEST_HBASE` is the address of its REST gateway, and `TIDEMILL_TEST_HBASE_TABLE` a table
//! with a column family `t`, which is empty.

#![allow(clippy::unwrap_used, reason = "a test says so by failing")]

mod contract;

use std::{path::Path, sync::Arc};
use tidemill_backends::{OwnerJob, RemoteBackend};
use tidemill_checkpoints::BackendError;
use tidemill_env::World;
use tidemill_types::{Span, job::HbaseSpec};

fn spec() -> HbaseSpec {
    let given = |name: &str| std::env::var(name).expect("where the table is");
    let (url, table) = (given("TIDEMILL_TEST_HBASE"), given("TIDEMILL_TEST_HBASE_TABLE"));
    HbaseSpec { url, table, timeout: Span(30_000_000) }
}

fn open_with(spec: &HbaseSpec, name: &str, folder: &Path) -> contract::Opened {
    let backend = RemoteBackend::hbase(spec, OwnerJob { name, folder }, &World::real())?;
    Ok(Arc::new(backend))
}

fn open(name: &str, folder: &Path) -> contract::Opened {
    open_with(&spec(), name, folder)
}

contract! { open }

#[test]
fn a_table_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let spec = HbaseSpec { table: "no_such_table".to_owned(), ..spec() };
    let error = open_with(&spec, "nowhere", folder.path()).err().unwrap();
    assert!(matches!(error, BackendError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("create 'no_such_table', 't'"), "{error}");
}
