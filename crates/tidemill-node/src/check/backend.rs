//! Checks of a backend on servers without asking them: its address, and names on them.

use crate::diagnostic::Problem;
use tidemill_types::job::{BackendSpec, CheckpointSpec, shown};

/// Longest prefix or name of a table, in bytes: the rest of the longest name of an object
/// beside a job's name and a key.
const NAME_BYTES_MAX: usize = 400;

pub(super) fn check(spec: &CheckpointSpec, problems: &mut Vec<Problem>) {
    let mut at = |kind: &str, field: &str, is_good: bool, value: &str, expected: &str| {
        if !is_good {
            let path = ["checkpoint", "backend", kind, field];
            let problem = Problem::new(path, format!("`{}` cannot be taken", shown(value)));
            problems.push(problem.expected(expected));
        }
    };
    match &spec.backend {
        BackendSpec::Indexed(_) | BackendSpec::Files(_) => {}
        BackendSpec::Redis(redis) => {
            let is_address = begins(&redis.url, &["redis://", "rediss://"]);
            at("redis", "url", is_address, &redis.url, "`redis://HOST:PORT/DB`, or `rediss://`");
            let is_name = is_plain(&redis.prefix, "-_.:/");
            at("redis", "prefix", is_name, &redis.prefix, PLAIN);
            at("redis", "timeout", redis.timeout.0 > 0, &redis.timeout.to_string(), TIME);
        }
        BackendSpec::ObjectStore(bucket) => {
            let is_address = begins(&bucket.url, &["s3://", "s3a://"])
                && bucket.url.split_once("://").is_some_and(|(_, it)| is_plain(it, "-_./="));
            at("object_store", "url", is_address, &bucket.url, "`s3://BUCKET/PREFIX`");
            if let Some(endpoint) = &bucket.endpoint {
                let is_address = begins(endpoint, &["http://", "https://"]);
                at("object_store", "endpoint", is_address, endpoint, "`https://HOST:PORT`");
            }
            let timeout = bucket.timeout;
            at("object_store", "timeout", timeout.0 > 0, &timeout.to_string(), TIME);
        }
        BackendSpec::Hbase(hbase) => {
            let is_address = begins(&hbase.url, &["http://", "https://"]);
            at("hbase", "url", is_address, &hbase.url, "`http://HOST:PORT`");
            at("hbase", "table", is_plain(&hbase.table, "-_.:"), &hbase.table, PLAIN);
            at("hbase", "timeout", hbase.timeout.0 > 0, &hbase.timeout.to_string(), TIME);
        }
    }
}

const PLAIN: &str = "letters, digits, `-`, `_` and `.`, up to 400 of them";
const TIME: &str = "a time such as `30s`";

/// True if an address has one of these schemes, and something behind it.
fn begins(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

fn is_plain(name: &str, also: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(good)
}
