//! Settings of a stream as options of the command line, and as the names that nodes know.

use clap::Args;
use std::collections::BTreeMap;
use tidemill_node::serve::settings::retention_time;
use tidemill_types::ByteSize;

/// Settings of a stream that is made or changed.
#[derive(Debug, Default, Args)]
pub(super) struct SettingArguments {
    /// Groups of a streamlet that are written to side by side, from 1 on; a node of Tidemill only.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u16).range(1..))]
    active_groups: Option<u16>,
    /// When a record is durable: `always`, `os`, or a time such as `10ms`; a node of Tidemill only.
    #[arg(long, value_name = "WHEN")]
    fsync: Option<String>,
    /// Time that records are kept, such as `7d`, or `unlimited`.
    #[arg(long, value_name = "TIME", value_parser = time)]
    retention_time: Option<i64>,
    /// Most bytes of each streamlet that are kept, such as `1GiB`, or `unlimited`.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    retention_bytes: Option<i64>,
    /// The longest chunk that is taken, such as `1MiB`.
    #[arg(long, value_name = "SIZE")]
    max_message_bytes: Option<ByteSize>,
    /// The size of a segment, such as `16MiB`.
    #[arg(long, value_name = "SIZE")]
    segment_bytes: Option<ByteSize>,
    /// Any setting by its name, such as `message.timestamp.type=LogAppendTime`; may be given
    /// several times. It counts before an option of the same meaning.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    config: Vec<(String, String)>,
}

/// A name and a value.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if name.trim().is_empty() {
        return Err("the key is empty: write KEY=VALUE".to_owned());
    }
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The values that would be right.
fn or_unlimited(error: impl std::fmt::Display) -> String {
    format!("{error}, or `unlimited`")
}

/// Milliseconds; -1 is for ever.
fn time(text: &str) -> Result<i64, String> {
    if text == "unlimited" {
        return Ok(-1);
    }
    let span = retention_time(text).map_err(or_unlimited)?;
    Ok(span.0 / 1000)
}

/// Bytes; -1 is all.
fn size(text: &str) -> Result<i64, String> {
    if text == "unlimited" {
        return Ok(-1);
    }
    let size: ByteSize = text.parse().map_err(or_unlimited)?;
    i64::try_from(size.0).map_err(|_| format!("`{text}` is more than there is"))
}

impl SettingArguments {
    /// By the names that nodes know. A setting by name counts over one by an option.
    pub(super) fn by_name(&self) -> BTreeMap<String, String> {
        let options = [
            ("tidemill.active.groups", self.active_groups.map(|it| it.to_string())),
            ("tidemill.fsync", self.fsync.clone()),
            ("retention.ms", self.retention_time.map(|it| it.to_string())),
            ("retention.bytes", self.retention_bytes.map(|it| it.to_string())),
            ("max.message.bytes", self.max_message_bytes.map(|it| it.0.to_string())),
            ("segment.bytes", self.segment_bytes.map(|it| it.0.to_string())),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        options
            .map(|(name, value)| (name.to_owned(), value))
            .chain(self.config.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests;
