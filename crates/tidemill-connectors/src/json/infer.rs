//! Columns of NDJSON, guessed from one record after another.
//!
//! Of two fields with one name the last counts, at every depth.

use super::scan::{Scanner, Token};
use crate::number;
use crate::type_inference::{Guess, Guesses};
use std::collections::BTreeMap;

/// Deepest nesting that becomes a type; a column with deeper values is JSON text.
const TYPE_DEPTH_MAX: usize = 16;

/// Adds the types that one record shows. A bad record shows none.
pub(crate) fn guess_line(line: &[u8], guesses: &mut Guesses) {
    if std::str::from_utf8(line).is_err() {
        return;
    }
    let mut scanner = Scanner::new(line);
    if let Ok(fields) = fields(&mut scanner)
        && scanner.end().is_ok()
    {
        fields.into_iter().for_each(|(name, json)| guesses.add(&name, value(json, 0)));
    }
}

/// The fields of the object that stands here, in the order of their first names, each with its last
/// value as it is written.
fn fields<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<(String, &'a [u8])>, String> {
    let mut fields: Vec<(String, &[u8])> = Vec::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let (mut name_scratch, mut scratch) = (Vec::new(), Vec::new());
    let mut more = scanner.open_object()?;
    while more {
        let name = String::from_utf8_lossy(scanner.key(&mut name_scratch)?).into_owned();
        let json = scanner.raw(&mut scratch)?;
        match by_name.get(&name) {
            Some(index) => fields[*index].1 = json,
            None => {
                by_name.insert(name.clone(), fields.len());
                fields.push((name, json));
            }
        }
        more = scanner.next_in_object()?;
    }
    Ok(fields)
}

/// The type of a value that the scanner has read once. `depth` counts the values around it.
fn value(json: &[u8], depth: usize) -> Guess {
    let guess = match Scanner::new(json).value(&mut Vec::new()) {
        Ok(Token::Null) => Ok(Guess::Nothing),
        Ok(Token::Bool(_)) => Ok(Guess::Bool),
        Ok(Token::Number(text)) => Ok(number(text)),
        Ok(Token::Text(_)) => Ok(Guess::Text),
        Ok(Token::Nested(_)) if depth > TYPE_DEPTH_MAX => Ok(Guess::Mixed),
        Ok(Token::Nested(_)) if json.starts_with(b"[") => list(json, depth),
        Ok(Token::Nested(_)) => object(json, depth),
        Err(error) => Err(error),
    };
    guess.unwrap_or(Guess::Mixed)
}

fn number(text: &[u8]) -> Guess {
    match number::parse_int(text) {
        Some(int) if int != 0 || text == b"0" => Guess::int(int),
        // A minus zero is a float.
        _ if number::float_keeps(text) => Guess::Float,
        _ => Guess::Digits(String::from_utf8_lossy(text).into_owned()),
    }
}

fn list(json: &[u8], depth: usize) -> Result<Guess, String> {
    let mut scanner = Scanner::new(json);
    let mut scratch = Vec::new();
    let mut element = Guess::Nothing;
    let mut more = scanner.open_list()?;
    while more {
        element = element.merge(value(scanner.raw(&mut scratch)?, depth + 1));
        more = scanner.next_in_list()?;
    }
    Ok(Guess::List(Box::new(element)))
}

fn object(json: &[u8], depth: usize) -> Result<Guess, String> {
    let mut guesses = Guesses::default();
    for (name, json) in fields(&mut Scanner::new(json))? {
        guesses.add(&name, value(json, depth + 1));
    }
    Ok(Guess::Object(guesses))
}
