//! Rests grow, are bounded and differ.

use super::*;
use proptest::prelude::*;

#[test]
fn rests_double_up_to_the_longest() {
    let options = ClientOptions::default();
    let rests: Vec<u64> = (1..=8).map(|it| rest_us(it, &options, 10_000) / 1000).collect();
    assert_eq!(rests, [50, 90, 170, 330, 650, 1290, 1610, 1610]);
}

proptest! {
    #[test]
    fn a_rest_is_within_a_fifth_of_its_base(failures: u32, random: u64) {
        let options = ClientOptions::default();
        let rest = rest_us(failures, &options, random);
        prop_assert!((40_000..=2_400_000).contains(&rest), "{rest}");
    }
}
