//! The encoding of data files and of the index.
//!
//! ```text
//! data file   head ┬ batch: head, entries, directory if it is long, zeros
//!                  └ batch …
//! entry       checksum, length of key, length of value, key, value
//! directory   for each entry: length of key, length of value, key
//! index       head, entries in the order of their keys: place, key; checksum
//! ```
//!
//! Numbers are little endian. The checksums of batches and entries are CRC-32C, XORed with a number
//! derived from the store, the file and the position, so that bytes are valid only at their own
//! place. The checksum of a directory is in the head of its batch.

use crate::write_batch::{self, BATCH_HEAD_BYTES, DELETED, ENTRY_HEAD_BYTES};
use tidemill_wire::chunk::crc32c;

const FILE_MAGIC: [u8; 4] = *b"TMsf";
const BATCH_MAGIC: [u8; 4] = *b"TMsb";
const INDEX_MAGIC: [u8; 4] = *b"TMsi";
const INDEX_VERSION: u32 = 1;

/// The bytes of the head of a data file.
pub(crate) const FILE_HEAD_BYTES: usize = 32;
/// The bytes of the head of the index.
pub(crate) const INDEX_HEAD_BYTES: usize = 48;
/// The bytes before the key of an index entry.
pub(crate) const INDEX_ENTRY_BYTES: usize = 24;
/// The alignment of batches.
pub(crate) const ALIGN: usize = 8;
/// The bytes of entries from which a batch has a directory and ends at a page. Recovery then reads
/// no values, and later appends share no page with it in the system's cache.
pub(crate) const LONG_BYTES: usize = if cfg!(test) { 400 } else { 512 << 10 };
/// The page size that such batches end at.
pub(crate) const PAGE_BYTES: usize = if cfg!(test) { 64 } else { 4096 };
/// The least factor between the bytes of entries and those of their directory.
const DIRECTORY_SHARE: usize = 4;
/// The bytes before the key of a directory entry.
const DIRECTORY_ENTRY_BYTES: usize = 8;

/// The position of an entry, and the lengths of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    pub(crate) file: u64,
    pub(crate) position: u64,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
}

impl EntryPlace {
    /// The length of the entry in bytes.
    pub(crate) fn bytes(&self) -> usize {
        ENTRY_HEAD_BYTES + self.key_bytes as usize + self.value_bytes as usize
    }
}

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHead {
    pub(crate) count: u32,
    /// The number of the batch within its store, from 1.
    pub(crate) sequence: u64,
    /// The length of its entries in bytes.
    pub(crate) bytes: u64,
    /// The length of its directory in bytes; 0 if it has none.
    pub(crate) directory_bytes: u32,
    pub(crate) directory_checksum: u32,
    /// The zeros behind them, at least up to a multiple of [`ALIGN`].
    pub(crate) zeros: u32,
}

/// The end of the batches that the index covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) file: u64,
    pub(crate) position: u64,
    /// The number of the last batch.
    pub(crate) sequence: u64,
}

