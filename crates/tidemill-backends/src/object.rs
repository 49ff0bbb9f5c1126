//! Checkpoints in a bucket of an object store that speaks S3.
//!
//! ```text
//! PREFIX/JOB/owner             whose it is
//! PREFIX/JOB/value/6d/k0104    the value of key 6d0104, sealed
//! PREFIX/JOB/value/k           that of the key without bytes
//! ```
//!
//! The first byte of a key is a folder, so that listing the keys of a prefix does not list all.
//! Puts go out in parallel, then deletions. An object that was put is durable. The owner is checked
//! before each batch, and written only if there is none.
//!
//! Not here: folders of the machine, which this library does not sync.

mod fault;

#[cfg(test)]
mod tests;

use crate::{
    remote::{hex, unhex},
    runtime::{Runtime, within},
    seal::{SEAL_BYTES, seal},
    store::{Changes, OwnerCheck, Store},
};
use bytes::Bytes;
use fault::ObjectRequest;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, PutMode, RetryConfig, path::Path};
use std::{env, future::Future, sync::Arc, time::Duration};
use tidemill_checkpoints::BackendError;
use tidemill_types::job::ObjectStoreSpec;

/// The requests in flight at once.
const REQUESTS: usize = 8;
/// The time limit of a connection attempt, if a request may take that long.
const CONNECT: Duration = Duration::from_secs(5);
/// The repetitions of a request within its time limit.
const RETRIES: usize = 3;
/// The longest object. One request can write far longer ones.
const VALUE_BYTES_MAX: usize = (1 << 30) + SEAL_BYTES;

/// The place of a job in a bucket.
pub(crate) struct ObjectPlace {
    place: String,
    store: Arc<dyn ObjectStore>,
    folder: Path,
    timeout: Duration,
    runtime: Runtime,
}

impl ObjectPlace {
    /// Parses the address. Sends no request.
    pub(crate) fn new(spec: &ObjectStoreSpec, job: &str) -> Result<Self, BackendError> {
        let refuse = |why: String| BackendError::Refused { place: spec.url.clone(), why };
        let (bucket, prefix) = bucket_of(&spec.url).map_err(refuse)?;
        let timeout = Duration::from_micros(spec.timeout.0.max(1).unsigned_abs());
        let allow_http = spec.allow_http || env::var("AWS_ALLOW_HTTP").is_ok_and(|it| it == "true");
        let client = ClientOptions::new()
            .with_allow_http(allow_http)
            .with_timeout(timeout)
            .with_connect_timeout(CONNECT.min(timeout));
        let retry =
            RetryConfig { max_retries: RETRIES, retry_timeout: timeout, ..Default::default() };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_virtual_hosted_style_request(spec.virtual_hosted)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &spec.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &spec.region {
            builder = builder.with_region(region);
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        if !allow_http && endpoint.as_deref().is_some_and(|it| it.starts_with("http://")) {
            let why = "the endpoint is without TLS: say `allow_http: true` if that is meant";
            return Err(refuse(why.to_owned()));
        }
        let store = builder.build().map_err(|error| refuse(fault::said(&error)))?;
        let at = endpoint.map_or_else(String::new, |it| format!(" at {it}"));
        let folder = Path::from(format!("{prefix}/{job}"));
        let place = format!("s3://{bucket}/{folder}{at}");
        Self::on(Arc::new(store), place, folder, timeout)
    }

    fn on(
        store: Arc<dyn ObjectStore>,
        place: String,
        folder: Path,
        timeout: Duration,
    ) -> Result<Self, BackendError> {
        let runtime = Runtime::new().map_err(|error| {
            let why = format!("there is no room for its client: {error}");
            BackendError::Refused { place: place.clone(), why }
        })?;
        Ok(Self { place, store, folder, timeout, runtime })
    }

    fn owner_path(&self) -> Path {
        self.folder.clone().join("owner")
    }

    fn path(&self, key: &[u8]) -> Path {
        let values = self.folder.clone().join("value");
        match key.split_first() {
            Some((first, rest)) => values.join(hex(&[*first])).join(format!("k{}", hex(rest))),
            None => values.join("k"),
        }
    }

    /// The key of an object in the folder of the values.
    fn key_of(&self, path: &Path) -> Option<Vec<u8>> {
        let parts: Vec<_> = path.prefix_match(&self.folder)?.collect();
        let parts: Vec<&str> = parts.iter().map(|part| part.as_ref()).collect();
        match parts[..] {
            ["value", "k"] => Some(Vec::new()),
            ["value", first, rest] => unhex(&[first, rest.strip_prefix('k')?].concat()),
            _ => None,
        }
    }

    /// Sends a request within its time limit.
    async fn ask<T>(
        &self,
        asked: ObjectRequest,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, BackendError> {
        let place = || self.place.clone();
        match within(self.timeout, request).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) => fault::told(asked, &error, place()),
            Err(_) => {
                let why = format!("no answer within {:?}", self.timeout);
                Err(BackendError::Unreachable { place: place(), why })
            }
        }
    }

