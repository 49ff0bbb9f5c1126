//! Settings from where they are said: flags over environment over file over default.
//!
//! Everything that is wrong is found at once; nothing here opens a file or asks for a variable.

use super::{ServeSettings, Setting, settings as all};
use crate::{
    descriptor::{line_of, tree},
    diagnostic::{Diagnostic, Problem, Refused, TextPlace},
};
use tidemill_types::limits::JOB_FILE_BYTES_MAX;
use tree::{Item, ItemValue};

/// The places in which settings are given.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The value that a flag of this name has.
    pub flag: &'a dyn Fn(&str) -> Option<String>,
    /// The value that an environment variable of this name has.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The name of the config file, and its text.
    pub file: Option<(&'a str, &'a str)>,
}

impl std::fmt::Debug for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Given({:?})", self.file.map(|(name, _)| name))
    }
}

/// The flag that names the config file, and the variable and key of the same meaning; it is the
/// one setting that a file cannot have.
pub const FLAG: &str = "config";

/// The setting's variable that a name was probably meant to be, of one that is none. Names that are
/// further off are those of others: scripts, or variables that an orchestrator sets for each of its services.
#[must_use]
pub fn misspelt_variable(name: &str) -> Option<String> {
    let variables = || all().map(Setting::variable);
    if !name.starts_with("TIDEMILL_") || variables().any(|it| it == name) {
        return None;
    }
    let slips_max = |it: &str| if it.len() <= SHORT_CHARS { 1 } else { SLIPS_MAX };
    let near = |it: &String| strsim::osa_distance(it, name) <= slips_max(it);
    variables().chain(["TIDEMILL_CONFIG".to_owned()]).filter(|it| it != name).find(near)
}

/// Letters of a name that a slip may change.
const SLIPS_MAX: usize = 2;
/// Letters of a name, with `TIDEMILL_`, of which a slip may change one alone: two of four are another
/// word.
const SHORT_CHARS: usize = "TIDEMILL_JOIN".len();

/// The settings.
///
/// # Errors
/// Everything that is wrong, each with its flag, variable, or place in the file.
pub fn resolve(given: Given<'_>) -> Result<ServeSettings, Refused> {
    let mut settings = ServeSettings::default();
    let mut wrong = Vec::new();
    if let Some((name, text)) = given.file {
        from_file(&mut settings, name, text, &mut wrong);
    }
    for setting in all() {
        let variable = setting.variable();
        if let Some(text) = (given.variable)(&variable) {
            put(&mut settings, setting, &text, &variable, &mut wrong);
        }
    }
    for setting in all() {
        if let Some(text) = (given.flag)(setting.name) {
            put(&mut settings, setting, &text, &format!("--{}", setting.name), &mut wrong);
        }
    }
    if wrong.is_empty() {
        wrong.extend(body_that_never_fits(&settings, given));
    }
    if wrong.is_empty() { Ok(settings) } else { Err(Refused(wrong)) }
}

/// A limit of bodies that never fits into the memory for all of them is refused at the start, and not with each
/// of their clients. The default is no such wish: it goes down with that memory.
fn body_that_never_fits(settings: &ServeSettings, given: Given<'_>) -> Option<Diagnostic> {
    let http = &settings.http;
    let is_default = http.body_bytes == ServeSettings::default().http.body_bytes;
    let setting = all().find(|it| it.name == "http-body-bytes")?;
    if is_default || http.body_bytes.0 <= http.body_bytes_max() {
        return None;
    }
    let variable = setting.variable();
    let (source, path) = match given.file {
        _ if (given.flag)(setting.name).is_some() => (format!("--{}", setting.name), vec![]),
        _ if (given.variable)(&variable).is_some() => (variable, vec![]),
        file => (file.map(|it| it.0.to_owned()).unwrap_or_default(), vec![setting.key()]),
    };
    let message = format!(
        "a body of {} never fits into {} for all bodies",
        http.body_bytes, http.bodies_bytes
    );
    let problem = Problem::new(path, message);
    let problem = problem.expected("at most a quarter of `http-bodies-bytes`");
    Some(Diagnostic { file: source, place: None, line: None, problem })
}

fn put(
    settings: &mut ServeSettings,
    setting: &Setting,
    text: &str,
    source: &str,
    wrong: &mut Vec<Diagnostic>,
) {
    if let Err(why) = set(settings, setting, text) {
        let problem = Problem::new::<String>([], why);
        wrong.push(Diagnostic { file: source.to_owned(), place: None, line: None, problem });
    }
}

/// Sets a setting, and notes for Kafka's clients that it was set.
fn set(settings: &mut ServeSettings, setting: &Setting, text: &str) -> Result<(), String> {
    (setting.set)(settings, text)?;
    settings.broker.stated.extend(setting.broker_name());
    Ok(())
}

fn from_file(settings: &mut ServeSettings, file: &str, text: &str, wrong: &mut Vec<Diagnostic>) {
    let mut say = |place: Option<TextPlace>, problem: Problem| {
        let line = place.and_then(|place| line_of(text, place));
        wrong.push(Diagnostic { file: file.to_owned(), place, line, problem });
    };
    if text.len() as u64 > JOB_FILE_BYTES_MAX {
        let problem = Problem::new::<String>([], "the file is too long");
        return say(None, problem.expected(format!("at most {JOB_FILE_BYTES_MAX} bytes")));
    }
    let tree = match Item::parse(text) {
        Ok(tree) => tree,
        Err(error) => return say(error.0, error.1),
    };
    let entries = match &tree.value {
        ItemValue::Table(entries) => entries.as_slice(),
        ItemValue::Null => &[],
        _ => {
            let problem = Problem::new::<String>([], format!("{} stands here", tree.describe()));
            return say(tree.place, problem.expected("lines of the form `key: value`"));
        }
    };
    for (name, node) in entries {
        let Some(setting) = all().find(|it| it.key() == name.text) else {
            let keys: Vec<String> = all().map(Setting::key).collect();
            let shown: String = name.text.chars().take(100).collect();
            let problem = Problem::new([shown.as_str()], format!("unknown setting `{shown}`"));
            say(name.place, problem.one_of(&name.text, keys.iter().map(String::as_str)));
            continue;
        };
        let outcome = match value_text(node) {
            Some(text) => set(settings, setting, &text),
            None => Err(format!("{} stands here, and not a single value", node.describe())),
        };
        if let Err(why) = outcome {
            say(node.place, Problem::new([name.text.as_str()], why));
        }
    }
}

/// A single value as it would be said on the command line.
fn value_text(node: &Item) -> Option<String> {
    match &node.value {
        ItemValue::Text(text) => Some(text.clone()),
        ItemValue::Bool(value) => Some(value.to_string()),
        ItemValue::Unsigned(_) | ItemValue::Signed(_) | ItemValue::Float(_) => {
            Some(node.raw.clone())
        }
        ItemValue::Null | ItemValue::List(_) | ItemValue::Table(_) => None,
    }
}