/// The number derived from a place.
fn seal(store: u64, file: u64, position: u64) -> u32 {
    let mut random = tidemill_env::Random::new(store ^ file.rotate_left(40) ^ position);
    random.next() as u32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The head of data file `number`.
pub(crate) fn file_head(store: u64, number: u64) -> [u8; FILE_HEAD_BYTES] {
    let mut head = [0; FILE_HEAD_BYTES];
    head[..4].copy_from_slice(&FILE_MAGIC);
    head[4..8].copy_from_slice(&INDEX_VERSION.to_le_bytes());
    head[8..16].copy_from_slice(&store.to_le_bytes());
    head[16..24].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c(&head[..28]);
    head[28..].copy_from_slice(&crc.to_le_bytes());
    head
}

impl BatchHead {
    pub(crate) fn encode(&self, store: u64, file: u64, position: u64) -> [u8; BATCH_HEAD_BYTES] {
        let mut head = [0; BATCH_HEAD_BYTES];
        head[..4].copy_from_slice(&BATCH_MAGIC);
        head[4..8].copy_from_slice(&self.count.to_le_bytes());
        head[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        head[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        head[24..28].copy_from_slice(&self.directory_bytes.to_le_bytes());
        head[28..32].copy_from_slice(&self.directory_checksum.to_le_bytes());
        head[32..36].copy_from_slice(&self.zeros.to_le_bytes());
        let crc = crc32c(&head[..36]) ^ seal(store, file, position);
        head[36..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// Decodes a head; none if no batch begins here.
    pub(crate) fn decode(bytes: &[u8], store: u64, file: u64, position: u64) -> Option<Self> {
        let head = bytes.get(..BATCH_HEAD_BYTES)?;
        let is_good = head[..4] == BATCH_MAGIC
            && u32_at(head, 36) == crc32c(&head[..36]) ^ seal(store, file, position);
        is_good.then(|| Self {
            count: u32_at(head, 4),
            sequence: u64_at(head, 8),
            bytes: u64_at(head, 16),
            directory_bytes: u32_at(head, 24),
            directory_checksum: u32_at(head, 28),
            zeros: u32_at(head, 32),
        })
    }

    /// The end of the batch that begins at `position`; none if the sum overflows.
    pub(crate) fn end(&self, position: u64) -> Option<u64> {
        let start = position.checked_add(BATCH_HEAD_BYTES as u64)?.checked_add(self.bytes)?;
        let end = start.checked_add(u64::from(self.directory_bytes) + u64::from(self.zeros))?;
        end.checked_next_multiple_of(ALIGN as u64)
    }
}

/// Makes the directory of a batch; empty if it is not worth its bytes.
pub(crate) fn directory<'a>(
    entries: impl Iterator<Item = write_batch::BatchEntry<'a>> + Clone,
) -> Vec<u8> {
    let bytes: usize = entries.clone().map(|it| it.bytes()).sum();
    let wanted = entries.clone().map(|it| DIRECTORY_ENTRY_BYTES + it.key.len()).sum::<usize>();
    if bytes < LONG_BYTES || wanted * DIRECTORY_SHARE > bytes || u32::try_from(wanted).is_err() {
        return Vec::new();
    }
    let mut directory = Vec::with_capacity(wanted);
    for entry in entries {
        let value_bytes = entry.value.map_or(DELETED, |it| it.len() as u32);
        directory.extend_from_slice(&(entry.key.len() as u32).to_le_bytes());
        directory.extend_from_slice(&value_bytes.to_le_bytes());
        directory.extend_from_slice(entry.key);
    }
    directory
}

/// Decodes a directory, of a batch whose entries begin at `start`; none if it is damaged.
pub(crate) fn read_directory<'a>(
    directory: &'a [u8],
    head: &BatchHead,
    file: u64,
    start: u64,
) -> Option<Vec<(&'a [u8], Option<EntryPlace>)>> {
    if crc32c(directory) != head.directory_checksum {
        return None;
    }
    let mut places = Vec::with_capacity(directory.len() / DIRECTORY_ENTRY_BYTES);
    let (mut rest, mut position) = (directory, start);
    while !rest.is_empty() {
        let (lengths, keys) = rest.split_at_checked(DIRECTORY_ENTRY_BYTES)?;
        let (key_bytes, value_bytes) = (u32_at(lengths, 0), u32_at(lengths, 4));
        let (key, behind) = keys.split_at_checked(key_bytes as usize)?;
        let is_there = value_bytes != DELETED;
        let value_bytes = if is_there { value_bytes } else { 0 };
        let place = EntryPlace { file, position, key_bytes, value_bytes };
        position += place.bytes() as u64;
        places.push((key, is_there.then_some(place)));
        rest = behind;
    }
    let is_whole = places.len() == head.count as usize && position == start + head.bytes;
    is_whole.then_some(places)
}

/// The checksum of an entry, which its first four bytes store.
pub(crate) fn entry_checksum(entry: &[u8], store: u64, file: u64, position: u64) -> u32 {
    crc32c(&entry[4..]) ^ seal(store, file, position)
}

/// Returns true if the bytes are an undamaged entry of this place.
pub(crate) fn is_good_entry(entry: &[u8], store: u64, file: u64, position: u64) -> bool {
    entry.len() >= ENTRY_HEAD_BYTES
        && u32_at(entry, 0) == entry_checksum(entry, store, file, position)
}

/// A writer of the index. Entries come in the order of their keys.
pub(crate) struct IndexWriter {
    bytes: Vec<u8>,
    /// The start of each entry.
    entries: Vec<u64>,
}

impl IndexWriter {
    /// Reserves memory for entries and their bytes.
    pub(crate) fn new(count: usize, bytes: usize) -> Self {
        let mut head = Vec::with_capacity(bytes + INDEX_HEAD_BYTES + 4);
        head.resize(INDEX_HEAD_BYTES, 0);
        Self { bytes: head, entries: Vec::with_capacity(count) }
    }

    pub(crate) fn add(&mut self, key: &[u8], place: EntryPlace) {
        self.entries.push(self.bytes.len() as u64);
        self.bytes.extend_from_slice(&place.key_bytes.to_le_bytes());
        self.bytes.extend_from_slice(&place.value_bytes.to_le_bytes());
        self.bytes.extend_from_slice(&place.file.to_le_bytes());
        self.bytes.extend_from_slice(&place.position.to_le_bytes());
        self.bytes.extend_from_slice(key);
    }

    /// The bytes, and the start of each entry.
    pub(crate) fn finish(mut self, store: u64, covered: Covered) -> (Vec<u8>, Vec<u64>) {
        let head = &mut self.bytes[..INDEX_HEAD_BYTES];
        head[..4].copy_from_slice(&INDEX_MAGIC);
        head[4..8].copy_from_slice(&INDEX_VERSION.to_le_bytes());
        head[8..16].copy_from_slice(&store.to_le_bytes());
        head[16..24].copy_from_slice(&covered.file.to_le_bytes());
        head[24..32].copy_from_slice(&covered.position.to_le_bytes());
        head[32..40].copy_from_slice(&covered.sequence.to_le_bytes());
        head[40..48].copy_from_slice(&(self.entries.len() as u64).to_le_bytes());
        let crc = crc32c(&self.bytes);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        (self.bytes, self.entries)
    }
}

/// A decoded index head, and the start of each entry.
pub(crate) struct IndexRead {
    pub(crate) store: u64,
    pub(crate) covered: Covered,
    pub(crate) entries: Vec<u64>,
}

/// Decodes an index.
pub(crate) fn read_index(bytes: &[u8]) -> Result<IndexRead, &'static str> {
    let end = bytes.len().checked_sub(4).filter(|end| *end >= INDEX_HEAD_BYTES);
    let end = end.ok_or("it is too short")?;
    if bytes[..4] != INDEX_MAGIC {
        return Err("it does not begin as an index does");
    }
    if u32_at(bytes, end) != crc32c(&bytes[..end]) {
        return Err("its checksum is wrong");
    }
    if u32_at(bytes, 4) != INDEX_VERSION {
        return Err("its version is not known to this build");
    }
    let covered = Covered {
        file: u64_at(bytes, 16),
        position: u64_at(bytes, 24),
        sequence: u64_at(bytes, 32),
    };
    let mut entries = Vec::with_capacity((end - INDEX_HEAD_BYTES) / INDEX_ENTRY_BYTES);
    let mut at = INDEX_HEAD_BYTES;
    while at < end {
        let key_at = at + INDEX_ENTRY_BYTES;
        if key_at > end {
            return Err("an entry is cut short");
        }
        entries.push(at as u64);
        at = key_at + u32_at(bytes, at) as usize;
    }
    if at != end || entries.len() as u64 != u64_at(bytes, 40) {
        return Err("it has another number of entries than it says");
    }
    Ok(IndexRead { store: u64_at(bytes, 8), covered, entries })
}

/// The index entry that begins at `at`.
pub(crate) fn index_entry(bytes: &[u8], at: u64) -> (&[u8], EntryPlace) {
    let at = at as usize;
    let place = EntryPlace {
        key_bytes: u32_at(bytes, at),
        value_bytes: u32_at(bytes, at + 4),
        file: u64_at(bytes, at + 8),
        position: u64_at(bytes, at + 16),
    };
    let key_at = at + INDEX_ENTRY_BYTES;
    (&bytes[key_at..key_at + place.key_bytes as usize], place)
}
