//! Text of a job file as others may see it: without the passwords of the addresses in it.

use std::ops::Range;

/// The replacement of a password.
const MASK: &str = "***";

/// The text, with `***` for the password of each URL in it, and for each `password=` of its
/// parameters. Rather too much is hidden than too little.
#[must_use]
pub fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(secret) = first(rest) {
        shown.push_str(&rest[..secret.start]);
        shown.push_str(MASK);
        rest = &rest[secret.end..];
    }
    shown + rest
}

/// Where the first password of a text is.
fn first(text: &str) -> Option<Range<usize>> {
    [in_url(text), in_parameter(text)].into_iter().flatten().min_by_key(|it| it.start)
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || c == '"' || c == '\''
}

fn in_url(text: &str) -> Option<Range<usize>> {
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let start = from + at + "://".len();
        let end = text[start..].find(is_end).map_or(text.len(), |it| start + it);
        // The last `@`: one in the password should be written `%40`, and is not always.
        if let (Some(colon), Some(at)) = (text[start..end].find(':'), text[start..end].rfind('@'))
            && colon + 1 < at
            && &text[start + colon + 1..start + at] != MASK
        {
            return Some(start + colon + 1..start + at);
        }
        from = start;
    }
    None
}

fn in_parameter(text: &str) -> Option<Range<usize>> {
    const NAME: &str = "password=";
    let start = text.find(NAME)? + NAME.len();
    let end = text[start..].find(|c| is_end(c) || c == '&').map_or(text.len(), |it| start + it);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    //! Addresses as people write them.

    use super::*;

    #[test]
    fn passwords_are_hidden_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(masked(text), expected);
        check("url: postgresql://u:p@h/db", "url: postgresql://u:***@h/db");
        check("{url: \"postgres://u:a@b/c@h:5/d?x=1\"}", "{url: \"postgres://u:***@h:5/d?x=1\"}");
        check("postgresql://u@h:5432/db", "postgresql://u@h:5432/db");
        check("postgresql://h/d?user=u&password=p&x=1", "postgresql://h/d?user=u&password=***&x=1");
        check("a://u:1@h b://v:2@i", "a://u:***@h b://v:***@i");
        check("where: a > 5", "where: a > 5");
    }
}
