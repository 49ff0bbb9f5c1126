//! Arrow IPC, file or stream form: both are a run of messages, read in order.
//!
//! ```text
//! file:    ARROW1 ·· │ schema │ batch │ batch │ end │ footer │ length │ ARROW1
//! stream:            │ schema │ batch │ batch │ end │
//! message: ff ff ff ff │ length u32 │ head (flatbuffer, says the body's length) │ body
//! ```
//!
//! - Every length is checked against the remaining bytes of the file before memory is taken for it.
//! - A compressed body says itself how long it is unpacked, so it is refused.

use crate::batch_source::Batches;
use crate::error::{FETCH_AGAIN, arrow_reason};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{reader::StreamDecoder, root_as_message};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_env::DiskRead;
use tidemill_wire::arrow::refuse_compressed;

const MAGIC: &[u8] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Most zeros between the magic and the first message.
const PADDING_BYTES_MAX: usize = 512;
/// The bytes after the last message of a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// After the magic a writer may leave zeros, up to its alignment.
fn skip_padding(file: &dyn DiskRead, offset: u64, end: u64) -> std::io::Result<u64> {
    let mut padding = [0; PADDING_BYTES_MAX];
    let read = file.read_full_at(offset, &mut padding)?;
    let zeros = padding[..read].iter().take_while(|byte| **byte == 0).count() as u64;
    Ok((offset + zeros / 8 * 8).min(end))
}

/// The head of a message.
struct Head {
    /// The head and its prefix.
    bytes: Vec<u8>,
    /// Bytes of the message, with its body.
    whole: u64,
    /// Records, if it is a batch.
    records: Option<u64>,
}

/// The messages of a file, in order.
pub(crate) struct ArrowBatches {
    file: Arc<dyn DiskRead>,
    decoder: StreamDecoder,
    offset: u64,
    /// Where the messages end at the latest.
    end: u64,
    /// Batches handed out.
    count: u64,
}

impl ArrowBatches {
    /// Opens a file of this length.
    ///
    /// # Errors
    /// It is no Arrow IPC.
    pub(crate) fn open(file: Arc<dyn DiskRead>, size: u64) -> Result<Self, String> {
        let mut head = [0; 8];
        let read = file.read_full_at(0, &mut head).map_err(|error| error.to_string())?;
        let (mut offset, mut end) = (0, size);
        if read == 8 && head.starts_with(MAGIC) {
            offset = 8;
            let mut tail = [0; 10];
            let at = size.saturating_sub(10);
            file.read_full_at(at, &mut tail).map_err(|error| error.to_string())?;
            let footer = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
            if !tail.ends_with(MAGIC) || u64::from(footer) + 18 > size {
                return Err(format!("its footer is missing; {FETCH_AGAIN}"));
            }
            end = at - u64::from(footer);
            offset = skip_padding(&*file, offset, end).map_err(|error| error.to_string())?;
        }
        Ok(Self { file, decoder: StreamDecoder::new(), offset, end, count: 0 })
    }

    /// The schema. Bytes already read from the file are passed over.
    ///
    /// # Errors
    /// The file does not begin with one.
    pub(crate) fn schema(mut self) -> Result<SchemaRef, String> {
        let Some(head) = self.head()? else {
            return Err("it is empty: Arrow IPC begins with a schema".to_owned());
        };
        let mut message = self.message(head)?;
        let damaged =
            |error| format!("its schema does not read ({}); {FETCH_AGAIN}", arrow_reason(error));
        self.decoder.decode(&mut message).map_err(damaged)?;
        // A message without body is looked at when the next bytes come.
        self.decoder.decode(&mut Buffer::from(END.as_slice())).map_err(damaged)?;
        // What no batch of the file can be read for is said before the job runs.
        self.head().map_err(|error| self.of_batch(&error))?;
        self.decoder.schema().ok_or_else(|| "it does not begin with a schema".to_owned())
    }

