//! Characters that a person cannot see, or takes for others, named by their code points.
//!
//! A message that suggests a name is a riddle where both names look the same. It gives the code
//! point then: `the name has U+200B (zero width space) as character 3`.

#[cfg(test)]
mod tests;

/// Most characters that a note names.
const NAMED_MAX: usize = 3;

/// Cyrillic and Greek letters and signs that look like ASCII, with the ASCII character.
const LOOKALIKES: &str = "аaеeоoрpсcуyхxіiјjѕsԁdһhӏlАAВBЕEКKМMНHОOРPСCТTХXУYІIЈJЅS\
                          οoαaνvρpΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧX‐-‑-‒-–-—-−-’'‘'";

/// The unseen characters of a name, as `U+200B (zero width space) as character 3`. None if it has
/// none. Letters of another script count where the name, or the name `beside` it, has ASCII letters.
#[must_use]
pub fn unseen(name: &str, beside: Option<&str>) -> Option<String> {
    let has_ascii = |text: &str| text.chars().any(|it| it.is_ascii_alphabetic());
    let is_mixed = has_ascii(name) || beside.is_some_and(has_ascii);
    let signs = name.chars().enumerate().filter_map(|(at, sign)| {
        let kind = invisible(sign).or_else(|| lookalike(sign).filter(|_| is_mixed))?;
        Some(format!("U+{:04X} ({kind}) as character {}", u32::from(sign), at + 1))
    });
    let mut signs: Vec<String> = signs.collect();
    if signs.is_empty() {
        return None;
    }
    let more = signs.len().saturating_sub(NAMED_MAX);
    signs.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{}{more}", signs.join(", ")))
}

/// A note for the end of a message about a name; empty if all of the name can be seen.
#[must_use]
pub fn note(name: &str, beside: Option<&str>) -> String {
    unseen(name, beside).map_or_else(String::new, |signs| format!(" (the name has {signs})"))
}

/// A question for the end of a message: the name that was probably meant, with a note.
#[must_use]
pub fn suggestion(nearest: &str) -> String {
    format!("did you mean `{nearest}`?{}", note(nearest, None))
}

/// The end of a message about a wrong name: its unseen characters, and the name that was probably
/// meant, if one is near.
#[must_use]
pub fn hint(name: &str, nearest: Option<&str>) -> String {
    let note = note(name, nearest);
    nearest.map_or_else(|| note.clone(), |it| format!("{note}; {}", suggestion(it)))
}

/// True if a person takes two different names for one.
#[must_use]
pub fn look_alike(a: &str, b: &str) -> bool {
    a != b && seen(a).eq(seen(b))
}

/// The characters of a name as a person sees them.
fn seen(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|it| invisible(*it).is_none()).map(|it| {
        let full_width = u32::from(it).checked_sub(0xFEE0).filter(|it| (0x21..=0x7E).contains(it));
        let ascii = full_width.and_then(char::from_u32).or_else(|| ascii_of(it));
        ascii.unwrap_or(it)
    })
}

/// The ASCII character that a sign looks like.
fn ascii_of(sign: char) -> Option<char> {
    let mut pairs = LOOKALIKES.chars();
    while let (Some(other), Some(ascii)) = (pairs.next(), pairs.next()) {
        if other == sign {
            return Some(ascii);
        }
    }
    None
}

/// The kind of a character that leaves no mark of its own.
fn invisible(sign: char) -> Option<&'static str> {
    Some(match sign {
        '\t' => "tab",
        '\u{a0}' => "no-break space",
        '\u{ad}' => "soft hyphen",
        '\u{200b}' => "zero width space",
        '\u{200c}' => "zero width non-joiner",
        '\u{200d}' => "zero width joiner",
        '\u{200e}' => "left-to-right mark",
        '\u{200f}' | '\u{61c}' => "right-to-left mark",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "bidirectional control",
        '\u{202f}' => "narrow no-break space",
        '\u{2060}' => "word joiner",
        '\u{feff}' => "byte order mark",
        '\u{300}'..='\u{36f}' => "combining mark",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => "variation selector",
        '\u{e0000}'..='\u{e007f}' => "tag",
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => "filler",
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => "invisible",
        '\u{2061}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' => "invisible",
        ' ' => return None,
        it if it.is_whitespace() => "space",
        it if it.is_control() => "control character",
        _ => return None,
    })
}

/// The kind of a visible character that is taken for an ASCII one.
fn lookalike(sign: char) -> Option<&'static str> {
    Some(match sign {
        '\u{370}'..='\u{3ff}' => "Greek letter",
        '\u{400}'..='\u{52f}' => "Cyrillic letter",
        '\u{ff01}'..='\u{ff5e}' => "full-width form",
        _ if ascii_of(sign).is_some() => "not the ASCII sign",
        _ => return None,
    })
}
