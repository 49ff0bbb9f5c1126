//! The real clock, disk and threads.

use super::*;
use std::io::Write;

pub(crate) struct RealClock(std::time::Instant);
impl RealClock {
    pub(crate) fn new() -> Self { Self(std::time::Instant::now()) }
}
impl Clock for RealClock {
    fn monotonic_micros(&self) -> u64 { self.0.elapsed().as_micros() as u64 }
    fn wall_micros(&self) -> i64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
    }
    fn sleep_micros(&self, micros: u64) { std::thread::sleep(std::time::Duration::from_micros(micros)) }
}
pub(crate) struct RealFile(std::fs::File);
impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> { self.0.write_all(bytes) }
    fn sync(&mut self) -> io::Result<()> { self.0.sync_data() }
    fn truncate(&mut self, length: u64) -> io::Result<()> { self.0.set_len(length) }
    fn length(&self) -> io::Result<u64> { Ok(self.0.metadata()?.len()) }
}
pub(crate) struct RealDisk;
impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> { std::fs::create_dir_all(path) }
    fn exists(&self, path: &Path) -> io::Result<bool> { path.try_exists() }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> { std::fs::read(path) }
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(std::fs::OpenOptions::new().create(true).write(true).truncate(true).open(path)?)))
    }
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(std::fs::OpenOptions::new().append(true).open(path)?)))
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> { std::fs::File::open(path)?.sync_all() }
}
pub(crate) struct RealThread(std::thread::JoinHandle<()>);
impl Thread for RealThread {
    fn join(self: Box<Self>) { let _ = self.0.join(); }
}
pub(crate) struct RealSpawn;
impl Spawn for RealSpawn {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Box<dyn Thread> {
        Box::new(RealThread(std::thread::Builder::new().name(name.to_owned()).spawn(body).expect("threads can be started")))
    }
}
