//! A job descriptor: its text, read into settings, with the place of every value.
//!
//! ```text
//! text ─▶ tree with places ─▶ --set ─▶ one spelling ─▶ settings
//! problem at a path ─▶ file:line:column
//! ```
//!
//! YAML and JSON are read the same way: JSON is YAML. Nothing here opens a file.

mod read;
mod set;
mod spelling;
mod syntax;
#[cfg(test)]
mod tests;
pub(crate) mod tree;

pub(crate) use read::read as read_item;
pub(crate) use tree::{Item, ItemValue, Name};

use crate::diagnostic::{Diagnostic, Problem, Refused, TextPlace};
use tidemill_types::{job::JobSpec, limits::JOB_FILE_BYTES_MAX};

/// The content of a job file, with the place of each value.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The settings.
    pub spec: JobSpec,
    /// The file, or another name for where the job comes from.
    pub file: String,
    text: String,
    tree: Option<Item>,
}

/// Reads a job descriptor. `file` names it in errors.
///
/// # Errors
/// The text is too long, is not YAML or JSON, or does not say a job; the error says where.
pub fn parse(text: &str, file: &str) -> Result<Descriptor, Refused> {
    parse_with(text, file, &[] as &[&str])
}

/// Reads a job descriptor and sets values in it, each written `dotted.path=VALUE`.
///
/// # Errors
/// As [`parse`]; or a path leads nowhere.
pub fn parse_with<S: AsRef<str>>(
    text: &str,
    file: &str,
    settings: &[S],
) -> Result<Descriptor, Refused> {
    let refuse = |file: &str, place: Option<TextPlace>, problem: Problem| {
        let line = place.and_then(|place| line_of(text, place));
        Refused(vec![Diagnostic { file: file.to_owned(), place, line, problem }])
    };
    if text.len() as u64 > JOB_FILE_BYTES_MAX {
        // Whoever read it may have read no more than that.
        let problem = Problem::new::<String>([], "the job file is too long");
        let expected = format!("at most {JOB_FILE_BYTES_MAX} bytes");
        return Err(refuse(file, None, problem.expected(expected)));
    }
    let mut tree = Item::parse(text).map_err(|error| refuse(file, error.0, error.1))?;
    for setting in settings {
        set::set(&mut tree, setting.as_ref()).map_err(|error| refuse("--set", None, error))?;
    }
    spelling::normalize(&mut tree).map_err(|error| refuse(file, place_of(&tree, &error), error))?;
    let spec = read::read(&tree).map_err(|error| refuse(file, place_of(&tree, &error), error))?;
    Ok(Descriptor { spec, file: file.to_owned(), text: text.to_owned(), tree: Some(tree) })
}

impl Descriptor {
    /// A descriptor that was made by a program and has no text. Problems name paths only.
    #[must_use]
    pub fn of(spec: JobSpec) -> Self {
        let file = format!("job `{}`", spec.name);
        Self { spec, file, text: String::new(), tree: None }
    }

    /// The text that it was read from, as it is before values are set in it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A problem with its place in the text.
    #[must_use]
    pub fn locate(&self, problem: Problem) -> Diagnostic {
        let place = self.tree.as_ref().and_then(|tree| place_of(tree, &problem));
        let line = place.and_then(|place| line_of(&self.text, place));
        Diagnostic { file: self.file.clone(), place, line, problem }
    }
}

/// Where the value of a problem stands: the value, or the nearest thing that holds it.
fn place_of(tree: &Item, problem: &Problem) -> Option<TextPlace> {
    let mut at = tree;
    let mut name_place = tree.place;
    for name in &problem.path {
        if let Some((name, value)) = at.get(name) {
            (at, name_place) = (value, name.place);
        } else if let Some(entry) = at.entry(name) {
            (at, name_place) = (entry, entry.place);
        } else if matches!(at.value, ItemValue::Text(_)) {
            // The only entry of a list that is written without brackets.
            break;
        } else {
            // What is missing is looked for under the name of what should hold it.
            return name_place;
        }
    }
    if problem.at_name {
        return name_place;
    }
    match problem.within {
        Some(within) => at.place_within(within),
        None => at.place,
    }
}

pub(crate) fn line_of(text: &str, place: TextPlace) -> Option<String> {
    let number = usize::try_from(place.line).ok()?.checked_sub(1)?;
    text.lines().nth(number).map(str::to_owned)
}
