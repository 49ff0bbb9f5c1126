//! Columns of NDJSON, guessed from one record after another.

use super::scan::{Scanner, Token};
use crate::guess::{Guess, Guesses};
use crate::number;
use serde_json::Value;

/// Deepest nesting that becomes a type; a column with deeper values is JSON text.
const TYPE_DEPTH_MAX: usize = 16;

/// Adds what one record shows. A bad record shows nothing.
pub(crate) fn guess_line(line: &[u8], guesses: &mut Guesses) {
    let Ok(text) = std::str::from_utf8(line) else { return };
    let mut seen = Vec::new();
    if fields(text.as_bytes(), &mut seen).is_ok() {
        seen.into_iter().for_each(|(name, guess)| guesses.add(&name, guess));
    }
}

fn fields(line: &[u8], seen: &mut Vec<(String, Guess)>) -> Result<(), String> {
    let mut scanner = Scanner::new(line);
    let (mut name_scratch, mut scratch) = (Vec::new(), Vec::new());
    let mut more = scanner.open_object()?;
    while more {
        let name = String::from_utf8_lossy(scanner.key(&mut name_scratch)?).into_owned();
        let guess = match scanner.value(&mut scratch)? {
            Token::Null => Guess::Nothing,
            Token::Bool(_) => Guess::Bool,
            Token::Number(text) => {
                number::parse_int(text).map_or(Guess::Float, |it| Guess::Int(it, it))
            }
            Token::Text(_) => Guess::Text,
            Token::Nested(json) => {
                serde_json::from_slice(json).map_or(Guess::Mixed, |value| nested(&value, 0))
            }
        };
        seen.push((name, guess));
        more = scanner.next_in_object()?;
    }
    scanner.end()
}

fn nested(value: &Value, depth: usize) -> Guess {
    match value {
        Value::Null => Guess::Nothing,
        Value::Bool(_) => Guess::Bool,
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Guess::Int(int.into(), int.into()),
            (_, Some(int)) => Guess::Int(int.into(), int.into()),
            _ => Guess::Float,
        },
        Value::String(_) => Guess::Text,
        _ if depth == TYPE_DEPTH_MAX => Guess::Mixed,
        Value::Array(items) => {
            let items = items.iter().map(|it| nested(it, depth + 1));
            Guess::List(Box::new(items.fold(Guess::Nothing, Guess::merge)))
        }
        Value::Object(fields) => {
            let mut guesses = Guesses::default();
            fields.iter().for_each(|(name, it)| guesses.add(name, nested(it, depth + 1)));
            Guess::Object(guesses)
        }
    }
}
