//! The content of a structure as rows of a table, for people.
//!
//! A program's structures hold values of its own types. Texts, numbers and booleans are columns of
//! those types; every other value is JSON, by its `Serialize`.

use serde::Serialize;
use std::{any::Any, ops::ControlFlow};
use tidemill_types::Micros;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// An integer.
    Int,
    /// An integer that is not negative.
    UInt,
    /// A floating-point number.
    Float,
    /// True or false.
    Bool,
    /// A moment in time.
    Time,
    /// Any other value, as JSON. A value that JSON cannot express, such as a map with keys that are
    /// no texts, is null.
    Json,
}

/// A value of a column. Its variant fits the column's [`ColumnKind`].
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValue {
    /// No value.
    Null,
    /// Of the kinds `Text` and `Json`.
    Text(String),
    /// Of the kind `Int`.
    Int(i64),
    /// Of the kind `UInt`.
    UInt(u64),
    /// Of the kind `Float`.
    Float(f64),
    /// Of the kind `Bool`.
    Bool(bool),
    /// Of the kind `Time`.
    Time(Micros),
}

/// Takes a row. Breaks if no more are wanted.
pub type TakeRow<'a> = dyn FnMut(Vec<ColumnValue>) -> ControlFlow<()> + 'a;

macro_rules! plain_kinds {
    ($($kind:ident: $($of:ty)+),+ $(,)?) => {
        /// The column type of a Rust type.
        #[must_use]
        pub fn kind_of<T: 'static>() -> ColumnKind {
            let it = std::any::TypeId::of::<T>();
            $($(
                if it == std::any::TypeId::of::<$of>() || it == std::any::TypeId::of::<Option<$of>>() {
                    return ColumnKind::$kind;
                }
            )+)+
            ColumnKind::Json
        }

        fn plain<T: Any>(value: &T) -> Option<ColumnValue> {
            let value: &dyn Any = value;
            $($(
                if let Some(it) = value.downcast_ref::<$of>() {
                    return Some(shown!($kind, it));
                }
                if let Some(it) = value.downcast_ref::<Option<$of>>() {
                    return Some(it.as_ref().map_or(ColumnValue::Null, |it| shown!($kind, it)));
                }
            )+)+
            None
        }
    };
}

macro_rules! shown {
    (Text, $it:ident) => {
        ColumnValue::Text(String::from(&**$it))
    };
    (Int, $it:ident) => {
        ColumnValue::Int(i64::from(*$it))
    };
    (UInt, $it:ident) => {
        ColumnValue::UInt(u64::from(*$it))
    };
    (Float, $it:ident) => {
        ColumnValue::Float(f64::from(*$it))
    };
    (Bool, $it:ident) => {
        ColumnValue::Bool(*$it)
    };
    (Time, $it:ident) => {
        ColumnValue::Time(*$it)
    };
}

plain_kinds! {
    Text: String Box<str> std::sync::Arc<str>,
    Int: i64 i32 i16 i8,
    UInt: u64 u32 u16 u8,
    Float: f64 f32,
    Bool: bool,
    Time: Micros,
}

/// A value as a column of [`kind_of`] its type.
pub fn show<T: Serialize + 'static>(value: &T) -> ColumnValue {
    plain(value).unwrap_or_else(|| {
        serde_json::to_string(value).map_or(ColumnValue::Null, ColumnValue::Text)
    })
}

#[cfg(test)]
mod tests;
