//! The contract on a real Redis server, and what only Redis has.
//!
//! `TIDEMILL_TEST_REDIS` is its address. Its user and password are in `REDIS_USERNAME` and
//! `REDIS_PASSWORD` if it has any.

#![allow(clippy::unwrap_used, reason = "a test says so by failing")]

mod contract;

use std::{path::Path, sync::Arc};
use tidemill_backends::{OwnerJob, RemoteBackend};
use tidemill_checkpoints::{Backend, BackendError, WriteBatch};
use tidemill_env::World;
use tidemill_types::{Span, job::RedisSpec};

fn spec() -> RedisSpec {
    let url = std::env::var("TIDEMILL_TEST_REDIS").expect("the address of a server");
    RedisSpec { url, prefix: prefix(), timeout: Span(10_000_000) }
}

/// Another one in each run, as owners stay.
fn prefix() -> String {
    format!("contract-{}", std::process::id())
}

/// The name of a key in the database.
fn name(under: &str) -> String {
    format!("{}:{under}", prefix())
}

fn open_with(spec: &RedisSpec, name: &str, folder: &Path) -> contract::Opened {
    let backend = RemoteBackend::redis(spec, OwnerJob { name, folder }, &World::real())?;
    Ok(Arc::new(backend))
}

fn open(name: &str, folder: &Path) -> contract::Opened {
    open_with(&spec(), name, folder)
}

contract! { open }

/// Asks the server by hand.
fn by_hand(command: &mut redis::Cmd) -> redis::Value {
    let client = redis::Client::open(spec().url).unwrap();
    command.query(&mut client.get_connection().unwrap()).unwrap()
}

fn with_one_value(name: &str, folder: &Path) -> Arc<dyn Backend> {
    let backend = open(name, folder).unwrap();
    commit(&*backend, b"value").unwrap();
    backend
}

fn commit(backend: &dyn Backend, value: &[u8]) -> Result<(), BackendError> {
    let mut batch = WriteBatch::default();
    batch.put(b"key", value);
    backend.commit(&mut batch)
}

#[test]
fn row_20_a_flipped_byte_is_told_and_never_a_wrong_value() {
    let folder = tempfile::tempdir().unwrap();
    let backend = with_one_value("damaged", folder.path());
    by_hand(redis::cmd("SETRANGE").arg(name("damaged:value:key")).arg(2).arg("X"));
    let error = backend.get(b"key").unwrap_err();
    assert!(matches!(&error, BackendError::WrongValue { key, .. } if key == "6b6579"), "{error}");
    assert!(error.to_string().contains(&name("damaged")), "where: {error}");
}

#[test]
fn row_28_a_place_that_was_given_to_another_is_not_written_to_any_more() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backend = with_one_value("given", ours.path());
    by_hand(redis::cmd("DEL").arg(name("given:owner")));
    let error = commit(&*backend, b"lost").unwrap_err();
    assert!(matches!(error, BackendError::Lost { .. }), "{error}");
    let other = open("given", theirs.path()).unwrap();
    let error = commit(&*backend, b"wrong").unwrap_err();
    assert!(matches!(error, BackendError::Taken { .. }), "{error}");
    assert_eq!(other.get(b"key").unwrap().unwrap(), "value");
    commit(&*other, b"theirs").unwrap();
}

/// A server that was killed and had not synced, or one that was put back from a copy.
#[test]
fn a_server_that_went_back_in_time_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let backend = with_one_value("back", folder.path());
    commit(&*backend, b"second").unwrap();
    by_hand(redis::cmd("SET").arg(name("back:mark")).arg(1));
    let error = commit(&*backend, b"third").unwrap_err();
    assert!(matches!(error, BackendError::Lost { .. }), "{error}");
    drop(backend);
    let again = open("back", folder.path()).unwrap();
    commit(&*again, b"fourth").unwrap();
}

/// A server of one test alone, which the others would notice.
struct Own {
    server: std::process::Child,
    url: String,
}

