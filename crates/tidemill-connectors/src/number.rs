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

    proptest! {
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
