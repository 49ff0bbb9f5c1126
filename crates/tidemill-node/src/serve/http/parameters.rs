//! Parameters of a request's query string. One that is not known is refused, with the nearest.

use super::problem::Problem;
use crate::diagnostic;
use axum::http::Uri;
use std::{collections::BTreeMap, fmt::Display, str::FromStr};

#[cfg(test)]
mod tests;

/// Most characters of a value that are shown again.
const SHOWN_CHARS: usize = 100;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Those of a request that may have `known` ones.
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let parameters = Self::any(uri)?;
        match parameters.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(not_one_of("unknown parameter", name, known)),
            None => Ok(parameters),
        }
    }

    /// Those of a request, whatever they are; of several with one name the last counts.
    pub(super) fn any(uri: &Uri) -> Result<Self, Problem> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|it| !it.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name).zip(decode(value))).ok_or_else(|| {
                Problem::bad(format!(
                    "the parameter `{}` is not UTF-8: of each character beyond ASCII its bytes of \
                     UTF-8 are escaped, such as `%C3%A4` for `\u{e4}`",
                    shown(pair)
                ))
            })?;
            Ok((name, value))
        };
        pairs.map(pair).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    /// A value that is read from its text; `possible` describes the values in the error.
    pub(super) fn value<T: FromStr>(
        &self,
        name: &str,
        possible: impl Display,
    ) -> Result<Option<T>, Problem> {
        self.read(name, |text| text.parse().map_err(|_| format!("expected {possible}")))
    }

    pub(super) fn read<T, E: Display>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        read(text).map(Some).map_err(|why| Problem::bad(format!("`{name}={}`: {why}", shown(text))))
    }

    /// A value that is one of some names.
    pub(super) fn choice<'n>(
        &self,
        name: &str,
        names: &[&'n str],
    ) -> Result<Option<&'n str>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = names.iter().find(|it| **it == text);
        let refused = || not_one_of(&format!("unknown `{name}`"), text, names);
        found.map(|it| Some(*it)).ok_or_else(refused)
    }
}

/// The beginning of a text of a request.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// The refusal of a name, with the names that there are and the nearest.
fn not_one_of(kind: &str, name: &str, names: &[&str]) -> Problem {
    let shown = shown(name);
    let problem = diagnostic::Problem::new::<String>([], format!("{kind} `{shown}`"));
    Problem::bad(problem.one_of(&shown, names.iter().copied()).to_string())
}

/// A name or value without its escapes: `%C3` is a byte, `+` a space. A `%` without two digits of
/// hexadecimal stays. None if the bytes are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let escaped = match (first, behind) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => bytes.push(16 * high + low),
            None if *first == b'+' => bytes.push(b' '),
            None => bytes.push(*first),
        }
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok()
}
