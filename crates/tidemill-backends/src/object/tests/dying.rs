//! A store in memory that answers so many requests and no more; requests that are side by side pass
//! each other.

use async_trait::async_trait;
use futures_util::{StreamExt, stream, stream::BoxStream};
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    path::Path,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Dying {
    inner: Arc<InMemory>,
    left: Arc<AtomicU64>,
    /// The last request is done, and its answer lost.
    loses_answer: bool,
}

/// What becomes of a request.
#[derive(PartialEq)]
enum Fate {
    Answered,
    AnswerLost,
    Lost,
}

impl Dying {
    pub(super) fn new(left: u64, loses_answer: bool) -> Self {
        Self { inner: Arc::default(), left: Arc::new(AtomicU64::new(left)), loses_answer }
    }

    pub(super) fn revive(&self) {
        self.die_after(u64::MAX);
    }

    /// From now on it answers so many requests.
    pub(super) fn die_after(&self, requests: u64) {
        self.left.store(requests, Ordering::Relaxed);
    }
}

async fn fate(left: &AtomicU64, loses_answer: bool) -> Fate {
    // As good as any order, and the same each time.
    for _ in 0..left.load(Ordering::Relaxed) % 5 * 7 % 5 {
        tokio::task::yield_now().await;
    }
    match left.load(Ordering::Relaxed) {
        0 => Fate::Lost,
        now => {
            left.store(now - 1, Ordering::Relaxed);
            if now == 1 && loses_answer { Fate::AnswerLost } else { Fate::Answered }
        }
    }
}

fn dead() -> Error {
    Error::Generic { store: "memory", source: "it died".into() }
}

impl std::fmt::Display for Dying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("dying")
    }
}

#[async_trait]
impl ObjectStore for Dying {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let fate = fate(&self.left, self.loses_answer).await;
        if fate == Fate::Lost {
            return Err(dead());
        }
        let answer = self.inner.put_opts(location, payload, opts).await;
        if fate == Fate::Answered { answer } else { Err(dead()) }
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        unreachable!("nothing is written in parts")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match fate(&self.left, self.loses_answer).await {
            Fate::Answered => self.inner.get_opts(location, options).await,
            _ => Err(dead()),
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, left, loses_answer) =
            (Arc::clone(&self.inner), Arc::clone(&self.left), self.loses_answer);
        let delete = move |path: Result<Path>| {
            let (inner, left) = (Arc::clone(&inner), Arc::clone(&left));
            async move {
                let fate = fate(&left, loses_answer).await;
                if fate == Fate::Lost {
                    return Err(dead());
                }
                let path = path?;
                inner.delete(&path).await?;
                if fate == Fate::Answered { Ok(path) } else { Err(dead()) }
            }
        };
        locations.map(delete).buffer_unordered(4).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (listed, left) = (self.inner.list(prefix), Arc::clone(&self.left));
        let loses_answer = self.loses_answer;
        let first = async move {
            match fate(&left, loses_answer).await {
                Fate::Answered => listed,
                _ => stream::iter([Err(dead())]).boxed(),
            }
        };
        stream::once(first).flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unreachable!("folders are not listed")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!("nothing is copied")
    }
}
