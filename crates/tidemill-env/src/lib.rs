//! The world behind small traits: clock, disk, network, threads, randomness.
//!
//! ```text
//! World ┬ clock ── real │ SimClock: moves when it is told to, or slept on
//!       ├ disk ─── real │ SimDisk: in memory, can lose power, can fail at the nth operation
//!       ├ net ──── real sockets │ SimNet: in memory, late, partitioned, reset
//!       ├ spawn ── real threads │ in a `Simulation`: one at a time, as the seed says
//!       ├ entropy ─ the system's secrets │ numbers of the seed
//!       └ seed ─── streams of random numbers
//! ```
//!
//! Invariant: nothing outside this crate reads a clock, opens a file or a socket, or starts a
//! thread; so a test can put another world under the same code.

use rustix::io::Errno;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

mod aligned_buffer;
mod entropy;
pub mod lock;
pub mod net;
mod random;
mod real;
mod sim;
pub mod sync;

pub use aligned_buffer::{AlignedBuffer, BLOCK_BYTES};
pub use entropy::Entropy;
pub use net::{Connection, Listener, Net};
pub use random::Random;
pub use sim::{FaultCounts, SimClock, SimDisk, SimLink, SimNet, SimNetCounts, SimWorld};
#[cfg(debug_assertions)]
pub use sim::{SimCluster, SimDrift, SimFailure, SimPace, SimPartition, SimReport, Simulation};

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
    ///
    /// # Errors
    /// The disk's. Some of the bytes may be in the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// As [`Self::append`], for bytes that are not read soon: long ones are written past the
    /// system's cache (`O_DIRECT`), if the file system can. Bytes that begin at a multiple of
    /// [`BLOCK_BYTES`] both in the file and in memory ([`AlignedBuffer`]) are not copied.
    ///
    /// # Errors
    /// As [`Self::append`].
    fn append_direct(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append(bytes)
    }
    /// Makes all appended bytes survive a power cut. The file's name needs [`Disk::sync_dir`].
    ///
    /// # Errors
    /// The disk's. After an error nothing is known about the bytes appended since the last sync.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to this length; the next append follows there.
    ///
    /// # Errors
    /// The disk's.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Length in bytes.
    ///
    /// # Errors
    /// The disk's.
    fn length(&self) -> io::Result<u64>;
}

/// A file that is read at any place, by any number of threads.
pub trait DiskRead: Send + Sync {
    /// Reads up to `into.len()` bytes from `offset`; 0 only at or past the end.
    ///
    /// # Errors
    /// The disk's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// As [`Self::read_at`], until `into` is full or the file ends.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_full_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read_at(offset + filled as u64, &mut into[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        Ok(filled)
    }
    /// As [`Self::read_full_at`], of bytes that are wanted once: if they are long, and the file
    /// system can, they are read past the system's cache (`O_DIRECT`).
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_direct(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_full_at(offset, into)
    }
    /// Asks the system to read these bytes ahead. Does not wait; a wrong guess has no effect.
    fn prefetch(&self, _offset: u64, _bytes: usize) {}
    /// Length in bytes, now.
    ///
    /// # Errors
    /// The disk's.
    fn length(&self) -> io::Result<u64>;
}

/// Bytes that are written again in one piece, at most.
const AGAIN_BYTES: u64 = 1 << 20;

