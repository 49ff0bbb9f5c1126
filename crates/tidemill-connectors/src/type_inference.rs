//! The type of a column, guessed from the values of a file's head.

use crate::column_type::moment_type;
use crate::columns::{COLUMNS_MAX, Shape};
use arrow_schema::{DataType, Field, Fields};
use std::{collections::BTreeMap, sync::Arc};

/// The types that a value, or all values of a column so far, can have.
#[derive(Clone, Debug, Default)]
pub(crate) enum Guess {
    /// Only nulls.
    #[default]
    Nothing,
    Bool,
    Int(Ints),
    /// Floats, and integers that each are a float.
    Float,
    /// Numbers that no one type of numbers can give back as they are written; one of those that
    /// stand in the way.
    Digits(String),
    Text,
    Moment,
    List(Box<Guess>),
    Object(Guesses),
    /// A list or an object beside something else: only JSON holds both.
    Mixed,
}

/// Integers that were seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ints {
    min: i128,
    max: i128,
    /// The first of them that no float is.
    inexact: Option<i128>,
}

impl Ints {
    fn merge(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            inexact: self.inexact.or(other.inexact),
        }
    }

    /// The type that has all of them; or one that stands in its way.
    fn data_type(self) -> Result<DataType, i128> {
        if self.min >= i128::from(i64::MIN) && self.max <= i128::from(i64::MAX) {
            Ok(DataType::Int64)
        } else if self.min >= 0 && self.max <= i128::from(u64::MAX) {
            Ok(DataType::UInt64)
        } else if self.max > i128::from(i64::MAX) {
            Err(self.max)
        } else {
            Err(self.min)
        }
    }

    /// As floats, beside others.
    fn floats(self) -> Guess {
        self.inexact.map_or(Guess::Float, |int| Guess::Digits(int.to_string()))
    }
}

impl Guess {
    /// An integer.
    pub(crate) fn int(int: i128) -> Self {
        let is_float = (int as f64) as i128 == int;
        Self::Int(Ints { min: int, max: int, inexact: (!is_float).then_some(int) })
    }

    /// The guess that fits both. Integers that meet floats are floats, if floats can hold them; other
    /// values of different kinds are text, or JSON text if one of them is a list or an object.
    pub(crate) fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, it) | (it, Self::Nothing) => it,
            (Self::Bool, Self::Bool) => Self::Bool,
            (Self::Int(a), Self::Int(b)) => Self::Int(a.merge(b)),
            (Self::Int(ints), Self::Float) | (Self::Float, Self::Int(ints)) => ints.floats(),
            (Self::Float, Self::Float) => Self::Float,
            (Self::Digits(it), Self::Int(_) | Self::Float | Self::Digits(_))
            | (Self::Int(_) | Self::Float, Self::Digits(it)) => Self::Digits(it),
            (Self::Moment, Self::Moment) => Self::Moment,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.merge(*b))),
            (Self::Object(mut a), Self::Object(b)) => {
                b.names.into_iter().zip(b.guesses).for_each(|(name, it)| a.add(&name, it));
                Self::Object(a)
            }
            (Self::Mixed | Self::List(_) | Self::Object(_), _)
            | (_, Self::Mixed | Self::List(_) | Self::Object(_)) => Self::Mixed,
            _ => Self::Text,
        }
    }

    /// Returns true if only the JSON of the whole can hold a part of it.
    fn has_mixed(&self) -> bool {
        match self {
            Self::Mixed => true,
            Self::List(element) => element.has_mixed(),
            Self::Object(fields) => fields.guesses.iter().any(Self::has_mixed),
            _ => false,
        }
    }

    /// A number that is kept as text, as no type of numbers gives it back; `None` if there is none.
    fn kept_as_text(&self) -> Option<String> {
        match self {
            Self::Digits(it) => Some(it.clone()),
            Self::Int(ints) => ints.data_type().err().map(|it| it.to_string()),
            Self::List(element) => element.kept_as_text(),
            Self::Object(fields) => fields.guesses.iter().find_map(Self::kept_as_text),
            _ => None,
        }
    }

    /// The type of a column.
    fn column_type(&self) -> DataType {
        if self.has_mixed() { DataType::Utf8 } else { self.data_type() }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Nothing | Self::Text | Self::Digits(_) | Self::Mixed => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int(ints) => ints.data_type().unwrap_or(DataType::Utf8),
            Self::Float => DataType::Float64,
            Self::Moment => moment_type(),
            Self::List(element) => {
                DataType::List(Arc::new(Field::new("item", element.data_type(), true)))
            }
            Self::Object(fields) => DataType::Struct(Fields::from(fields.fields(Self::data_type))),
        }
    }
}

/// Guesses by column, in the order in which the columns were first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guesses {
    names: Vec<String>,
    guesses: Vec<Guess>,
    by_name: BTreeMap<String, usize>,
}

impl Guesses {
    /// Adds the guess of one value of a column. Columns beyond [`COLUMNS_MAX`] are counted once and
    /// not kept: see [`Self::overflowed`].
    pub(crate) fn add(&mut self, name: &str, guess: Guess) {
        if let Some(index) = self.by_name.get(name) {
            let before = std::mem::take(&mut self.guesses[*index]);
            self.guesses[*index] = before.merge(guess);
        } else if self.names.len() <= COLUMNS_MAX {
            self.by_name.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
            self.guesses.push(guess);
        }
    }

    /// Returns true if there are more columns than a source may have.
    pub(crate) fn overflowed(&self) -> bool {
        self.names.len() > COLUMNS_MAX
    }

    fn fields(&self, type_of: impl Fn(&Guess) -> DataType) -> Vec<Field> {
        let field = |(name, guess): (&String, &Guess)| Field::new(name, type_of(guess), true);
        self.names.iter().zip(&self.guesses).map(field).collect()
    }

    /// Columns that keep numbers as text, with one of these numbers.
    pub(crate) fn kept_as_text(&self) -> BTreeMap<String, String> {
        let columns = self.names.iter().zip(&self.guesses);
        let columns = columns.filter(|(_, guess)| !guess.has_mixed());
        columns.filter_map(|(name, it)| Some((name.clone(), it.kept_as_text()?))).collect()
    }

    /// The columns as guessed; event time is not known here.
    pub(crate) fn shape(&self) -> Shape {
        Shape { fields: self.fields(Guess::column_type), time: None }
    }
}
