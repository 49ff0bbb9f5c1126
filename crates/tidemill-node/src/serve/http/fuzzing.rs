//! Any bytes as the input of an HTTP connection, for tests and for the fuzz target `http`.
//!
//! All but submissions of jobs: they would run. Job files are the input of the target `job`.

use super::{routes, state::HttpState};
use crate::{jobs::Jobs, serve::settings::HttpSettings, streams::Streams};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use std::{path::Path, sync::Arc, time::Duration};
use tidemill_broker::{Broker, BrokerSettings};
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};
use tidemill_types::{ByteSize, Span};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    sync::watch,
    time::timeout,
};

/// Bytes of a body.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// Sends these bytes to a node with a stream `t`, and gives back all that it answers; one that
/// takes longer than `patience` is left.
///
/// # Panics
/// An answer says that the node is to blame.
pub fn http(bytes: &[u8], patience: Duration) -> Vec<u8> {
    // A job that is submitted would run.
    if bytes.windows(10).any(|it| it.eq_ignore_ascii_case(b"POST /jobs")) {
        return Vec::new();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.expect("a runtime").block_on(asked(bytes, patience));
    let text = String::from_utf8_lossy(&answer);
    for status in ["500", "501", "502", "504"] {
        assert!(!text.contains(&format!("HTTP/1.1 {status}")), "{text}");
    }
    answer
}

async fn asked(bytes: &[u8], patience: Duration) -> Vec<u8> {
    let sim = World::simulated(0);
    let options = LogOptions { streamlets_max: 64, sync_threads: 1, ..LogOptions::default() };
    let log = Arc::new(Log::open(&sim.world, Path::new("/data/log"), options).expect("no files"));
    let settings = BrokerSettings::default();
    let broker = Broker::open(&sim.world, Arc::clone(&log), Path::new("/data"), settings);
    let broker = broker.expect("no files");
    log.create("t", StreamSpec::default()).expect("there is room");
    let streams = Streams::of(&log, &broker);
    let jobs = Jobs::open(&sim.world, streams, Path::new("/data")).expect("no files");
    let settings = HttpSettings {
        body_bytes: ByteSize(BODY_BYTES_MAX),
        bodies_bytes: ByteSize(16 * BODY_BYTES_MAX),
        transfer_time: Span(5_000),
        ..HttpSettings::default()
    };
    let (stop, stopped) = watch::channel(false);
    let state = HttpState::new(&sim.world, &log, &broker, &jobs, None, settings, stopped);
    let (mut client, server) = duplex(1 << 20);
    let service = TowerToHyperService::new(routes::router(Arc::new(state)));
    let mut answer = Vec::new();
    let talk = async {
        let served = http1::Builder::new()
            .max_buf_size(32 << 10)
            .half_close(true)
            .serve_connection(TokioIo::new(server), service);
        let asks = async {
            drop(client.write_all(bytes).await);
            drop(client.shutdown().await);
            drop(client.read_to_end(&mut answer).await);
        };
        let _ended = tokio::join!(served, asks);
    };
    let _waits = timeout(patience, talk).await;
    stop.send_replace(true);
    jobs.close();
    broker.close();
    log.close();
    answer
}

/// A request for each thing that can be asked for, and some with bodies.
#[must_use]
pub fn http_seeds() -> Vec<Vec<u8>> {
    let of = |method: &str, path: &str, more: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: [::1]\r\n{more}Content-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    let submits = |it: &&routes::Route| it.method == "post" && it.path.starts_with("/jobs");
    let plain = routes::ROUTES.iter().filter(|it| !submits(it)).map(|it| {
        let path = it.path.replace("{name}", "t").replace("{number}", "1");
        let path = path.replace("{stage}", "s").replace("{table}", "state");
        let query: Vec<String> = it.parameters.iter().map(|name| format!("{name}=1")).collect();
        of(&it.method.to_uppercase(), &format!("{path}?{}", query.join("&")), "", b"")
    });
    let json = "Content-Type: application/x-ndjson\r\n";
    let append =
        of("POST", "/streams/t/records?key=k", json, b"{\"k\":1}\n\n{\"k\":\"b\",\"v\":[1.5]}");
    let line = b"weather,place=a\\ b temperature=21.5,wet=t,n=3i,s=\"x\\\"y\" 1465839830100400200\n# none\n";
    let with_bodies = [
        [&append[..], &of("GET", "/streams/t/records?from=0&max=10", "", b"")].concat(),
        of("POST", "/write?db=t&precision=ns", "", line),
        of("POST", "/api/v2/write?bucket=t&org=o&precision=ms", "", line),
        of("PUT", "/streams/new?partitions=2&retention.ms=1000", "", b""),
        of("POST", "/query?q=SHOW%20DATABASES", "", b"q=CREATE+DATABASE+t"),
        of("POST", "/streams/t", "Content-Encoding: gzip\r\n", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
    ];
    plain.chain(with_bodies).collect()
}

#[cfg(test)]
mod tests;
