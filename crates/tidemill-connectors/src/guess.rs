//! What type a column has, guessed from the values of a file's head.

use crate::column_type::moment_type;
use crate::columns::{COLUMNS_MAX, Shape};
use arrow_schema::{DataType, Field, Fields};
use std::{collections::BTreeMap, sync::Arc};

/// What a value, or the values of a column so far, may be.
#[derive(Clone, Debug, Default)]
pub(crate) enum Guess {
    /// Only nulls.
    #[default]
    Nothing,
    Bool,
    /// Integers, with the smallest and the largest.
    Int(i128, i128),
    Float,
    Text,
    Moment,
    List(Box<Guess>),
    Object(Guesses),
    /// A list or an object beside something else: only JSON holds both.
    Mixed,
}

impl Guess {
    /// What fits both. Integers that meet floats are floats; else, what differs is text, if its parts
    /// have no parts.
    pub(crate) fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, it) | (it, Self::Nothing) => it,
            (Self::Bool, Self::Bool) => Self::Bool,
            (Self::Int(a, b), Self::Int(c, d)) => Self::Int(a.min(c), b.max(d)),
            (Self::Int(..) | Self::Float, Self::Int(..) | Self::Float) => Self::Float,
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

    /// Whether some of it is what no type but the JSON of the whole can hold.
    fn has_mixed(&self) -> bool {
        match self {
            Self::Mixed => true,
            Self::List(element) => element.has_mixed(),
            Self::Object(fields) => fields.guesses.iter().any(Self::has_mixed),
            _ => false,
        }
    }

    /// The type of a column.
    fn column_type(&self) -> DataType {
        if self.has_mixed() { DataType::Utf8 } else { self.data_type() }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Nothing | Self::Text | Self::Mixed => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int(min, max) => {
                if *min >= i128::from(i64::MIN) && *max <= i128::from(i64::MAX) {
                    DataType::Int64
                } else if *min >= 0 && *max <= i128::from(u64::MAX) {
                    DataType::UInt64
                } else {
                    DataType::Float64
                }
            }
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
    /// Adds what a value of a column may be. Columns beyond [`COLUMNS_MAX`] are counted once and
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

    /// Whether there are more columns than a source may have.
    pub(crate) fn overflowed(&self) -> bool {
        self.names.len() > COLUMNS_MAX
    }

    fn fields(&self, type_of: impl Fn(&Guess) -> DataType) -> Vec<Field> {
        let field = |(name, guess): (&String, &Guess)| Field::new(name, type_of(guess), true);
        self.names.iter().zip(&self.guesses).map(field).collect()
    }

    /// The columns as guessed; event time is not known here.
    pub(crate) fn shape(&self) -> Shape {
        Shape { fields: self.fields(Guess::column_type), time: None }
    }
}