    async fn read(&self, path: &Path) -> Result<Option<Bytes>, BackendError> {
        self.ask(ObjectRequest::Read, async { self.store.get(path).await?.bytes().await }).await
    }

    async fn put_all(&self, puts: &[(&[u8], &[u8])]) -> Result<(), BackendError> {
        let put = |(key, value): &(&[u8], &[u8])| {
            let (path, sealed) = (self.path(key), seal(key, value));
            async move {
                self.ask(ObjectRequest::Write, self.store.put(&path, sealed.into())).await.map(drop)
            }
        };
        let puts = stream::iter(puts.iter().map(put));
        puts.buffer_unordered(REQUESTS).try_collect().await
    }

    async fn delete_all(&self, deletes: &[&[u8]]) -> Result<(), BackendError> {
        let mut left = deletes;
        while !left.is_empty() {
            // One request to S3, and so one that has its time.
            let (some, rest) = left.split_at(left.len().min(1_000));
            let paths: Vec<_> = some.iter().map(|key| Ok(self.path(key))).collect();
            let mut deleted = self.store.delete_stream(stream::iter(paths).boxed());
            while let Some(Some(outcome)) =
                self.ask(ObjectRequest::Delete, async { Ok(deleted.next().await) }).await?
            {
                if let Err(error) = outcome {
                    fault::told::<()>(ObjectRequest::Delete, &error, self.place.clone())?;
                }
            }
            left = rest;
        }
        Ok(())
    }
}

/// The bucket and the prefix of an address.
fn bucket_of(url: &str) -> Result<(&str, &str), String> {
    const EXPECTED: &str = "an address is `s3://BUCKET/PREFIX`";
    if url.starts_with("file:") {
        return Err(format!("{EXPECTED}; for a folder say `backend: {{files: {{}}}}`"));
    }
    let rest = url.strip_prefix("s3://").or_else(|| url.strip_prefix("s3a://"));
    let rest = rest.ok_or_else(|| EXPECTED.to_owned())?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || bucket.contains(['@', '?', '#']) {
        return Err(EXPECTED.to_owned());
    }
    Ok((bucket, prefix.trim_matches('/')))
}

impl Store for ObjectPlace {
    fn place(&self) -> &str {
        &self.place
    }

    fn how_to_free(&self) -> String {
        format!("delete its record: the object `{}`", self.owner_path())
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn owner(&self) -> Result<Option<Bytes>, BackendError> {
        self.runtime.run(self.read(&self.owner_path()))
    }

    fn claim(&self, record: &[u8]) -> Result<(), BackendError> {
        let (path, record) = (self.owner_path(), record.to_vec());
        let put = self.store.put_opts(&path, record.into(), PutMode::Create.into());
        self.runtime.run(self.ask(ObjectRequest::Create, put)).map(drop)
    }

    fn free(&self, owner: &OwnerCheck<'_>) -> Result<(), BackendError> {
        let path = self.owner_path();
        self.runtime.run(async {
            owner(self.read(&path).await?.as_deref())?;
            self.ask(ObjectRequest::Delete, self.store.delete(&path)).await.map(drop)
        })
    }

    fn apply(&self, owner: &OwnerCheck<'_>, changes: &Changes<'_>) -> Result<(), BackendError> {
        self.runtime.run(async {
            owner(self.read(&self.owner_path()).await?.as_deref())?;
            self.put_all(&changes.puts).await?;
            self.delete_all(&changes.deletes).await
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.runtime.run(self.read(&self.path(key)))
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let values = self.folder.clone().join("value");
        let folder = match prefix.first() {
            Some(first) => values.join(hex(&[*first])),
            None => values,
        };
        self.runtime.run(async {
            let mut objects = self.store.list(Some(&folder));
            let mut keys = Vec::new();
            while let Some(object) =
                self.ask(ObjectRequest::List, async { objects.try_next().await }).await?.flatten()
            {
                let key = self.key_of(&object.location);
                keys.extend(key.filter(|key| key.starts_with(prefix)));
            }
            Ok(keys)
        })
    }
}
