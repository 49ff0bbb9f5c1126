//! When a job's state is saved, and where.

use super::{EmptySpec, custom};
use crate::units::{Span, UnitError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Checkpoints of a job (ChronoStream III-B).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSpec {
    /// When the next checkpoint is made (default 10s).
    pub every: Every,
    /// Where they are kept (default `{indexed: {}}`).
    pub backend: BackendSpec,
    /// When a job that resumes reads its state back (default `eager`).
    pub recovery: Recovery,
}

impl Default for CheckpointSpec {
    fn default() -> Self {
        let (backend, recovery) = (BackendSpec::default(), Recovery::default());
        Self { every: Span(10_000_000).into(), backend, recovery }
    }
}

/// When the next checkpoint is made. In a file: `10s`, `auto`, or a table of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "custom::EveryForm")]
pub enum Every {
    /// As often as the backend keeps up with: at most ten times a second, at least once a minute.
    Auto,
    /// At the first bound that is reached.
    Bounds {
        /// Time from the beginning of one checkpoint to that of the next.
        time: Option<Span>,
        /// Records of a slice from one save of it to the next (`at-most-once`, where each slice is
        /// saved by itself).
        records: Option<u64>,
    },
}

/// Reads `auto`, or a time.
impl FromStr for Every {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text {
            "auto" => Ok(Self::Auto),
            time => Ok(time.parse::<Span>()?.into()),
        }
    }
}

impl From<Span> for Every {
    fn from(time: Span) -> Self {
        Self::Bounds { time: Some(time), records: None }
    }
}

/// Where checkpoints are kept: in the job's data folder, or on servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendSpec {
    /// In append-only files with an index, in the job's data folder.
    Indexed(EmptySpec),
    /// In a file for each key, in the job's data folder.
    Files(EmptySpec),
    /// In a Redis server.
    Redis(RedisSpec),
    /// In a bucket of an object store that speaks S3.
    ObjectStore(ObjectStoreSpec),
    /// In a table of HBase, through its REST gateway.
    Hbase(HbaseSpec),
}

/// Checkpoints in a Redis server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedisSpec {
    /// The server and its database: `redis://HOST:PORT/DB`, or `rediss://` for TLS. A user and a
    /// password that are not in it are taken from `REDIS_USERNAME` and `REDIS_PASSWORD`.
    pub url: String,
    /// Prefix of its keys, before the job's name (default `tidemill`).
    #[serde(default = "default_prefix")]
    pub prefix: String,
    /// Longest time of one request (default 30s).
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

/// Checkpoints in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectStoreSpec {
    /// The bucket, and the prefix of its objects, before the job's name:
    /// `s3://BUCKET/PREFIX`. Credentials are taken from the environment: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and the others of its tools.
    pub url: String,
    /// Where the store is, if it is not AWS: `http://HOST:PORT` (default: `AWS_ENDPOINT_URL`, else
    /// that of the region).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The region of the bucket (default: `AWS_REGION`, else `AWS_DEFAULT_REGION`, else
    /// `us-east-1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// An endpoint without TLS is accepted (default false).
    #[serde(default)]
    pub allow_http: bool,
    /// The bucket is part of the host's name, not of the path (default false).
    #[serde(default)]
    pub virtual_hosted: bool,
    /// Longest time of one request (default 30s).
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

/// Checkpoints in a table of HBase.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HbaseSpec {
    /// The REST gateway: `http://HOST:PORT`. A user and a password that are not in it are taken
    /// from `HBASE_REST_USERNAME` and `HBASE_REST_PASSWORD`.
    pub url: String,
    /// The table; it must be there, with a column family `t` (default `tidemill`).
    #[serde(default = "default_prefix")]
    pub table: String,
    /// Longest time of one request (default 30s).
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

fn default_prefix() -> String {
    "tidemill".to_owned()
}

fn default_timeout() -> Span {
    Span(30_000_000)
}

/// An address as it may be shown: without its user and password.
#[must_use]
pub fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let Some(end) = authority.rfind('@') else { return url.to_owned() };
    format!("{scheme}://{}", &rest[end + 1..])
}

impl std::fmt::Debug for RedisSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (url, Self { prefix, timeout, .. }) = (shown(&self.url), self);
        write!(f, "RedisSpec {{ url: {url:?}, prefix: {prefix:?}, timeout: {timeout:?} }}")
    }
}

impl std::fmt::Debug for HbaseSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (url, Self { table, timeout, .. }) = (shown(&self.url), self);
        write!(f, "HbaseSpec {{ url: {url:?}, table: {table:?}, timeout: {timeout:?} }}")
    }
}

impl Default for BackendSpec {
    fn default() -> Self {
        Self::Indexed(EmptySpec {})
    }
}

/// When a job that resumes reads its state back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// All of it, before the job goes on.
    #[default]
    Eager,
    /// The job goes on at once; a slice is read when something comes for it.
    Lazy,
    /// As `lazy`, while the other slices are read ahead.
    Prefetch,
}
