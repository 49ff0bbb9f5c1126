//! The contract on a store in memory, also on one that dies, and addresses.

mod dying;

use super::*;
use crate::remote::tests::{Mortal, survives_a_kill_at_any_request};
use crate::{OwnerJob, RemoteBackend, contract, owner::OwnerIdentity};
use object_store::memory::InMemory;
use std::{collections::BTreeMap, sync::Mutex};
use tidemill_checkpoints::{Backend, WriteBatch};
use tidemill_env::World;
use tidemill_types::Span;

fn open(name: &str, folder: &std::path::Path) -> contract::Opened {
    static BUCKETS: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());
    let bucket = Arc::clone(BUCKETS.lock().unwrap().entry(name.to_owned()).or_default());
    let world = World::real();
    let identity = OwnerIdentity::open(&world, folder)?;
    let path = Path::from(format!("prefix/{name}"));
    let place = ObjectPlace::on(bucket, format!("memory {path}"), path, Duration::from_secs(5))?;
    Ok(Arc::new(RemoteBackend::open(Box::new(place), identity, &world)?))
}

crate::contract! { open }

/// A bucket, and how many requests it answers.
struct Bucket(Arc<dying::Dying>);

impl Mortal for Bucket {
    fn open(&self, world: &World) -> Result<Arc<dyn Backend>, BackendError> {
        let identity = OwnerIdentity::open(world, std::path::Path::new("/job"))?;
        let path = Path::from("prefix/job");
        let store = Arc::clone(&self.0) as _;
        let place = ObjectPlace::on(store, "memory".to_owned(), path, Duration::from_secs(5))?;
        Ok(Arc::new(RemoteBackend::open(Box::new(place), identity, world)?))
    }

    fn revive(&self) {
        self.0.revive();
    }
}

#[test]
fn e1_row_44_a_checkpoint_is_whole_or_not_there_after_a_bucket_dies_at_any_request() {
    for loses_answer in [false, true] {
        let dying = |left| Bucket(Arc::new(dying::Dying::new(left, loses_answer)));
        survives_a_kill_at_any_request(dying);
    }
}

#[test]
fn nothing_is_deleted_before_all_that_a_batch_puts_is_there() {
    for loses_answer in [false, true] {
        for requests in 0.. {
            let bucket = Bucket(Arc::new(dying::Dying::new(u64::MAX, loses_answer)));
            let sim = World::simulated(requests);
            let backend = bucket.open(&sim.world).unwrap();
            let mut batch = WriteBatch::default();
            (0..9).for_each(|nth| batch.put(&[b'a', nth], b"before"));
            backend.commit(&mut batch).unwrap();
            (0..9).for_each(|nth| batch.delete(&[b'a', nth]));
            (0..9).for_each(|nth| batch.put(&[b'b', nth], b"after"));
            bucket.0.die_after(requests);
            let committed = backend.commit(&mut batch);
            bucket.revive();
            let count = |prefix: &[u8]| backend.keys(prefix).unwrap().len();
            assert!(count(b"a") == 9 || count(b"b") == 9, "after {requests} requests");
            if committed.is_ok() {
                assert_eq!((count(b"a"), count(b"b")), (0, 9));
                assert!(requests > 18, "it never died");
                break;
            }
        }
    }
}

#[test]
fn addresses() {
    assert_eq!(bucket_of("s3://bucket/a/b/"), Ok(("bucket", "a/b")));
    assert_eq!(bucket_of("s3a://bucket"), Ok(("bucket", "")));
    for wrong in ["bucket", "http://host/bucket", "s3://", "s3:///prefix", "s3://user@bucket/x"] {
        assert!(bucket_of(wrong).unwrap_err().contains("s3://BUCKET/PREFIX"), "{wrong}");
    }
    assert!(bucket_of("file:///tmp").unwrap_err().contains("files"));
}

#[test]
fn an_endpoint_without_tls_has_to_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ObjectStoreSpec {
        url: "s3://bucket".to_owned(),
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        region: None,
        allow_http: false,
        virtual_hosted: false,
        timeout: Span(1_000_000),
    };
    let job = OwnerJob { name: "job", folder: folder.path() };
    let error = RemoteBackend::bucket(&spec, job, &World::real()).err().unwrap();
    assert!(error.to_string().contains("allow_http"), "{error}");
}
