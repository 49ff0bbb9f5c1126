//! A problem of a job and its place: file, line, column, the expectation, the nearest name.
//!
//! ```text
//! job.yaml:9:12: error: unknown column `dep_dely`, expected one of `carrier`, `dep_delay`, did you mean `dep_delay`?
//!   9 |     where: dep_dely > 15
//!     |            ^
//! ```
//!
//! Invariant: every check that refuses a job says so with a [`Problem`]; where it stands in the
//! text is looked up once, by its path, when it becomes a [`Diagnostic`].

use std::{borrow::Cow, fmt};
use tidemill_types::{job::secret::masked, signs};

#[cfg(test)]
mod tests;

/// A line and a column of a text, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// The way to a value of a job: names of fields and numbers of list entries.
pub type Path = Vec<String>;

/// A problem of a value, named by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The way to the value.
    pub path: Path,
    /// The name of the value is wrong, and not the value itself.
    pub at_name: bool,
    /// Where in the value, if the value is an expression.
    pub within: Option<TextPlace>,
    /// The problem.
    pub message: String,
    /// The expectation.
    pub expected: Option<String>,
    /// The name that was probably meant.
    pub nearest: Option<String>,
    /// The job may be right: a server that it names is away now, and may be there later.
    pub is_passing: bool,
}

impl Problem {
    /// A problem of the value at `path`.
    pub fn new<S: Into<String>>(
        path: impl IntoIterator<Item = S>,
        message: impl Into<String>,
    ) -> Self {
        let path = path.into_iter().map(Into::into).collect();
        Self { path, message: message.into(), ..Self::default() }
    }

    /// The same, with the expectation.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// The same, about the name of the value.
    #[must_use]
    pub fn at_name(mut self) -> Self {
        self.at_name = true;
        self
    }

    /// The same, with the names that would be right and the one nearest to `given`.
    #[must_use]
    pub fn one_of<'n>(mut self, given: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        self.nearest = nearest(given, names.iter().copied()).map(str::to_owned);
        self.message.push_str(&signs::note(given, self.nearest.as_deref()));
        self.expected = Some(one_of(&names));
        self
    }
}

/// The problem without its path.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, ", expected {expected}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, ", {}", signs::suggestion(nearest))?;
        }
        Ok(())
    }
}

/// A problem and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, or another name for where the job comes from.
    pub file: String,
    /// Where in the file; none if the value is not written there.
    pub place: Option<TextPlace>,
    /// The line of the text at that place.
    pub line: Option<String>,
    /// The problem.
    pub problem: Problem,
}

/// A job is refused: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Refused(pub Vec<Diagnostic>);

impl Refused {
    /// True if the same job may be good later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|it| it.problem.is_passing)
    }
}

/// Longest part of a source line that is shown, in characters.
const LINE_SHOWN_MAX: usize = 120;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.problem.path;
        write!(f, "{}:", self.file)?;
        match self.place {
            Some(TextPlace { line, column }) => write!(f, "{line}:{column}:")?,
            None if path.is_empty() => {}
            None => write!(f, " {}:", path.join("."))?,
        }
        write!(f, " error: {}", self.problem)?;
        if let (Some(place), Some(line)) = (self.place, &self.line) {
            write_line(f, place, line)?;
        }
        Ok(())
    }
}

/// The line of the text without its passwords, and a caret under the column. A long line is cut
/// round the column.
fn write_line(f: &mut fmt::Formatter<'_>, place: TextPlace, line: &str) -> fmt::Result {
    let column = usize::try_from(place.column).unwrap_or(usize::MAX).max(1);
    let before: String = line.chars().take(column - 1).collect();
    let column = column.saturating_sub(before.chars().count()) + masked(&before).chars().count();
    let line = &masked(line);
    let first = column.saturating_sub(LINE_SHOWN_MAX / 2);
    let first = if line.chars().count() <= LINE_SHOWN_MAX { 0 } else { first };
    let shown: String = line
        .chars()
        .skip(first)
        .take(LINE_SHOWN_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let number = place.line.to_string();
    let caret = " ".repeat((column - 1).saturating_sub(first));
    let margin = " ".repeat(number.len());
    write!(f, "\n  {number} | {}\n  {margin} | {caret}^", shown.trim_end())
}

/// Longest part of a name or a value of a job that a message shows, in characters.
pub(crate) const VALUE_SHOWN_MAX: usize = 60;

/// The beginning of a text: a whole file may stand where a word should.
pub(crate) fn excerpt(text: &str, shown_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(shown_max) {
        Some((end, _)) => format!("{}…", text[..end].replace(char::is_control, " ")).into(),
        None => text.into(),
    }
}

/// "one of `a`, `b`", cut when there are very many.
#[must_use]
pub fn one_of(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 24;
    let quoted: Vec<String> =
        names.iter().take(SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(SHOWN_MAX);
    match (names.len(), more) {
        (0, _) => "nothing here".to_owned(),
        (1, _) => quoted[0].clone(),
        (_, 0) => format!("one of {}", quoted.join(", ")),
        _ => format!("one of {} and {more} more", quoted.join(", ")),
    }
}

/// The name nearest to the given one, if it is near enough to be a slip of the finger.
#[must_use]
pub fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(twin) = names.iter().find(|it| signs::look_alike(given, it)) {
        return Some(twin);
    }
    let lower = given.to_lowercase();
    let score = |name: &str| strsim::jaro_winkler(&lower, &name.to_lowercase());
    names
        .into_iter()
        .map(|name| (score(name), name))
        .filter(|(score, name)| *score >= 0.8 && *name != given)
        // The first of equals: the order of names is the order of the file.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}
