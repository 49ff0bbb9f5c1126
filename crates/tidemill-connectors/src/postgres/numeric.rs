//! `numeric` as the server reads it.
//!
//! ```text
//! digits i16 │ weight i16 │ sign u16 │ scale i16 │ digits × i16, each of base 10,000
//! ```
//!
//! The weight says which power of 10,000 the first digit counts; zeros at both ends are left out.

/// Decimal digits of one digit.
const GROUP: usize = 4;

/// Appends the number of these decimal digits, of which `scale` are after the point.
///
/// # Panics
/// There is another character than a digit, or there are more digits than any number of ours has.
pub(super) fn write(negative: bool, digits: &str, scale: usize, out: &mut Vec<u8>) {
    let whole_count = digits.len().saturating_sub(scale);
    let (whole, fraction) = digits.split_at(whole_count);
    let mut text = "0".repeat((GROUP - whole.len() % GROUP) % GROUP);
    text.push_str(whole);
    let whole_groups = text.len() / GROUP;
    // A fraction with fewer digits than its scale begins with zeros.
    text.push_str(&"0".repeat(scale.saturating_sub(fraction.len())));
    text.push_str(fraction);
    text.push_str(&"0".repeat((GROUP - text.len() % GROUP) % GROUP));
    let value =
        |group: &[u8]| group.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let groups: Vec<i16> = text.as_bytes().chunks(GROUP).map(value).collect();
    let zeros = groups.iter().take_while(|it| **it == 0).count();
    let end = groups.iter().rposition(|it| *it != 0).map_or(zeros, |it| it + 1);
    let groups = &groups[zeros..end];
    let small = |it: usize| i16::try_from(it).expect("a decimal has at most some hundred digits");
    let weight = match groups {
        [] => 0,
        _ => small(whole_groups) - small(zeros) - 1,
    };
    let sign: u16 = if negative && !groups.is_empty() { 0x4000 } else { 0 };
    out.extend_from_slice(&small(groups.len()).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&small(scale).to_be_bytes());
    groups.iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    //! Numbers against a reader that follows the server's text, and bytes that the server sent.

    use super::*;
    use proptest::prelude::*;

    /// The text that the server would print.
    fn read(bytes: &[u8]) -> String {
        let word = |at: usize| i16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        let (count, weight, sign, scale) = (word(0), word(1), word(2), word(3));
        let digit = |power: i16| -> i16 {
            let at = weight - power;
            if (0..count).contains(&at) { word(4 + usize::try_from(at).unwrap()) } else { 0 }
        };
        let whole: String =
            (0..=weight.max(0)).rev().map(|it| format!("{:04}", digit(it))).collect();
        let whole = whole.trim_start_matches('0');
        let mut fraction = String::new();
        let mut power = -1;
        while fraction.len() < usize::try_from(scale).unwrap() {
            fraction.push_str(&format!("{:04}", digit(power)));
            power -= 1;
        }
        fraction.truncate(usize::try_from(scale).unwrap());
        let sign = if sign == 0x4000 { "-" } else { "" };
        let whole = if whole.is_empty() { "0" } else { whole };
        if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }

    fn written(negative: bool, digits: &str, scale: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write(negative, digits, scale, &mut out);
        out
    }

    #[test]
    fn numbers_are_the_bytes_that_the_server_sends() {
        let check = |negative, digits, scale, words: &[i16]| {
            let expected: Vec<u8> = words.iter().flat_map(|it| it.to_be_bytes()).collect();
            assert_eq!(written(negative, digits, scale), expected, "{digits} {scale}");
        };
        check(false, "0", 0, &[0, 0, 0, 0]);
        check(true, "000", 2, &[0, 0, 0, 2]);
        check(false, "1", 0, &[1, 0, 0, 0, 1]);
        check(false, "1234567890", 5, &[3, 1, 0, 5, 1, 2345, 6789]);
        check(true, "5", 1, &[1, -1, 0x4000, 1, 5000]);
        check(false, "100000000", 0, &[1, 2, 0, 0, 1]);
        check(false, "1", 9, &[1, -3, 0, 9, 1000]);
    }

    proptest! {
        #[test]
        fn any_decimal_reads_as_itself(value: i128, scale in 0usize..38) {
            let digits = value.unsigned_abs().to_string();
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            let sign = if value < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            let expected = format!("{sign}{whole}{point}{fraction}");
            prop_assert_eq!(read(&written(value < 0, &digits, scale)), expected);
        }
    }
}
