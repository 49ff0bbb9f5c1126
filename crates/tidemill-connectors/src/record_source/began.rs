//! The note of a source: where each part began and, if it does, ends.

use super::reach::{Bounds, Reach};
use super::schema_note::SchemaNote;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Began {
    /// The id of the stream or topic: another one may have its name later.
    pub(crate) stream: String,
    /// By part.
    pub(crate) bounds: Vec<Bounds>,
    /// The number of parts when the job began; none: as many as are listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<u32>,
    /// The columns that were found in its first records. None: a program that kept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) columns: Option<SchemaNote>,
}

impl Began {
    /// A note of the reach, for the log of this id.
    pub(crate) fn new(id: &str, reach: &Reach, columns: Option<SchemaNote>) -> Self {
        let (stream, bounds) = (id.to_owned(), reach.bounds().to_vec());
        Self { stream, bounds, first: Some(reach.first()), columns }
    }

    /// The noted reach.
    pub(crate) fn reach(&self) -> Reach {
        Reach::of(self.first, self.bounds.clone())
    }

    /// Checks that a checkpoint's positions are of this log and not of another one.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn is_of(&self, id: &str) -> Result<(), &'static str> {
        let is_it = self.stream == id;
        is_it.then_some(()).ok_or(
            "it is not the one that the job read when the checkpoint was made, but another one; \
             begin anew without the checkpoint",
        )
    }
}

#[cfg(test)]
mod tests {
    //! The bytes of a note stay: a job of an earlier program goes on from them.

    use super::*;

    #[test]
    fn bytes_of_a_note_stay() {
        let columns = serde_json::from_str(r#"{"columns":[["n","bigint"]],"empty":false}"#);
        let mut reach = Reach::of(None, vec![(3, Some(9)), (0, None)]);
        reach.take_in(3, |_| 5);
        let began = Began::new("7-1", &reach, columns.expect("columns"));
        let json = r#"{"stream":"7-1","bounds":[[3,9],[0,null],[5,null]],"first":2,"columns":{"columns":[["n","bigint"]],"empty":false}}"#;
        assert_eq!(serde_json::to_string(&began).expect("it is written"), json);
        assert_eq!(serde_json::from_str::<Began>(json).expect("it is read"), began);
        assert_eq!(began.reach(), reach);
    }

    /// A note of a program that did not know that parts are added.
    #[test]
    fn a_note_without_a_first_number_is_one_of_all() {
        let json = r#"{"stream":"x","bounds":[[0,null],[7,9]]}"#;
        let began: Began = serde_json::from_str(json).expect("it is read");
        assert_eq!(began.reach().first(), 2);
    }
}
