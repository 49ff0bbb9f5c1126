//! Keywords of SQL that can be a column's name too: `user`, `interval`.
//!
//! The parser always reads them as keywords. Here `user` can only be a column, because no function
//! depends on a session. Each other word is a column if the tokens that its construct needs do not
//! follow it. In double quotes every word is a column.

use datafusion_sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// Puts keywords that are names of columns into double quotes.
pub(crate) fn quote_names(tokens: &mut [TokenWithSpan]) {
    let is_blank = |it: &TokenWithSpan| matches!(it.token, Token::Whitespace(_));
    for at in 0..tokens.len() {
        let (until, rest) = tokens.split_at_mut(at + 1);
        let next = rest.iter().find(|it| !is_blank(it)).map(|it| &it.token);
        if let Token::Word(word) = &mut until[at].token
            && word.quote_style.is_none()
            && is_name(word.keyword, next)
        {
            (word.quote_style, word.keyword) = (Some('"'), Keyword::NoKeyword);
        }
    }
}

/// Returns true if the next token shows that the word is a column's name.
fn is_name(word: Keyword, next: Option<&Token>) -> bool {
    let is_called = matches!(next, Some(Token::LParen));
    match word {
        Keyword::USER
        | Keyword::CURRENT_USER
        | Keyword::SESSION_USER
        | Keyword::CURRENT_CATALOG
        | Keyword::LOCALTIME
        | Keyword::LOCALTIMESTAMP
        | Keyword::EXISTS
        | Keyword::TRIM
        | Keyword::STRUCT => !is_called,
        // `interval '1 day'`, `interval 1 day`, `interval (1) day`; not `interval + 1`.
        Keyword::INTERVAL => match next {
            None | Some(Token::EOF) => true,
            Some(Token::Word(word)) => {
                word.keyword != Keyword::NoKeyword && is_behind(word.keyword)
            }
            Some(Token::LParen | Token::Number(..) | Token::Placeholder(_)) => false,
            Some(next) => !is_text(next),
        },
        _ => false,
    }
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}

/// Words that follow a whole expression.
fn is_behind(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::IS
            | Keyword::IN
            | Keyword::NOT
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::AS
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::ORDER
            | Keyword::HAVING
            | Keyword::LIMIT
            | Keyword::ASC
            | Keyword::DESC
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::END
    )
}
