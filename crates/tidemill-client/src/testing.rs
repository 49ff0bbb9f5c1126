//! Fake nodes under a test's control: on a real socket, one thread a connection.

pub(crate) mod log;
mod offsets;
mod transactions;

use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use tidemill_env::{
    World,
    lock::Mutex,
    sync::atomic::{AtomicBool, Ordering},
};
use tidemill_wire::kafka::{
    Message, RequestHead, end_frame,
    message::{ApiVersionsResponseData, api_versions_response::ApiVersion},
};

/// A node's reaction to a request.
pub(crate) enum Reply {
    /// Sends these bytes, whatever they are.
    Send(Vec<u8>),
    /// Nothing.
    Nothing,
    /// Reads nothing any more.
    Stall,
    /// Closes the connection.
    Close,
}

impl Reply {
    /// An answer, as a node would send it.
    pub(crate) fn message(head: &RequestHead, message: &impl Message) -> Self {
        let mut content = BytesMut::new();
        message.write(&mut content, head.version).expect("it can be written");
        Self::content(head, &content)
    }

    /// An answer with this content behind its head.
    pub(crate) fn content(head: &RequestHead, content: &[u8]) -> Self {
        let mut out = head.begin_response(content.len());
        out.extend_from_slice(content);
        end_frame(&mut out, 0).expect("it is short");
        Self::Send(out.to_vec())
    }
}

/// The answer that all requests known here are taken in all versions.
pub(crate) fn versions_answer(head: &RequestHead) -> Reply {
    let rows = (0..80).filter_map(tidemill_wire::kafka::ApiKey::from_i16).map(|key| {
        let known = tidemill_wire::kafka::known_versions(key);
        ApiVersion::default()
            .with_api_key(key as i16)
            .with_min_version(*known.start())
            .with_max_version(*known.end())
    });
    Reply::message(head, &ApiVersionsResponseData::default().with_api_keys(rows.collect()))
}

type HeldConnections = Arc<Mutex<Vec<tidemill_env::Connection>>>;
type Closers = Arc<Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>>;

/// A node. It goes away when dropped, and its connections with it.
pub(crate) struct FakeNode {
    world: World,
    address: String,
    over: Arc<AtomicBool>,
    closers: Closers,
    _held: HeldConnections,
    thread: Option<Box<dyn tidemill_env::Thread>>,
}

impl FakeNode {
    /// Starts a node with these reactions to its requests.
    pub(crate) fn start(reply: impl FnMut(&RequestHead, Bytes) -> Reply + Send + 'static) -> Self {
        Self::start_in(&World::real(), "127.0.0.1:0", reply)
    }

    /// Starts a node at an address of a world.
    pub(crate) fn start_in(
        world: &World,
        address: &str,
        reply: impl FnMut(&RequestHead, Bytes) -> Reply + Send + 'static,
    ) -> Self {
        let listener = world.net.listen(address).expect("a free port");
        let address = listener.address().expect("it has one");
        let over = Arc::new(AtomicBool::new(false));
        let (closers, held) = (Closers::default(), HeldConnections::default());
        let reply = Arc::new(Mutex::new(reply));
        let (ended, all, stalled) = (Arc::clone(&over), Arc::clone(&closers), Arc::clone(&held));
        let threads = world.clone();
        let accept = move || {
            while let Ok(connection) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                all.lock().push(Arc::clone(&connection.closer));
                let (reply, stalled) = (Arc::clone(&reply), Arc::clone(&stalled));
                let body = Box::new(move || serve(connection, &reply, &stalled));
                drop(threads.spawn.spawn("fake", body));
            }
        };
        let thread = Some(world.spawn.spawn("fake", Box::new(accept)));
        Self { world: world.clone(), address, over, closers, _held: held, thread }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Closes all connections; new ones are taken.
    pub(crate) fn hang_up(&self) {
        self.closers.lock().drain(..).for_each(|close| close());
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.hang_up();
        // Wakes the thread that accepts.
        drop(self.world.net.connect(&self.address, std::time::Duration::from_secs(1)));
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        self.hang_up();
    }
}

fn serve(
    mut connection: tidemill_env::Connection,
    reply: &Mutex<impl FnMut(&RequestHead, Bytes) -> Reply>,
    held: &HeldConnections,
) {
    let mut stalled = false;
    loop {
        let mut length = [0; 4];
        if connection.reader.read_exact(&mut length).is_err() {
            return;
        }
        let mut content = vec![0; u32::from_be_bytes(length) as usize];
        if connection.reader.read_exact(&mut content).is_err() {
            return;
        }
        let mut content = Bytes::from(content);
        let head = RequestHead::read(&mut content).expect("the client writes requests");
        let sent = match (reply.lock())(&head, content) {
            Reply::Send(bytes) => connection.writer.write_all(&bytes),
            Reply::Nothing => Ok(()),
            Reply::Stall => {
                stalled = true;
                Ok(())
            }
            Reply::Close => return (connection.closer)(),
        };
        if sent.is_err() {
            return;
        }
        if stalled {
            // The sockets stay open, unread, until the node is dropped.
            return held.lock().push(connection);
        }
    }
}
