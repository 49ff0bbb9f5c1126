//! A strict JSON scanner over one record (RFC 8259). It allocates only to report an error.
//!
//! Bytes are known to be UTF-8 before they come here, or are checked as text later; nothing here
//! depends on it.

/// Deepest nesting of lists and objects.
const DEPTH_MAX: usize = 128;

/// A value as it stands in the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Null,
    Bool(bool),
    Number(&'a [u8]),
    /// The text, without escapes.
    Text(&'a [u8]),
    /// A list or an object, as it is written.
    Nested(&'a [u8]),
}

/// Stands at a place in a record.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[cold]
    fn fault(&self, expected: &str) -> String {
        match self.bytes.get(self.at) {
            Some(byte) => {
                let byte = byte.escape_ascii();
                format!("not JSON: expected {expected}, found `{byte}` at byte {} of it", self.at)
            }
            None => format!("not JSON: expected {expected}, but the record ends"),
        }
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The start of the record's object; whether it has a field.
    pub(crate) fn open_object(&mut self) -> Result<bool, String> {
        self.skip_space();
        if self.peek() != Some(b'{') {
            return Err(self.fault("an object"));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// A field's name and the colon after it. The name is in the record, or in `scratch`.
    pub(crate) fn key<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], String>
    where
        'a: 's,
    {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.fault("a field's name in quotes"));
        }
        let name = self.text(scratch)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.fault("`:`"));
        }
        self.at += 1;
        Ok(name)
    }

    /// After a value: whether another field follows.
    #[inline]
    pub(crate) fn next_in_object(&mut self) -> Result<bool, String> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.fault("`,` or `}`")),
        }
    }

    /// The start of a list, if one stands here; whether it has an element.
    pub(crate) fn open_list(&mut self) -> Result<bool, String> {
        self.skip_space();
        if self.peek() != Some(b'[') {
            return Err(self.fault("a list"));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// After an element: whether another follows.
    pub(crate) fn next_in_list(&mut self) -> Result<bool, String> {
        self.skip_space();
        let more = match self.peek() {
            Some(b',') => true,
            Some(b']') => false,
            _ => return Err(self.fault("`,` or `]`")),
        };
        self.at += 1;
        Ok(more)
    }

    /// The first byte of the value that stands here.
    pub(crate) fn begins(&mut self) -> Option<u8> {
        self.skip_space();
        self.peek()
    }

    /// A value of any kind, as it is written.
    pub(crate) fn raw(&mut self, scratch: &mut Vec<u8>) -> Result<&'a [u8], String> {
        self.skip_space();
        let start = self.at;
        self.value(scratch)?;
        Ok(&self.bytes[start..self.at])
    }

    /// Nothing but space may follow the object.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.skip_space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault("the end of the line")) }
    }

    /// A value of any kind.
    #[inline]
    pub(crate) fn value<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<Token<'s>, String>
    where
        'a: 's,
    {
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.text(scratch).map(Token::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(b'n') => self.literal(b"null").map(|()| Token::Null),
            Some(b't') => self.literal(b"true").map(|()| Token::Bool(true)),
            Some(b'f') => self.literal(b"false").map(|()| Token::Bool(false)),
            Some(b'{' | b'[') => {
                let start = self.at;
                self.skip_nested(scratch)?;
                Ok(Token::Nested(&self.bytes[start..self.at]))
            }
            _ => Err(self.fault("a value")),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), String> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.fault("a value"))
        }
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("a digit")) } else { Ok(()) }
    }

    #[inline]
    fn number(&mut self) -> Result<&'a [u8], String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.bytes[start..self.at])
    }

    /// A string, from its first quote to after its last.
    #[inline]
    fn text<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], String>
    where
        'a: 's,
    {
        self.at += 1;
        let start = self.at;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.bytes[start..self.at - 1]);
                }
                b'\\' => {
                    scratch.clear();
                    scratch.extend_from_slice(&self.bytes[start..self.at]);
                    self.escaped(scratch)?;
                    return Ok(scratch);
                }
                0..0x20 => return Err(self.fault("no control character in a string")),
                _ => self.at += 1,
            }
        }
        Err(self.fault("`\"` at the end of a string"))
    }

    /// The rest of a string from its first escape on.
    fn escaped(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape(out)?;
                }
                0..0x20 => return Err(self.fault("no control character in a string")),
                _ => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        Err(self.fault("`\"` at the end of a string"))
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let symbol = self.symbol()?;
                out.extend_from_slice(symbol.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.fault("an escape such as `\\n`")),
        };
        out.push(plain);
        self.at += 1;
        Ok(())
    }

    /// A character of one or two `\uXXXX`.
    fn symbol(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if let Some(symbol) = char::from_u32(first) {
            return Ok(symbol);
        }
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).expect("a pair of surrogates is a character"));
            }
        }
        Err(self.fault("the other half of a surrogate pair"))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.fault("a hexadecimal digit")) };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Passes over a list or an object.
    fn skip_nested(&mut self, scratch: &mut Vec<u8>) -> Result<(), String> {
        // One bit a level: set for an object.
        let (mut depth, mut objects) = (0_usize, 0_u128);
        loop {
            self.skip_space();
            let opened = match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth == DEPTH_MAX {
                        return Err("not read: it is nested deeper than 128 levels".to_owned());
                    }
                    self.at += 1;
                    depth += 1;
                    objects = (objects << 1) | u128::from(open == b'{');
                    self.skip_space();
                    !matches!((open, self.peek()), (b'{', Some(b'}')) | (b'[', Some(b']')))
                }
                _ => {
                    self.value(scratch)?;
                    false
                }
            };
            if !opened && self.close(&mut depth, &mut objects)? {
                return Ok(());
            }
            if objects & 1 == 1 {
                self.key(scratch)?;
            }
        }
    }

    /// After a value: closes the objects and lists that end there. True if everything is closed; else a value
    /// follows.
    fn close(&mut self, depth: &mut usize, objects: &mut u128) -> Result<bool, String> {
        loop {
            self.skip_space();
            let object = *objects & 1 == 1;
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(b'}') if object => self.at += 1,
                Some(b']') if !object => self.at += 1,
                _ if object => return Err(self.fault("`,` or `}`")),
                _ => return Err(self.fault("`,` or `]`")),
            }
            *depth -= 1;
            *objects >>= 1;
            if *depth == 0 {
                return Ok(true);
            }
        }
    }
}
