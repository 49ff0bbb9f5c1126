//! The world behind small traits: clock, disk, threads. (First cut by the lead so that the engine
//! compiles; extend it.)

use std::{io, path::Path, sync::Arc};

mod real;

/// Time. The monotonic clock only moves forward.
pub trait Clock: Send + Sync {
    /// Microseconds since some moment before the process started.
    fn monotonic_micros(&self) -> u64;
    /// Microseconds since 1970-01-01T00:00:00Z, as the machine has it.
    fn wall_micros(&self) -> i64;
    /// Sleeps.
    fn sleep_micros(&self, micros: u64);
}

/// A file that is appended to.
pub trait DiskFile: Send {
    /// Appends all bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
}

/// Files and folders.
pub trait Disk: Send + Sync {
    /// Makes a folder and those above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Whether there is a file or folder.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// A whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// An empty file; an earlier one is replaced.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// A file that is there, to be appended to.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes names in a folder survive a power cut.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A running thread.
pub trait Thread: Send {
    /// Waits for its end.
    fn join(self: Box<Self>);
}

/// Threads.
pub trait Spawn: Send + Sync {
    /// Starts a thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Box<dyn Thread>;
}

/// Everything outside the process.
#[derive(Clone)]
pub struct World {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
}

impl World {
    /// The real world.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Arc::new(real::RealClock::new()),
            disk: Arc::new(real::RealDisk),
            spawn: Arc::new(real::RealSpawn),
        }
    }
}
