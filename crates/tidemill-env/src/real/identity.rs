//! Which file a path leads to.
//!
//! A file that is there is its device and its number. One that is not there is where it would be
//! made: the nearest folder above it that is there, and the way from that. A link that leads to
//! nothing is followed, as making the file would follow it.

use super::{FileIdentity, folder};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// The most restarts of the walk along a path, after a link to nothing or a missing folder that
/// `..` leaves again: as many links as the system follows.
const AGAIN_MAX: usize = 40;

pub(super) fn of(path: &Path) -> io::Result<FileIdentity> {
    let mut path = path.to_owned();
    for _ in 0..AGAIN_MAX {
        match at(&path)? {
            PathTarget::File(identity) => return Ok(identity),
            PathTarget::Path(other) => path = other,
        }
    }
    Err(io::Error::other("its links lead nowhere"))
}

enum PathTarget {
    File(FileIdentity),
    /// Another path to the same file.
    Path(PathBuf),
}

fn at(path: &Path) -> io::Result<PathTarget> {
    let mut above = path.to_owned();
    let mut below = PathBuf::new();
    // Folders that are not there and left again.
    let mut left_again = 0;
    // Name by name: joining nothing would end the path with a slash.
    let other = |mut path: PathBuf, left_again: usize, below: &Path| {
        path.extend((0..left_again).map(|_| Component::ParentDir));
        path.extend(below.components());
        PathTarget::Path(path)
    };
    loop {
        match fs::metadata(folder(&above)) {
            Ok(there) => {
                let (device, number) = (there.dev(), there.ino());
                return Ok(PathTarget::File(FileIdentity { device, number, below }));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        if let Ok(target) = fs::read_link(&above) {
            let target = above.parent().unwrap_or(Path::new("")).join(target);
            return Ok(other(target, left_again, &below));
        }
        let last = above.components().next_back();
        match last {
            Some(Component::ParentDir) => left_again += 1,
            Some(Component::Normal(_)) if left_again > 0 => {
                above.pop();
                return Ok(other(above, left_again - 1, &below));
            }
            Some(Component::Normal(name)) => {
                below = [name].into_iter().chain(below.iter()).collect();
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        above.pop();
    }
}
