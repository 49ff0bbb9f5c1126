//! A column that a format cannot hold is named, down to the part of it.

use super::*;

#[test]
fn the_part_that_cannot_be_written_is_named_with_a_way_out() {
    let object = |fields: Vec<Field>| DataType::Struct(fields.into());
    let number = Field::new("n", DataType::Int64, true);
    let empty = Field::new("k2", object(Vec::new()), true);
    let cases = [
        (Field::new("meta", object(Vec::new()), true), "column `meta`: "),
        (Field::new("c2", object(vec![number.clone(), empty.clone()]), true), "column `c2.k2`: "),
        (Field::new("l", DataType::new_list(object(vec![empty]), true), true), "column `l[].k2`: "),
    ];
    for (field, expected) in cases {
        let schema = Arc::new(Schema::new(vec![number.clone(), field]));
        let sim = World::simulated(1);
        let refused = FileSink::new(&sim.world, "out", Format::Parquet, schema).err().unwrap();
        let message = refused.message;
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("leave it out or make it text with `select`"), "{message}");
    }
}
