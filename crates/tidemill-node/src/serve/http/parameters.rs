//! Parameters of a request's query string. One that is not known is refused, with the nearest.

use super::problem::Problem;
use crate::diagnostic::{nearest, one_of};
use axum::{extract::Query, http::Uri};
use std::{collections::BTreeMap, fmt::Display, str::FromStr};
use tidemill_types::signs;

/// Most characters of a value that are shown again.
const SHOWN_CHARS: usize = 100;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Those of a request that may have `known` ones.
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let parameters = Self::any(uri)?;
        for name in parameters.0.keys() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(SHOWN_CHARS).collect();
                let near = nearest(&shown, known.iter().copied());
                let note = signs::note(&shown, near);
                let near =
                    near.map_or_else(String::new, |it| format!(", {}", signs::suggestion(it)));
                let known = one_of(known);
                let why = format!("unknown parameter `{shown}`{note}, expected {known}{near}");
                return Err(Problem::bad(why));
            }
        }
        Ok(parameters)
    }

    /// Those of a request, whatever they are; of several with one name the last counts.
    pub(super) fn any(uri: &Uri) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(pairs) = pairs.map_err(|error| Problem::bad(error.to_string()))?;
        Ok(Self(pairs.into_iter().collect()))
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
        read(text).map(Some).map_err(|why| {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            Problem::bad(format!("`{name}={shown}`: {why}"))
        })
    }
}
