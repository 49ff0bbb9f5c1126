//! Answers of a hostile broker, for tests and for the fuzz target `client`.
//!
//! The first byte picks the client's call; answers follow, each after its length (2 bytes,
//! big-endian). The first byte of an answer decides if it gets a good head, or is sent alone. The
//! broker's versions are good ones, and after the last answer it is gone.

use crate::{
    Client, ClientOptions,
    admin::{NewStream, OffsetAt},
    consumer::{ConsumerOptions, Isolation, Start},
    producer::{NewRecord, ProducerOptions},
    transactions::OffsetMark,
};
use bytes::{Bytes, BytesMut};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};
use tidemill_env::{
    Connection, Listener, Net, World,
    lock::{Mutex, MutexGuard},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};
use tidemill_wire::kafka::{
    ApiKey, RequestHead, end_frame, known_versions,
    message::{ApiVersionsResponseData, api_versions_response::ApiVersion},
    read_response_head,
};

/// The number of calls that the client can make.
pub const DEEDS: u8 = 5;
/// Bytes of an answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of records of one chunk, inflated.
const INFLATED_BYTES_MAX: usize = 1 << 20;

/// Answers a request's content with a whole frame, or closes the connection.
type Ask = Box<dyn FnMut(Bytes) -> Option<Bytes> + Send>;

/// A network with one broker.
struct Fake {
    ask: Arc<Mutex<Ask>>,
    is_gone: Arc<AtomicBool>,
}

fn lock<T: ?Sized>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock()
}

type Line = Arc<Mutex<Option<Sender<Bytes>>>>;

