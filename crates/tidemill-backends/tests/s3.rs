//! The contract on a real store that speaks S3, and what only S3 has.
//!
//! `TIDEMILL_TEST_S3` is its endpoint, with a bucket `contract`. The credentials are those of the
//! environment.

#![allow(clippy::unwrap_used, reason = "a test says so by failing")]

mod contract;

use std::{path::Path, sync::Arc};
use tidemill_backends::{OwnerJob, RemoteBackend};
use tidemill_checkpoints::BackendError;
use tidemill_env::World;
use tidemill_types::{Span, job::ObjectStoreSpec};

fn spec() -> ObjectStoreSpec {
    ObjectStoreSpec {
        // Another prefix in each run, as owners stay.
        url: format!("s3://contract/of/{}", std::process::id()),
        endpoint: Some(std::env::var("TIDEMILL_TEST_S3").expect("the endpoint of a store")),
        region: Some("us-east-1".to_owned()),
        allow_http: true,
        virtual_hosted: false,
        timeout: Span(20_000_000),
    }
}

fn open_with(spec: &ObjectStoreSpec, name: &str, folder: &Path) -> contract::Opened {
    let backend = RemoteBackend::bucket(spec, OwnerJob { name, folder }, &World::real())?;
    Ok(Arc::new(backend))
}

fn open(name: &str, folder: &Path) -> contract::Opened {
    open_with(&spec(), name, folder)
}

contract! { open }

#[test]
fn a_bucket_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ObjectStoreSpec { url: "s3://no-such-bucket/x".to_owned(), ..spec() };
    let error = open_with(&spec, "nowhere", folder.path()).err().unwrap();
    assert!(matches!(error, BackendError::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("no such bucket") && text.contains("s3://no-such-bucket/x"), "{text}");
}