impl Own {
    fn start(folder: &Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut command = std::process::Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port, "--dir"]).arg(folder);
        let server = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let own = Self { server, url: format!("redis://127.0.0.1:{port}") };
        let client = redis::Client::open(own.url.as_str()).unwrap();
        while client.get_connection().is_err() {}
        own
    }

    fn ask(&self, command: &mut redis::Cmd) -> redis::Value {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        command.query(&mut client.get_connection().unwrap()).unwrap()
    }

    fn set_memory(&self, bytes: u64) {
        self.ask(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes));
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn row_14_a_server_that_is_full_is_deleted_from() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Own::start(data.path());
    let spec = RedisSpec { url: server.url.clone(), ..spec() };
    let backend = open_with(&spec, "full", folder.path()).unwrap();
    let (mut puts, mut deletes) = (WriteBatch::default(), WriteBatch::default());
    [b"a", b"b", b"c"].iter().for_each(|key| puts.put(*key, b"value"));
    backend.commit(&mut puts).unwrap();
    server.set_memory(1);
    let error = commit(&*backend, b"value").unwrap_err();
    assert!(error.to_string().contains("Raise `maxmemory`"), "{error}");
    deletes.delete(b"a");
    deletes.delete(b"c");
    backend.commit(&mut deletes).unwrap();
    assert_eq!(backend.keys(b"").unwrap(), [b"b"]);
    assert_eq!(backend.get(b"a").unwrap(), None);
    // There is room again, and the server has lost nothing.
    server.set_memory(0);
    commit(&*backend, b"value").unwrap();
    server.set_memory(1);
    // Whoever has the place now keeps it.
    let record = server.ask(redis::cmd("GET").arg(name("full:owner")));
    let record: Vec<u8> = redis::from_redis_value(record).unwrap();
    server.set_memory(0);
    server.ask(redis::cmd("SET").arg(name("full:owner")).arg("another"));
    server.set_memory(1);
    deletes.delete(b"b");
    backend.commit(&mut deletes).unwrap_err();
    server.set_memory(0);
    server.ask(redis::cmd("SET").arg(name("full:owner")).arg(record));
    server.set_memory(1);
    assert_eq!(backend.keys(b"").unwrap(), [&b"b"[..], b"key"]);
    backend.clear().unwrap();
    let left = server.ask(&mut redis::cmd("DBSIZE"));
    assert_eq!(left, redis::Value::Int(0));
}

#[test]
fn a_connection_that_was_cut_is_made_again() {
    /// Of this test alone, so that it cuts no others.
    const DATABASE: &str = "db=9";
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}9", spec().url.trim_end_matches('0'));
    let backend = open_with(&RedisSpec { url, ..spec() }, "cut", folder.path()).unwrap();
    commit(&*backend, b"value").unwrap();
    for round in 0..4u8 {
        let clients = by_hand(redis::cmd("CLIENT").arg("LIST"));
        let clients: String = redis::from_redis_value(clients).unwrap();
        let own = clients.lines().find(|line| line.contains(DATABASE)).unwrap();
        let id = own.split_whitespace().find_map(|it| it.strip_prefix("id=")).unwrap();
        by_hand(redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id));
        match round % 2 {
            0 => assert!(backend.get(b"key").unwrap().is_some()),
            _ => commit(&*backend, &[round]).unwrap(),
        }
    }
}

#[test]
fn row_44_a_server_that_is_slow_is_given_up_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let spec = RedisSpec { timeout: Span(200_000), ..spec() };
    let backend = open_with(&spec, "slow", folder.path()).unwrap();
    by_hand(redis::cmd("CLIENT").arg("PAUSE").arg(1_000).arg("ALL"));
    let error = commit(&*backend, b"value").unwrap_err();
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("200ms"), "{error}");
    while commit(&*backend, b"value").is_err() {}
    assert_eq!(backend.get(b"key").unwrap().unwrap(), "value");
}

#[test]
fn a_wrong_password_is_told_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = spec().url.replace("://", "://nobody:secret-5@");
    let error = open_with(&RedisSpec { url: wrong, ..spec() }, "who", folder.path()).err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(matches!(error, BackendError::Refused { .. }), "{error}");
    assert!(text.contains("REDIS_PASSWORD") && !text.contains("secret-5"), "{text}");
}

#[test]
fn addresses_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["localhost:6379", "http://localhost", "redis://", "redis://localhost/no-number"] {
        let spec = RedisSpec { url: url.to_owned(), ..spec() };
        let error = open_with(&spec, "nowhere", folder.path()).err().unwrap();
        assert!(matches!(error, BackendError::Refused { .. }), "{url}: {error}");
    }
}
