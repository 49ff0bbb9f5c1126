//! Numbers as text.

/// The integer that the text writes, in decimal digits with an optional sign.
pub(crate) fn parse_int(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    // 20 digits hold every 64-bit number; longer ones are floats.
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let number = if digits.len() <= 18 {
        let mut number = 0_u64;
        for digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number * 10 + u64::from(digit);
        }
        i128::from(number)
    } else {
        std::str::from_utf8(digits).ok()?.parse::<i128>().ok().filter(|it| *it >= 0)?
    };
    Some(if negative { -number } else { number })
}

/// The float that the text writes; `NaN` and `inf` are floats too.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    match parse_int(text) {
        // A minus zero is a float that an integer loses.
        Some(int) if int.unsigned_abs() < 1 << 53 && int != 0 => Some(int as f64),
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// The integer that a number's text means, also if it is written as a float, such as `1.0` or `2e3`.
pub(crate) fn parse_int_or_whole(text: &[u8]) -> Option<i128> {
    parse_int(text).or_else(|| {
        let float = parse_float(text)?;
        // Beyond 2^53 a float no longer says which integer was meant.
        (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i128)
    })
}

/// Most digits of a number that a float is compared with: more than any program writes of one.
const FLOAT_DIGITS_MAX: usize = 60;

/// True if the float that the text is read as, written with as many digits, has the digits of the
/// text: neither is it another number, nor infinite, nor zero in place of a small one.
pub(crate) fn float_keeps(text: &[u8]) -> bool {
    let Some(float) = parse_float(text).filter(|it| it.is_finite()) else { return false };
    let mantissa = text.split(|it| matches!(it, b'e' | b'E')).next().unwrap_or_default();
    let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    let zeros = digits.iter().take_while(|it| **it == b'0').count();
    let end = digits.iter().rposition(|it| *it != b'0').map_or(zeros, |last| last + 1);
    let digits = &digits[zeros..end];
    match digits.len() {
        0 => true,
        // Any number of 15 digits comes back from a float that is not tiny.
        count if count <= 15 && float.is_normal() => true,
        count if count <= FLOAT_DIGITS_MAX => {
            let written = format!("{:.*e}", digits.len() - 1, float);
            let written = written.split('e').next().unwrap_or_default();
            written.bytes().filter(u8::is_ascii_digit).eq(digits.iter().copied())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    //! Exactness at the edges.

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(parse_int(b"9223372036854775807"), Some(i128::from(i64::MAX)));
        assert_eq!(parse_int(b"-9223372036854775808"), Some(i128::from(i64::MIN)));
        assert_eq!(parse_int(b"18446744073709551615"), Some(i128::from(u64::MAX)));
        for bad in ["", "-", "+", "1.5", "1e3", "0x1", "--1", "-+1", "123456789012345678901", "１"]
        {
            assert_eq!(parse_int(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_int(b"+-000000000000000001"), None);
        assert_eq!(parse_int_or_whole(b"2e3"), Some(2_000));
        assert_eq!(parse_int_or_whole(b"-1.0"), Some(-1));
        assert_eq!(parse_int_or_whole(b"1.5"), None);
        assert_eq!(parse_int_or_whole(b"1e300"), None);
        assert!(parse_float(b"-0").unwrap().is_sign_negative());
        assert_eq!(parse_float(b"abc"), None);
    }

    #[test]
    fn a_float_keeps_what_a_program_wrote_of_one() {
        for text in [
            "0",
            "-0",
            "0.0",
            "0e5",
            "1.5",
            "1.50",
            ".5",
            "1.",
            "1e5",
            "1E-07",
            "0.1",
            "0.10000000000000001",
            "9.999999999999999E22",
            "123456789012345680000",
            "0.1000000000000000055511151231257827",
            "1.7976931348623157e308",
            "5e-324",
            "-2.2250738585072014E-308",
            "1e23",
        ] {
            assert!(float_keeps(text.as_bytes()), "{text}");
        }
        for text in [
            "1e400",
            "-1e400",
            "1e-400",
            "9007199254740993.0",
            "3.14159265358979323846",
            "0.12345678901234567",
            "123456789012345678901234",
            "1.2e-324",
            "inf",
            "NaN",
            "",
            "x",
            "0.00000000000000000000000000000000000000000000000000000000000000012345678901234567890",
        ] {
            assert!(!float_keeps(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_float_keeps_its_own_text(float: f64, digits in 0_usize..25) {
            prop_assume!(float.is_finite());
            prop_assert!(float_keeps(float.to_string().as_bytes()) || float.abs() > 1e60 || float.abs() < 1e-300);
            let written = format!("{float:.digits$e}");
            prop_assert!(float_keeps(written.as_bytes()) || float.abs() > 1e300);
        }

        #[test]
        fn numbers_come_back(int: i64, float: f64) {
            prop_assert_eq!(parse_int(int.to_string().as_bytes()), Some(i128::from(int)));
            let back = parse_float(float.to_string().as_bytes()).unwrap();
            prop_assert!(back.to_bits() == float.to_bits() || float.is_nan());
            prop_assert_eq!(parse_float(int.to_string().as_bytes()), Some(int as f64));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            parse_int_or_whole(&bytes);
        }
    }
}
