//! The real clock, disk and threads: the one place that asks the operating system for them.

use super::{
    Clock, Disk, DiskFile, DiskLock, DiskRead, FileIdentity, FileSystem, RandomAccessFile, Space,
    Spawn, Thread,
};
mod append_file;
mod direct_io;
mod identity;
mod mapped_file;
mod mapping;

use append_file::RealFile;
use direct_io::DirectReader;
use rustix::fs::{Advice, FallocateFlags, OFlags};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, IoSlice},
    num::NonZeroU64,
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A number that differs between processes.
pub(crate) fn process_seed() -> u64 {
    u64::from(std::process::id()).rotate_left(40)
}

#[derive(Debug)]
pub(crate) struct RealClock(Instant);

impl RealClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn monotonic_micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    fn wall_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others sleep on")]
    fn sleep_micros(&self, micros: u64) {
        thread::sleep(Duration::from_micros(micros));
    }
}

struct RealRead(File, DirectReader);

impl RealRead {
    fn new(file: File) -> Self {
        Self(file, DirectReader::default())
    }
}

impl DiskRead for RealRead {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read_at(into, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn prefetch(&self, offset: u64, bytes: usize) {
        // A file system that cannot says so, and is read when it is asked.
        let bytes = NonZeroU64::new(bytes as u64);
        let _refused = rustix::fs::fadvise(&self.0, offset, bytes, Advice::WillNeed);
    }

    fn read_direct(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let past = self.1.read(&self.0, offset, into)?;
        Ok(past + self.read_full_at(offset + past as u64, &mut into[past..])?)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl RandomAccessFile for RealRead {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn write_parts_at(&self, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|it| IoSlice::new(it)).collect();
        let mut left = slices.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match rustix::io::pwritev(&self.0, left, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut left, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let now = self.0.metadata()?.len();
        if length <= now {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), now, length - now) {
            // A file system that cannot reserve: the write itself will say that there is no room.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.0.set_len(length),
            other => Ok(other?),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A folder of the file system.
struct RealFileSystem(File);

impl FileSystem for RealFileSystem {
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// File systems whose `syncfs` reaches the disk and tells of errors: ext4, XFS, Btrfs, F2FS, tmpfs.
/// Those that stand on another one (overlay, FUSE) may do neither.
const SYNCFS_TELLS: [i64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// True if this kernel's `syncfs` reports errors: Linux does since 5.8.
fn syncfs_tells() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(8))
}

/// The lock is the open file's: the system lets go of it when the file is closed.
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[derive(Debug)]
pub(crate) struct RealDisk;

/// A path without a folder is in the current one.
fn folder(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(folder(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        identity::of(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskRead>> {
        // Whoever opens a pipe else waits until somebody writes into it.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if !kind.is_file() {
            let message = "is no regular file, which could be read again from any place";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Arc::new(RealRead::new(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // Append mode, so that after a truncation the next bytes follow where the file was cut.
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        emptied(file, path)
    }

    fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().create(true).append(true).mode(OWNER_ONLY).open(path)?;
        // One that was there has the rights that it was made with.
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        emptied(file, path)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Box::new(RealFile::new(file, path.to_owned())))
    }

    fn open_random_access(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Arc::new(RealRead::new(file)))
    }

    fn open_mapped(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Arc::new(mapped_file::MappedFile::new(RealRead::new(file))))
    }

    fn file_system(&self, folder: &Path) -> io::Result<Arc<dyn FileSystem>> {
        if !syncfs_tells() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = OpenOptions::new().read(true).open(self::folder(folder))?;
        let kind = rustix::fs::fstatfs(&folder)?.f_type as i64;
        if !SYNCFS_TELLS.contains(&kind) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Arc::new(RealFileSystem(folder)))
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(self::folder(folder))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total_bytes: bytes(stat.f_blocks), free_bytes: bytes(stat.f_bavail) })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock()?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder(path))?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().read(true).open(folder(path))?.sync_all()
    }
}

/// Read and write rights for the owner only.
const OWNER_ONLY: u32 = 0o600;

/// An emptied file to append to. A pipe or a device needs no emptying.
fn emptied(file: File, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(Box::new(RealFile::new(file, path.to_owned())))
}

struct RealThread(thread::JoinHandle<()>);

impl Thread for RealThread {
    fn join(self: Box<Self>) {
        // A thread that panicked has said so already; its owner watches for that by other means.
        drop(self.0.join());
    }
}

#[derive(Debug)]
pub(crate) struct RealSpawn;

impl Spawn for RealSpawn {
    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(RealThread(thread)))
    }
}
