//! What is in a structure, for people who look at it.
//!
//! A structure of a program holds values of the program's own types. A text, a number or a truth
//! value is shown as one; everything else as JSON, as its `Serialize` says.

use serde::Serialize;
use std::{any::Any, ops::ControlFlow};
use tidemill_types::Micros;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// Any other value, as JSON. What JSON cannot say, such as a map whose keys are no texts, is
    /// null.
    Json,
}

/// One value. A column has those of its [`Kind`].
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// There is none.
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

/// Takes a row; says whether more are wanted.
pub type TakeRow<'a> = dyn FnMut(Vec<Shown>) -> ControlFlow<()> + 'a;

macro_rules! plain_kinds {
    ($($kind:ident: $($of:ty)+),+ $(,)?) => {
        /// How values of a type are shown.
        #[must_use]
        pub fn kind_of<T: 'static>() -> Kind {
            let it = std::any::TypeId::of::<T>();
            $($(
                if it == std::any::TypeId::of::<$of>() || it == std::any::TypeId::of::<Option<$of>>() {
                    return Kind::$kind;
                }
            )+)+
            Kind::Json
        }

        fn plain<T: Any>(value: &T) -> Option<Shown> {
            let value: &dyn Any = value;
            $($(
                if let Some(it) = value.downcast_ref::<$of>() {
                    return Some(shown!($kind, it));
                }
                if let Some(it) = value.downcast_ref::<Option<$of>>() {
                    return Some(it.as_ref().map_or(Shown::Null, |it| shown!($kind, it)));
                }
            )+)+
            None
        }
    };
}

macro_rules! shown {
    (Text, $it:ident) => {
        Shown::Text(String::from(&**$it))
    };
    (Int, $it:ident) => {
        Shown::Int(i64::from(*$it))
    };
    (UInt, $it:ident) => {
        Shown::UInt(u64::from(*$it))
    };
    (Float, $it:ident) => {
        Shown::Float(f64::from(*$it))
    };
    (Bool, $it:ident) => {
        Shown::Bool(*$it)
    };
    (Time, $it:ident) => {
        Shown::Time(*$it)
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

/// A value as [`kind_of`] its type says.
pub fn show<T: Serialize + 'static>(value: &T) -> Shown {
    plain(value).unwrap_or_else(|| serde_json::to_string(value).map_or(Shown::Null, Shown::Text))
}

#[cfg(test)]
mod tests;