struct Heard {
    from: Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Heard {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.from.recv().unwrap_or_default();
        }
        let count = into.len().min(self.rest.len());
        into[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

struct Said {
    written: BytesMut,
    ask: Arc<Mutex<Ask>>,
    is_gone: Arc<AtomicBool>,
    line: Line,
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        while let Some(length) = self.written.first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            if self.written.len() < 4 + length {
                break;
            }
            let content = self.written.split_to(4 + length).freeze().slice(4..);
            let answer = (lock(&self.ask))(content);
            let mut line = lock(&self.line);
            match (answer, &*line) {
                (Some(answer), Some(to)) => drop(to.send(answer)),
                _ => {
                    self.is_gone.store(true, Ordering::SeqCst);
                    *line = None;
                }
            }
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Net for Fake {
    fn listen(&self, _: &str) -> io::Result<Box<dyn Listener>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn connect(&self, _: &str, _: Duration) -> io::Result<Connection> {
        if self.is_gone.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (to, from) = channel();
        let line: Line = Arc::new(Mutex::new(Some(to)));
        let closed = Arc::clone(&line);
        Ok(Connection {
            reader: Box::new(Heard { from, rest: Bytes::new() }),
            writer: Box::new(Said {
                written: BytesMut::new(),
                ask: Arc::clone(&self.ask),
                is_gone: Arc::clone(&self.is_gone),
                line,
            }),
            closer: Arc::new(move || *lock(&closed) = None),
            is_within_machine: false,
            peer: "a fuzzer".to_owned(),
        })
    }
}

fn client_of(ask: Ask, patience: Duration) -> Client {
    let mut world = World::real();
    let is_gone = Arc::default();
    world.net = Arc::new(Fake { ask: Arc::new(Mutex::new(ask)), is_gone });
    let options = ClientOptions {
        connect_timeout: patience,
        request_timeout: patience,
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        answer_bytes_max: ANSWER_BYTES_MAX,
        ..ClientOptions::at("broker:9092")
    };
    Client::new(&world, options)
}

fn versions(head: &RequestHead) -> Bytes {
    let rows = (0..80).filter_map(ApiKey::from_i16).map(|key| {
        let known = known_versions(key);
        let row = ApiVersion::default().with_api_key(key as i16);
        row.with_min_version(*known.start()).with_max_version(*known.end())
    });
    let answer = ApiVersionsResponseData::default().with_api_keys(rows.collect());
    let mut content = BytesMut::new();
    answer.write(&mut content, head.version).expect("it can be written");
    behind(head, &content)
}

/// An answer behind its head.
fn behind(head: &RequestHead, content: &[u8]) -> Bytes {
    let mut out = head.begin_response(content.len());
    out.extend_from_slice(content);
    end_frame(&mut out, 0).expect("it is short");
    out.freeze()
}

/// Makes a client call a broker that answers with these bytes.
///
/// # Panics
/// The client returned something that its broker cannot have sent.
pub fn client(bytes: &[u8]) {
    let Some((deed, mut rest)) = bytes.split_first() else { return };
    let mut answers = VecDeque::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (answer, more) = behind.split_at(length);
        answers.push_back(Bytes::copy_from_slice(answer));
        rest = more;
    }
    let ask = move |mut content: Bytes| {
        let head = RequestHead::read(&mut content).expect("the client writes requests");
        if head.key == ApiKey::ApiVersions as i16 {
            return Some(versions(&head));
        }
        let answer = answers.pop_front()?;
        match answer.split_first() {
            Some((0, content)) => Some(behind(&head, content)),
            Some((_, _)) => Some(answer.slice(1..)),
            None => None,
        }
    };
    does(*deed, &client_of(Box::new(ask), Duration::from_millis(20)));
}

/// The same with a broker that answers by itself; returns the bytes with which [`client`] gets the
/// same answers.
///
/// # Panics
/// The broker sends no valid answer.
pub fn record(deed: u8, mut ask: impl FnMut(Bytes) -> Option<Bytes> + Send + 'static) -> Vec<u8> {
    let heard = Arc::new(Mutex::new(vec![deed]));
    let hears = Arc::clone(&heard);
    let ask = move |content: Bytes| {
        let head = RequestHead::read(&mut content.clone()).expect("the client writes requests");
        if head.key == ApiKey::ApiVersions as i16 {
            return Some(versions(&head));
        }
        let answer = ask(content)?;
        let mut content = answer.slice(4..);
        let key = ApiKey::from_i16(head.key).expect("the client knows it");
        read_response_head(&mut content, key, head.version).expect("an answer has a head");
        let mut hears = lock(&hears);
        hears.extend_from_slice(&(content.len() as u16 + 1).to_be_bytes());
        hears.push(0);
        hears.extend_from_slice(&content);
        Some(answer)
    };
    does(deed, &client_of(Box::new(ask), Duration::from_secs(5)));
    lock(&heard).clone()
}

fn does(deed: u8, client: &Client) {
    match deed % DEEDS {
        0 | 1 => consumes(client, deed.is_multiple_of(DEEDS)),
        2 => produces(client),
        3 => administers(client),
        _ => transacts(client),
    }
}

fn consumes(client: &Client, committed: bool) {
    let options = ConsumerOptions {
        isolation: if committed { Isolation::Committed } else { Isolation::Uncommitted },
        fetch_bytes: ANSWER_BYTES_MAX,
        inflated_bytes_max: INFLATED_BYTES_MAX,
        fetch_wait: Duration::from_millis(1),
        ..ConsumerOptions::default()
    };
    let mut consumer = client.consumer(options);
    if consumer.assign_stream("t", Start::Earliest).is_err() {
        return;
    }
    let mut last = BTreeMap::new();
    for _ in 0..4 {
        let Ok(Some(batch)) = consumer.poll(Duration::from_millis(15)) else { break };
        let mut bytes = 0;
        for record in batch.records() {
            let Ok(record) = record else { break };
            let before = last.insert(batch.streamlet(), record.offset);
            assert!(before.is_none_or(|before| before < record.offset), "offsets ascend");
            bytes += record.value.map_or(0, <[u8]>::len) + record.headers.count();
        }
        assert!(bytes <= INFLATED_BYTES_MAX.max(ANSWER_BYTES_MAX));
        consumer.recycle(batch);
    }
    let _positions = (consumer.positions(), consumer.ends(), consumer.obstacle());
    let _refused = consumer.commit("g");
}

fn produces(client: &Client) {
    let options = ProducerOptions {
        linger: Duration::ZERO,
        block_timeout: Duration::from_millis(20),
        delivery_timeout: Duration::from_millis(20),
        ..ProducerOptions::default()
    };
    let producer = client.producer(options);
    if let Ok(writer) = producer.stream("t") {
        let record = NewRecord {
            key: Some(b"key"),
            value: Some(b"value"),
            headers: &[],
            timestamp_ms: Some(1),
            streamlet: None,
        };
        for _ in 0..2 {
            let _refused = writer.send_and_wait(&record);
        }
    }
    let _refused = producer.close(Duration::from_millis(20));
}

fn administers(client: &Client) {
    let admin = client.admin();
    let new = NewStream {
        name: "new".to_owned(),
        streamlets: Some(2),
        replicas: None,
        settings: BTreeMap::new(),
    };
    let _refused = (admin.list().is_ok(), admin.describe("t").is_ok(), admin.settings("t").is_ok())
        == (true, true, true)
        && admin.offsets("t", OffsetAt::Latest).is_ok()
        && admin.identify("t").is_ok()
        && admin.create(&new).is_ok()
        && admin.groups().is_ok()
        && admin.describe_group("g").is_ok()
        && admin.group_offsets("g").is_ok()
        && admin.delete("new").is_ok();
}

fn transacts(client: &Client) {
    let mut transactions = client.transactions("id", Duration::from_secs(1));
    let mark = OffsetMark {
        group: "g".to_owned(),
        stream: "t".to_owned(),
        streamlet: 0,
        offset: 1,
        metadata: String::new(),
    };
    if transactions.take_over("t", "g").is_ok() {
        let _refused = transactions.commit("t", BTreeMap::new(), &mark);
    }
}

#[cfg(test)]
mod tests;
