//! Network addresses as text: a host and a port, an IPv6 address in brackets.
//!
//! ```text
//! broker.example.org:9092      192.0.2.1:9092      [2001:db8::1]:9092
//! ```

#[cfg(test)]
mod tests;

/// An address as text. A host with colons is an IPv6 address, and gets brackets.
#[must_use]
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The host, without brackets, and the port of an address. None if the text is no address, or an
/// IPv6 address without brackets: its port could be a part of it. A port of 0 is none.
#[must_use]
pub fn split(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let host = match bracketed {
        Some(host) => host.contains(':').then_some(host)?,
        None => (!host.contains([':', '[', ']'])).then_some(host)?,
    };
    let is_number = port.bytes().all(|it| it.is_ascii_digit());
    let port = port.parse().ok().filter(|it| is_number && *it > 0)?;
    (!host.is_empty()).then_some((host, port))
}
