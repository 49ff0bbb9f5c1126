//! Expressions of random bytes. A few are looked at here, in a few seconds; the fuzz target makes as many
//! as one likes.

use super::*;
use proptest::prelude::*;

#[test]
fn an_expression_of_each_form_is_known() {
    let mut unknown = Vec::new();
    let mut count = 0;
    for (kind, form) in forms::all() {
        count += 1;
        let compiles = (0..64_u8).any(|nth| {
            let bytes: Vec<u8> = (0..40_u8)
                .map(|it| it.wrapping_mul(5).wrapping_add(nth.wrapping_mul(11)) & 0x3f)
                .collect();
            holds(&forms::filled(form, kind, 0, &mut Choices(&bytes)), nth)
        });
        if !compiles {
            unknown.push(form);
        }
    }
    assert!(unknown.is_empty(), "{} of {count}: {unknown:#?}", unknown.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn an_expression_means_the_same_wherever_its_rows_and_constants_are(
        bytes in proptest::collection::vec(any::<u8>(), 4..60),
    ) {
        expression(&bytes);
    }
}
