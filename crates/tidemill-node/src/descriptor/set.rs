//! `--set KEY=VALUE`: a value of a job, given from outside its file.
//!
//! ```text
//! sources.flights.file.path=data/other.csv        the path is dotted, the value is YAML
//! ```
//!
//! A field that the file leaves out may be set; the table that holds it must be there.

use super::tree::{Item, ItemValue, Name};
use crate::diagnostic::{Path, Problem};

/// Sets one value.
pub(crate) fn set(tree: &mut Item, setting: &str) -> Result<(), Problem> {
    let nowhere = Path::new;
    let Some((key, value)) = setting.split_once('=') else {
        let problem = Problem::new(nowhere(), format!("`--set {setting}` has no `=`"));
        return Err(problem.expected("KEY=VALUE, such as `sources.in.file.path=data.csv`"));
    };
    let names: Path = key.split('.').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        let problem = Problem::new(nowhere(), format!("`{key}` in `--set` is not a path"));
        return Err(problem.expected("names with dots between them"));
    }
    let mut value = Item::parse(value).map_err(|error| {
        let (_, problem) = *error;
        let message = format!("the value of `--set {setting}` cannot be read: {}", problem.message);
        Problem { message, ..problem }
    })?;
    forget_places(&mut value);
    let (last, way) = names.split_last().expect("a split gives at least one name");
    let mut at = &mut *tree;
    for (depth, name) in way.iter().enumerate() {
        at = child(at, name).map_err(|problem| here(problem, key, &names[..=depth]))?;
    }
    match &mut at.value {
        ItemValue::List(_) => {
            *child(at, last).map_err(|problem| here(problem, key, &names))? = value;
        }
        ItemValue::Table(entries) => {
            match entries.iter_mut().find(|(name, _)| name.text == *last) {
                Some((_, old)) => *old = value,
                None => entries.push((Name { text: last.clone(), place: None }, value)),
            }
        }
        _ => {
            let message = format!("`{}` is {}", way.join("."), at.describe());
            return Err(here(Problem::new(nowhere(), message).expected("a table"), key, &names));
        }
    }
    Ok(())
}

fn here(mut problem: Problem, key: &str, path: &[String]) -> Problem {
    problem.message = format!("`--set {key}`: {}", problem.message);
    problem.path = path.to_vec();
    problem
}

/// The entry of a table or list.
fn child<'t>(item: &'t mut Item, name: &str) -> Result<&'t mut Item, Problem> {
    let described = item.describe();
    match &mut item.value {
        ItemValue::Table(entries) => {
            let Some(index) = entries.iter().position(|(it, _)| it.text == name) else {
                let names = entries.iter().map(|(it, _)| it.text.as_str());
                let problem = Problem::new(Path::new(), format!("there is no `{name}`"));
                return Err(problem.one_of(name, names));
            };
            Ok(&mut entries[index].1)
        }
        ItemValue::List(entries) => {
            let count = entries.len();
            let found = name.parse::<usize>().ok().and_then(|number| entries.get_mut(number));
            found.ok_or_else(|| {
                let problem = Problem::new(Path::new(), format!("there is no entry `{name}`"));
                problem.expected(format!("a number below {count}"))
            })
        }
        _ => {
            let problem =
                Problem::new(Path::new(), format!("`{name}` is looked up in {described}"));
            Err(problem.expected("a table"))
        }
    }
}

/// A value from outside has no place in the file.
fn forget_places(item: &mut Item) {
    item.place = None;
    match &mut item.value {
        ItemValue::List(entries) => entries.iter_mut().for_each(forget_places),
        ItemValue::Table(entries) => {
            for (name, value) in entries {
                name.place = None;
                forget_places(value);
            }
        }
        _ => {}
    }
}
