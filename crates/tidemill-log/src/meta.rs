//! Small files of metadata: one line with a checksum, then JSON. Replaced as a whole.
//!
//! ```text
//! tidemill-meta 1 crc32c=0a1b2c3d
//! { … }
//! ```
//!
//! Written under a new name, synced, and renamed; the one before stays as `NAME.old`. Invariant: a
//! damaged file is an error, never taken for an absent one.

use crate::{error::LogError, ids::StreamId, log_core::at, options::StreamSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use tidemill_env::Disk;
use tidemill_types::{Incarnation, StreamletIx};
use tidemill_wire::chunk::crc32c;

/// The file of metadata in each folder that has one.
pub(crate) const META: &str = "meta";
const TITLE: &str = "tidemill-meta 1 crc32c=";

/// The metadata of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogMeta {
    /// The incarnation of the node that opened the log last. It was called `life` before there
    /// were clusters, and counted the openings.
    #[serde(alias = "life")]
    pub(crate) incarnation: Incarnation,
    /// The log was closed, with all of it durable, and not opened since.
    #[serde(default)]
    pub(crate) closed: bool,
}

/// The metadata of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamMeta {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) spec: StreamSpec,
    /// First offsets of streamlets that do not begin at 0.
    pub(crate) starts: BTreeMap<StreamletIx, i64>,
    /// The stream is deleted; its remaining files are to be removed.
    pub(crate) deleted: bool,
}

impl StreamMeta {
    pub(crate) fn id(&self) -> Option<StreamId> {
        StreamId::parse(&self.id)
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Replaces the metadata of a folder.
pub(crate) fn write<T: Serialize>(
    disk: &dyn Disk,
    folder: &Path,
    meta: &T,
) -> Result<(), LogError> {
    let path = folder.join(META);
    let new = with(&path, ".new");
    let bytes = bytes_of(meta);
    let put = || -> io::Result<()> {
        let mut file = disk.create(&new)?;
        file.append(&bytes)?;
        file.sync()?;
        put_in_force(disk, &path)?;
        disk.sync_dir(folder)
    };
    put().map_err(at(&path))
}

/// As [`write`], and durable once the file system is synced: then [`settle`].
pub(crate) fn prepare<T: Serialize>(
    disk: &dyn Disk,
    folder: &Path,
    meta: &T,
) -> Result<(), LogError> {
    let new = with(&folder.join(META), ".new");
    let put = || disk.create(&new)?.append(&bytes_of(meta));
    put().map_err(|error| {
        // It is in nobody's way, but on a full disk.
        let _left = disk.remove(&new);
        at(&new)(error)
    })
}

/// Metadata that were prepared, and are durable, are in force; durably so once the file system is
/// synced again.
pub(crate) fn settle(disk: &dyn Disk, folder: &Path) -> Result<(), LogError> {
    let path = folder.join(META);
    put_in_force(disk, &path).map_err(at(&path))
}

fn put_in_force(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.exists(path)? {
        disk.rename(path, &with(path, ".old"))?;
    }
    disk.rename(&with(path, ".new"), path)
}

/// The whole file.
fn bytes_of<T: Serialize>(meta: &T) -> Vec<u8> {
    let json = serde_json::to_vec_pretty(meta).expect("plain values can be written");
    let mut bytes = format!("{TITLE}{:08x}\n", crc32c(&json)).into_bytes();
    bytes.extend_from_slice(&json);
    bytes
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let title = std::str::from_utf8(&bytes[..end]).map_err(|_| "its first line is no text")?;
    let said = title.strip_prefix(TITLE).ok_or("its first line is not that of such a file")?;
    let said = u32::from_str_radix(said, 16).map_err(|_| "its checksum is no number")?;
    let json = &bytes[end + 1..];
    if crc32c(json) != said {
        return Err("its checksum is wrong".into());
    }
    serde_json::from_slice(json).map_err(|error| format!("it cannot be read: {error}"))
}

/// Reads the metadata of a folder; none if there are none. Whole metadata of a write that was cut
/// short are put in force, durably.
pub(crate) fn read<T: Serialize + DeserializeOwned>(
    disk: &dyn Disk,
    folder: &Path,
) -> Result<Option<T>, LogError> {
    let path = folder.join(META);
    // A power cut between the renames leaves the new or the old one alone.
    for candidate in [path.clone(), with(&path, ".new"), with(&path, ".old")] {
        match disk.read(&candidate) {
            Ok(bytes) => match parse(&bytes) {
                Ok(meta) => {
                    if candidate != path {
                        // It may not be durable: whoever acts upon it must find it again.
                        write(disk, folder, &meta)?;
                    }
                    return Ok(Some(meta));
                }
                Err(_) if candidate != path => {}
                Err(why) => return Err(LogError::Damaged { path: candidate, why }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&candidate)(error)),
        }
    }
    Ok(None)
}

/// After a [`write`] that failed and would have said that the stream is deleted: it is not,
/// durably.
pub(crate) fn undelete(disk: &dyn Disk, folder: &Path, meta: &StreamMeta) -> Result<(), LogError> {
    // If the write did not come as far as the names, what was in force still is. On a full disk
    // that is all there is.
    let in_force = disk.read(&folder.join(META)).ok().and_then(|it| parse::<StreamMeta>(&it).ok());
    if in_force.is_some_and(|it| !it.deleted) { Ok(()) } else { write(disk, folder, meta) }
}

/// Removes the metadata of a folder.
pub(crate) fn remove(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let path = folder.join(META);
    // The one in force goes last: while it is there, it says that the stream is deleted.
    for path in [with(&path, ".new"), with(&path, ".old"), path] {
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
