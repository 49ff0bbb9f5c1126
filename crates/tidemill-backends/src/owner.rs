//! The owner of a place on a server.
//!
//! ```text
//! DATA/checkpoints/owner      id (32 hexadecimal digits), end of line
//! on the server               the same, then the data folder, for people
//! ```
//!
//! The id is made once, and is on the disk before it is on the server: a process that is killed
//! between the two finds its own id again. The folder's lock keeps a second process of the job out.
//! The record keeps out every other folder.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_checkpoints::BackendError;
use tidemill_env::{DiskLock, World};
use tidemill_wire::chunk::crc32c;

/// Length of an id, in bytes.
const ID_BYTES: usize = 32;

/// The identity of a job and its folder, locked for this process.
pub(crate) struct OwnerIdentity {
    id: String,
    folder: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl OwnerIdentity {
    /// Reads the identity in this folder, or makes one.
    ///
    /// # Errors
    /// The disk's, or another process has the folder.
    pub(crate) fn open(world: &World, folder: &Path) -> Result<Self, BackendError> {
        let (disk, file) = (&*world.disk, folder.join("owner"));
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| BackendError::Disk { path, error: Arc::new(error) }
        };
        disk.create_dir_all(folder).map_err(at(folder))?;
        let lock = disk.lock(&folder.join("lock")).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => BackendError::InUse { path: folder.to_owned() },
            _ => at(folder)(error),
        })?;
        let id = match disk.read(&file) {
            Ok(bytes) => read_id(&bytes).ok_or_else(|| {
                let why = "this is not the id of an owner: restore the file, or remove it and \
                           what is kept on the server";
                BackendError::Damaged { path: file.clone(), position: 0, why: why.to_owned() }
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = new_id(world, folder);
                write(world, folder, &file, &id).map_err(at(&file))?;
                id
            }
            Err(error) => return Err(at(&file)(error)),
        };
        Ok(Self { id, folder: folder.to_owned(), _lock: lock })
    }

    /// The record for the server.
    pub(crate) fn record(&self) -> Vec<u8> {
        format!("{}\n{}\n", self.id, self.folder.display()).into_bytes()
    }

    /// Returns true if a server's record names this owner.
    pub(crate) fn is_in(&self, record: &[u8]) -> bool {
        read_id(record).is_some_and(|id| id == self.id)
    }
}

/// Describes the owner in a record, for people.
pub(crate) fn described(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    match (read_id(record), text.lines().nth(1)) {
        (Some(id), Some(folder)) => format!("{folder} (id {})", &id[..8]),
        _ => "an owner whose record cannot be read".to_owned(),
    }
}

/// Makes an id from the world's randomness and the folder.
fn new_id(world: &World, folder: &Path) -> String {
    /// Of [`World::random`]: "owner".
    const PURPOSE: u64 = 0x006f_776e_6572;
    let folder = crc32c(folder.as_os_str().as_encoded_bytes());
    let mut random = world.random(PURPOSE ^ (u64::from(folder) << 32));
    format!("{:016x}{:08x}{folder:08x}", random.next(), random.next() as u32)
}

fn read_id(bytes: &[u8]) -> Option<String> {
    let (id, rest) = bytes.split_at_checked(ID_BYTES)?;
    let is_id = id.iter().all(u8::is_ascii_hexdigit) && rest.starts_with(b"\n");
    is_id.then(|| String::from_utf8_lossy(id).into_owned())
}

fn write(world: &World, folder: &Path, file: &Path, id: &str) -> io::Result<()> {
    let (disk, new) = (&*world.disk, folder.join("owner.new"));
    let mut writer = disk.create(&new)?;
    writer.append(format!("{id}\n").as_bytes())?;
    writer.sync()?;
    drop(writer);
    disk.rename(&new, file)?;
    disk.sync_dir(folder)
}
