//! The depth of an expression, computed from its tokens before the recursive parser and planner see it:
//! a stack that overflows ends the process.
//!
//! ```text
//! a = 1 or b = 2 and c + d > f(x, y * z)       depth: 1 + an `or` + an `and` + two others + f's 2
//! ```
//!
//! The parser has a limit of its own, 50, for nested brackets and for prefix words such as `not`.

use crate::error::ExprError;
use datafusion_sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan},
};

/// Most operators that work on each other's results.
const DEPTH_MAX: usize = 500;
/// Largest depth that is planned on the caller's stack.
const DEEP: usize = 20;
/// The stack for deeper expressions. A level takes up to 64 KiB in a build without optimization.
const STACK_BYTES: usize = 64 << 20;

/// One pair of brackets, or one `case` … `end`, that is still open.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Operators since the last comma, or since the last word of a `case`.
    ors: usize,
    ands: usize,
    others: usize,
    /// The number of `between` whose own `and` has not come yet.
    betweens: usize,
    /// The most `and`s between two `or`s, and of others between two of both.
    ands_max: usize,
    others_max: usize,
    /// Largest depth of the brackets in this part.
    inner: usize,
    /// The deepest part before.
    before: usize,
}

impl Level {
    fn depth(&self) -> usize {
        let chain = self.ors + self.ands.max(self.ands_max) + self.others.max(self.others_max);
        self.before.max(1 + chain + self.inner)
    }

    fn end_part(&mut self) {
        *self = Self { is_case: self.is_case, before: self.depth(), ..Self::default() };
    }

    fn between(&mut self) {
        (self.others, self.betweens) = (self.others + 1, self.betweens + 1);
    }

    fn and(&mut self) {
        if self.betweens > 0 {
            (self.others, self.betweens) = (self.others + 1, self.betweens - 1);
            return;
        }
        self.end_operand();
    }

    /// Ends an operand of `and`.
    fn end_operand(&mut self) {
        self.others_max = self.others_max.max(self.others);
        (self.ands, self.others) = (self.ands + 1, 0);
    }

    fn or(&mut self) {
        self.end_operand();
        self.ands_max = self.ands_max.max(self.ands - 1);
        (self.ands, self.ors) = (0, self.ors + 1);
    }
}

/// An upper bound of the depth, and the first place where it exceeds the limit.
fn of(tokens: &[TokenWithSpan]) -> (usize, Option<Location>) {
    let mut levels = vec![Level::default()];
    let mut beyond = None;
    // All levels but the last, with what stood before them.
    let mut around = 0_usize;
    let mut deepest = 0;
    for token in tokens {
        let opens = matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace);
        let closes = matches!(token.token, Token::RParen | Token::RBracket | Token::RBrace);
        let keyword = match &token.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let level = levels.last_mut().expect("the outermost is never closed");
        if opens || keyword == Keyword::CASE {
            // What is called or indexed so is what stands before.
            level.others += usize::from(matches!(token.token, Token::LBracket));
            around += level.depth();
            levels.push(Level { is_case: !opens, ..Level::default() });
        } else if closes || (keyword == Keyword::END && level.is_case) {
            if levels.len() > 1 {
                let inner = levels.pop().map_or(0, |it| it.depth());
                let level = levels.last_mut().expect("it was not the last");
                around -= level.depth();
                level.inner = level.inner.max(inner);
            }
        } else {
            match (&token.token, keyword) {
                (Token::Comma, _) | (_, Keyword::WHEN | Keyword::THEN | Keyword::ELSE) => {
                    level.end_part()
                }
                (_, Keyword::OR) => level.or(),
                (_, Keyword::AND) => level.and(),
                (_, Keyword::BETWEEN) => level.between(),
                (
                    Token::Word(_)
                    | Token::Period
                    | Token::Number(..)
                    | Token::SingleQuotedString(_)
                    | Token::Whitespace(_)
                    | Token::EOF,
                    Keyword::NoKeyword,
                ) => {}
                // Every other word and sign may be an operator.
                _ => level.others += 1,
            }
        }
        let level = levels.last().expect("the outermost is never closed");
        deepest = deepest.max(around + level.depth());
        if deepest > DEPTH_MAX && beyond.is_none() {
            beyond = Some(token.span.start);
        }
    }
    (deepest, beyond)
}

/// The depth of an expression.
///
/// # Errors
/// It is too deep.
pub(crate) fn checked(tokens: &[TokenWithSpan]) -> Result<usize, ExprError> {
    match of(tokens) {
        (_, Some(place)) => {
            let message = format!(
                "more than {DEPTH_MAX} operators work on each other's results; `x in (…)` and `case` take any number of values"
            );
            Err(ExprError::new(message).at(place))
        }
        (depth, None) => Ok(depth),
    }
}

/// Runs work on a stack that suits an expression of this depth.
pub(crate) fn with_stack<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> T {
    if depth <= DEEP {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("plan".to_owned()).stack_size(STACK_BYTES);
        let joined = thread.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join);
        match joined.expect("the machine has a thread to spare") {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests;
