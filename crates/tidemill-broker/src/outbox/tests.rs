//! A client that takes its time, and a file that changes meanwhile.

use super::*;
use crate::tests::client::chunk;
use std::{os::unix::fs::FileExt, path::Path, task::Poll};
use tempfile::TempDir;
use tidemill_env::World;
use tidemill_log::{AppendOptions, Fsync, Log, LogOptions, ReadCursor, ReadLimit, StreamSpec};
use tidemill_types::ByteSize;
use tokio::{io::AsyncReadExt, net::TcpListener};

const CHUNKS: usize = 20;

/// Chunks of 2 MB each, all to be sent out of one file: more than two sockets hold.
fn filled() -> (TempDir, Log, Vec<OutgoingChunk>) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        LogOptions { memory_bytes: ByteSize(0), fsync: Fsync::Os, ..LogOptions::default() };
    let log = Log::open(&World::real(), folder.path(), options).unwrap();
    let spec = StreamSpec {
        segment_bytes: ByteSize(64 << 20),
        max_chunk_bytes: ByteSize(4 << 20),
        ..StreamSpec::default()
    };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    for index in 0..CHUNKS {
        let value = char::from(b'a' + index as u8).to_string().repeat(2_000_000);
        streamlet.append(&chunk(&[&value]), AppendOptions::default()).unwrap().wait().unwrap();
    }
    let limit = ReadLimit { max_bytes: usize::MAX, ..ReadLimit::default() };
    let found = streamlet.read_to_send(&mut ReadCursor::default(), 0, limit).unwrap().chunks;
    assert!(found.len() == CHUNKS && found.iter().all(|it| matches!(it, OutgoingChunk::File(_))));
    (folder, log, found)
}

/// Changes a byte in the middle of the last chunk.
fn damage_the_last(folder: &Path) {
    let mut folders = std::fs::read_dir(folder.join("streams")).unwrap();
    let files = std::fs::read_dir(folders.next().unwrap().unwrap().path()).unwrap();
    let mut paths = files.map(|it| it.unwrap().path());
    let path = paths.find(|it| it.extension().is_some_and(|it| it == "seg")).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let last = [b'a' + CHUNKS as u8 - 1; 64];
    let mut places = (0..bytes.len()).step_by(1 << 18);
    let place = places.find(|it| bytes[*it..].starts_with(&last)).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"!", place as u64).unwrap();
}

/// What a client gets that begins to read only when all that fits is on its way, and then
/// `meanwhile` happens; and how the sending ended.
async fn sent(parts: Vec<OutgoingChunk>, meanwhile: impl FnOnce()) -> (Vec<u8>, io::Result<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_reading, writing) = listener.accept().await.unwrap().0.into_split();
    let mut out = Outbox::new(writing);
    out.put(ResponseFrame::of_parts(parts));
    let mut got = Vec::new();
    let ended = {
        let mut flush = Box::pin(out.flush());
        let first = std::future::poll_fn(|context| Poll::Ready(flush.as_mut().poll(context))).await;
        assert!(first.is_pending(), "it does not fit");
        meanwhile();
        let mut block = vec![0; 1 << 20];
        loop {
            tokio::select! {
                ended = &mut flush => break ended,
                count = client.read(&mut block) => got.extend(&block[..count.unwrap()]),
            }
        }
    };
    drop((out, _reading));
    client.read_to_end(&mut got).await.unwrap();
    (got, ended)
}

fn bytecount(bytes: &[u8], wanted: u8) -> usize {
    bytes.iter().filter(|it| **it == wanted).count()
}

#[tokio::test]
async fn a_slow_client_gets_it_all() {
    let (_folder, _log, parts) = filled();
    let (got, ended) = sent(parts, || {}).await;
    ended.unwrap();
    let letters: Vec<usize> = (0..CHUNKS).map(|it| bytecount(&got, b'a' + it as u8)).collect();
    assert!(letters.iter().all(|it| (2_000_000..2_001_000).contains(it)), "{letters:?}");
}

#[tokio::test]
async fn row_20_what_is_damaged_while_a_client_takes_its_time_is_not_sent() {
    let (folder, _log, parts) = filled();
    let bytes: usize = parts.iter().map(OutgoingChunk::len).sum();
    let (got, ended) = sent(parts, || damage_the_last(folder.path())).await;
    let error = ended.unwrap_err();
    assert!(error.to_string().contains(".seg"), "{error}");
    let last_bytes = bytes / CHUNKS;
    assert_eq!(got.len(), bytes - last_bytes, "what stands before it is sent");
    assert!(bytecount(&got, b'a' + CHUNKS as u8 - 1) < 1_000, "none of it");
}
