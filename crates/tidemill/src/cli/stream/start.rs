//! Where `consume` begins: `earliest`, `latest`, an offset, or a time.

use tidemill_client::consumer::Start;

/// Reads `--from`.
pub(super) fn start(text: &str) -> Result<Start, String> {
    match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        _ => {}
    }
    if let Ok(offset) = text.parse::<u64>() {
        let offset = i64::try_from(offset).map_err(|_| "no offset is that large".to_owned())?;
        return Ok(Start::Offset(offset));
    }
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(|it| Start::Time(it.as_millisecond())).map_err(|_| {
        "write `earliest`, `latest`, an offset, or a time such as 2026-01-31T12:00:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests;