/// A file that is written and read at any place, by any number of threads.
pub trait RandomAccessFile: DiskRead {
    /// Writes all bytes at `offset`; the file grows if it must.
    ///
    /// # Errors
    /// The disk's. Some of the bytes may be in the file.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// As [`Self::write_at`], of several parts one after the other.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn write_parts_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.write_at(offset, &parts.concat())
    }
    /// Makes the file at least `length` bytes long and reserves the space, so that a write below
    /// `length` finds room; new bytes read as zero.
    ///
    /// # Errors
    /// The disk's: [`io::ErrorKind::StorageFull`] when there is no room.
    fn reserve(&self, length: u64) -> io::Result<()>;
    /// Cuts the file, or makes it longer without reserving space.
    ///
    /// # Errors
    /// The disk's.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Makes all writes that returned before this call survive a power cut.
    ///
    /// # Errors
    /// The disk's. After an error nothing is known about the bytes written since the last sync, and
    /// a later sync that succeeds says nothing about them either.
    fn sync(&self) -> io::Result<()>;
    /// Writes the bytes from `from` up to `to` again, where they stand and as they read now.
    ///
    /// It is for bytes of an earlier life that may not be synced. They can be read, but if a sync
    /// of them failed the disk may not have them, and will not get them from a later sync that
    /// succeeds. Written again, they are covered by the next sync.
    ///
    /// It does not sync: nothing may rely on these bytes before a sync of the file has succeeded.
    /// Nor does it check them: the caller has. A power cut before that sync leaves those that were
    /// durable as they were, and any part of the others.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before `to`; else the disk's. The file
    /// reads as before.
    fn rewrite(&self, from: u64, to: u64) -> io::Result<()> {
        let mut bytes = vec![0; to.saturating_sub(from).min(AGAIN_BYTES) as usize];
        let mut at = from;
        while at < to {
            let piece = &mut bytes[..(to - at).min(AGAIN_BYTES) as usize];
            if self.read_full_at(at, piece)? < piece.len() {
                let why = "it ends before what is to be written again does";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            self.write_at(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// The file system that a folder is on, opened to be synced as a whole.
pub trait FileSystem: Send + Sync {
    /// Makes all earlier writes to any file of the file system survive a power cut, and all names
    /// with them. Other programs' files are synced too, and take their time.
    ///
    /// # Errors
    /// The disk's, of any file: each handle reports an error once, if it came after the handle was
    /// opened. Then nothing is known about files that were not synced by themselves since, and the
    /// handle must not be used again: it reports no error twice.
    fn sync(&self) -> io::Result<()>;
}

/// The capacity of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total_bytes: u64,
    /// The part that this process may still take.
    pub free_bytes: u64,
}

/// The identity of a file: the same for all paths that lead to it, by any names, links and `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The disk that has it.
    pub device: u64,
    /// The number of the file there, or of the nearest folder that is there.
    pub number: u64,
    /// The way from that folder; empty for a file that is there.
    pub below: PathBuf,
}

/// True if an error means that there is no room: the disk or this user's quota is full, or there
/// are no file descriptors left. It may be different in a while.
#[must_use]
pub fn has_no_room(error: &io::Error) -> bool {
    let of_descriptors = [Errno::MFILE, Errno::NFILE].map(|it| Some(it.raw_os_error()));
    of_descriptors.contains(&error.raw_os_error())
        || matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Advice for a folder in the place of a file ([`io::ErrorKind::IsADirectory`]).
pub const FOLDER_ADVICE: &str =
    "There should be a file: move that folder away, and put the file back if there was one";

/// A folder's lock: it is held until this is dropped or the process ends.
pub trait DiskLock: Send + Sync {}

/// Files and folders. A missing file is [`io::ErrorKind::NotFound`].
pub trait Disk: Send + Sync {
    /// Makes a folder and those above it.
    ///
    /// # Errors
    /// The disk's.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// True if there is a file or folder.
    ///
    /// # Errors
    /// The disk's.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Which file a path leads to, or would lead to once it is made.
    ///
    /// # Errors
    /// The disk's; a file that is not there is none.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;
    /// A whole file.
    ///
    /// # Errors
    /// The disk's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Opens a file for reading at any place.
    ///
    /// # Errors
    /// The disk's; a folder, a pipe or a device cannot be read.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskRead>>;
    /// An empty file; an earlier one is replaced.
    ///
    /// # Errors
    /// The disk's; the folder must be there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// As [`Self::create`], with read and write rights for the owner only, where a disk knows
    /// owners.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.create(path)
    }
    /// A file that is there, to be appended to.
    ///
    /// # Errors
    /// The disk's.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to be written at any place; made if it is not there.
    ///
    /// # Errors
    /// The disk's; the folder must be there.
    fn open_random_access(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>>;
    /// As [`Self::open_random_access`], but written through a memory map as far as it is reserved:
    /// a write is a copy, without a call of the system. It is for one handle that writes to the
    /// file and cuts it; reads are as ever. Where there are no maps, positioned writes do the work.
    ///
    /// An error of the disk may end the process with `SIGBUS`: in a write to a page that was
    /// brought in, synced and taken away again, or one that a copy-on-write file system must find
    /// room for. All others come back from `reserve`, the write or the sync.
    ///
    /// # Errors
    /// The disk's; the folder must be there.
    fn open_mapped(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        self.open_random_access(path)
    }
    /// The file system of a folder. Files that are to be synced through it must be written after
    /// this call.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::Unsupported`] where such a sync does not tell of errors.
    fn file_system(&self, folder: &Path) -> io::Result<Arc<dyn FileSystem>>;
    /// The capacity of the file system of a folder.
    ///
    /// # Errors
    /// The disk's.
    fn space(&self, folder: &Path) -> io::Result<Space>;
    /// Takes the lock that a file stands for; the file is made if it is not there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another holds it; else the disk's.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// Removes an empty folder.
    ///
    /// # Errors
    /// The disk's; a folder that is not empty stays.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name in one step; a file of that name is replaced.
    ///
    /// # Errors
    /// The disk's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The disk's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files and folders in a folder, sorted.
    ///
    /// # Errors
    /// The disk's.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes names in a folder survive a power cut: files made, renamed and removed.
    ///
    /// # Errors
    /// The disk's.
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
    ///
    /// # Errors
    /// The operating system has none for this process: a limit is reached, of the process, its
    /// user or its container.
    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>>;

    /// Starts a thread, of those few without which nothing works.
    ///
    /// # Panics
    /// As [`Self::try_spawn`] fails.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Box<dyn Thread> {
        self.try_spawn(name, body).expect("the operating system lets us start a few threads")
    }
}

/// Everything outside the process.
#[derive(Clone)]
pub struct World {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Sockets.
    pub net: Arc<dyn Net>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// Bytes that nobody can guess.
    pub entropy: Arc<dyn Entropy>,
    /// Where all randomness comes from that is no secret.
    pub seed: u64,
}

impl World {
    /// The real world. Its seed is taken from the clock and the process id.
    #[must_use]
    pub fn real() -> Self {
        let clock = real::RealClock::new();
        let seed = Random::new(clock.wall_micros().cast_unsigned() ^ real::process_seed()).next();
        Self {
            clock: Arc::new(clock),
            disk: Arc::new(real::RealDisk),
            net: Arc::new(net::RealNet),
            spawn: Arc::new(real::RealSpawn),
            entropy: Arc::new(entropy::SystemEntropy),
            seed,
        }
    }

    /// A world with a clock and a disk that a test holds in its hand. Sockets and threads are real
    /// ones: a test that wants one order of events runs its parts in one thread, or in a
    /// `Simulation`. A test that wants the simulated network takes [`SimNet::host`].
    #[must_use]
    pub fn simulated(seed: u64) -> SimWorld {
        let clock = Arc::new(SimClock::default());
        let disk = Arc::new(SimDisk::new(seed));
        let world = Self {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            net: Arc::new(net::RealNet),
            spawn: Arc::new(real::RealSpawn),
            entropy: Arc::new(entropy::SeededEntropy::new(seed)),
            seed,
        };
        SimWorld { world, clock, disk, net: SimNet::new(seed) }
    }

    /// Random numbers for one purpose, always the same for the same seed and purpose.
    #[must_use]
    pub fn random(&self, purpose: u64) -> Random {
        Random::new(Random::new(self.seed).next() ^ purpose)
    }
}

/// True if the calling thread is one of a `Simulation`, where limits may be small so that tests
/// reach them. Without debug assertions it is a constant `false`.
#[inline]
#[must_use]
pub fn is_simulated() -> bool {
    #[cfg(debug_assertions)]
    return sim::schedule::here().is_some();
    #[cfg(not(debug_assertions))]
    return false;
}

#[cfg(test)]
mod tests;