    /// The head of the next message; none at the end.
    fn head(&self) -> Result<Option<Head>, String> {
        let rest = self.end.saturating_sub(self.offset);
        let mut prefix = [0; 8];
        let prefix_len = usize::try_from(rest.min(8)).unwrap_or(8);
        self.read_at(self.offset, &mut prefix[..prefix_len])?;
        let word = |at: usize| {
            u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]])
        };
        let (start, head) = match prefix[..4] == CONTINUATION {
            true => (8, word(4)),
            // Before Arrow 0.15 a message began with its length.
            false => (4, word(0)),
        };
        if rest < 4 || (rest < 8 && start == 8) || head == 0 {
            return Ok(None);
        }
        let body_at = start + u64::from(head);
        if body_at > rest {
            return Err(format!(
                "a message says that its head has {head} bytes, past the end; {FETCH_AGAIN}"
            ));
        }
        let mut bytes = vec![0; usize::try_from(body_at).map_err(|error| error.to_string())?];
        self.read_at(self.offset, &mut bytes)?;
        let message = root_as_message(&bytes[start as usize..])
            .map_err(|_| format!("a message does not read; {FETCH_AGAIN}"))?;
        refuse_compressed(message)
            .map_err(|why| format!("{why}: write the file without compression"))?;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        let whole = body_at.checked_add(body).filter(|whole| *whole <= rest);
        let Some(whole) = whole else {
            return Err(format!(
                "a message says that its body has {body} bytes, past the end; {FETCH_AGAIN}"
            ));
        };
        let records = message.header_as_record_batch().map(|batch| batch.length());
        let records = records.map(|it| {
            u64::try_from(it)
                .map_err(|_| format!("a message says that it has {it} records; {FETCH_AGAIN}"))
        });
        Ok(Some(Head { bytes, whole, records: records.transpose()? }))
    }

    /// The message of a head, whole.
    fn message(&mut self, head: Head) -> Result<Buffer, String> {
        let Head { mut bytes, whole, .. } = head;
        let body_at = bytes.len();
        bytes.resize(usize::try_from(whole).map_err(|error| error.to_string())?, 0);
        self.read_at(self.offset + body_at as u64, &mut bytes[body_at..])?;
        self.offset += whole;
        Ok(Buffer::from_vec(bytes))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        match self.file.read_full_at(offset, into) {
            Ok(count) if count == into.len() => Ok(()),
            Ok(_) => Err("the file became shorter while it was read".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn next_message(&mut self) -> Result<Option<RecordBatch>, String> {
        while let Some(head) = self.head()? {
            let batch = self.decode(head)?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    fn decode(&mut self, head: Head) -> Result<Option<RecordBatch>, String> {
        let is_batch = head.records.is_some();
        let mut message = self.message(head)?;
        let mut decode = |bytes: &mut Buffer| self.decoder.decode(bytes);
        let batch = match decode(&mut message) {
            // A batch without body, such as an empty one, is looked at when the next bytes come; of
            // those nothing is taken then.
            Ok(None) if is_batch => decode(&mut Buffer::from(END.as_slice())),
            batch => batch,
        };
        batch.map_err(|error| format!("{}; {FETCH_AGAIN}", arrow_reason(error)))
    }

    fn skip_messages(&mut self, records: u64) -> Result<u64, String> {
        let mut left = records;
        while left > 0
            && let Some(head) = self.head()?
        {
            match head.records {
                Some(records) if records > left => break,
                Some(records) => {
                    self.offset += head.whole;
                    (self.count, left) = (self.count + 1, left - records);
                }
                // The schema, or a dictionary: batches that follow need it.
                None => drop(self.decode(head)?),
            }
        }
        Ok(records - left)
    }

    /// A message with the batch that it is about.
    fn of_batch(&self, message: &str) -> String {
        format!("batch {}: {message}", self.count)
    }
}

impl Batches for ArrowBatches {
    fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        let batch = self.next_message();
        let batch = batch.map_err(|error| self.of_batch(&error))?;
        self.count += u64::from(batch.is_some());
        Ok(batch)
    }

    fn skip(&mut self, records: u64) -> Result<u64, String> {
        self.skip_messages(records).map_err(|error| self.of_batch(&error))
    }
}
