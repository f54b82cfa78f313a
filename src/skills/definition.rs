//! What a Python source says of the function that it defines: its signature, its parameters, what it is for.
//!
//! It reads the line of the definition and the docstring, and no more of Python; what is odd enough is no definition to it.

use belljar_base::text;

/// Longest signature that is shown, in characters.
const SIGNATURE_CHARS_MAX: usize = 1_000;
/// Longest description, in characters.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 500;
/// Parameters that are looked at.
const PARAMETERS_MAX: usize = 200;

/// A function at the top level of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// `name(x, y=1) -> int`, on one line, harmless to show.
    pub signature: String,
    /// The first line of its docstring, harmless to show; empty without.
    pub doc: String,
    /// In their order.
    pub parameters: Vec<Parameter>,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// How it is given.
    pub kind: Kind,
    /// Whether it can be left out.
    pub has_default: bool,
}

/// The kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By place only.
    ByPlace,
    /// By place or by name.
    Either,
    /// By name only.
    ByName,
    /// `*rest`: all that is given by place beyond the others.
    RestByPlace,
    /// `**rest`: all that is given by name beyond the others.
    RestByName,
}

/// The function of that name, the last one where it is defined more than once, as in Python.
pub(super) fn definition(source: &str, name: &str) -> Option<Definition> {
    let (prefix, mut rest) = source
        .split('\n')
        .scan(0, |at, line| {
            let here = *at;
            *at += line.len() + 1;
            Some(head(&source[here..], name))
        })
        .flatten()
        .last()?;
    if let Some(generic) = rest.strip_prefix('[') {
        rest = parts(generic, ']')?.1.trim_start();
    }
    let (given, rest) = parts(rest.strip_prefix('(')?, ')')?;
    let (returns, rest) = parts(rest, ':')?;
    let given: Vec<&str> = given.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    let signature = format!("{prefix}{name}({}) {}", given.join(", "), returns.join(", "));
    Some(Definition {
        signature: text::inert_excerpt(&signature, SIGNATURE_CHARS_MAX),
        doc: text::inert_excerpt(first_line(docstring(rest).unwrap_or_default()), DESCRIPTION_CHARS_MAX),
        parameters: parameters(&given)?,
    })
}

/// What comes after the name, where the text begins with the definition of it.
fn head<'s>(text: &'s str, name: &str) -> Option<(&'static str, &'s str)> {
    let (prefix, rest) = match text.strip_prefix("async ") {
        Some(rest) => ("async ", rest.trim_start_matches(' ')),
        None => ("", text),
    };
    let rest = rest.strip_prefix("def ")?.trim_start_matches(' ').strip_prefix(name)?.trim_start_matches(' ');
    rest.starts_with(['(', '[']).then_some((prefix, rest))
}

/// The parts between commas up to the character, which is outside brackets and strings, without comments; and what follows.
fn parts(text: &str, end: char) -> Option<(Vec<String>, &str)> {
    let (mut parts, mut part, mut depth) = (vec![], String::new(), 0_usize);
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let mut next = at + character.len_utf8();
        match character {
            '#' => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            '\'' | '"' => next = at + string_bytes(&text[at..])?,
            _ if character == end && depth == 0 => {
                parts.push(part);
                return Some((parts, &text[next..]));
            }
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                at = next;
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        part.push_str(&text[at..next]);
        at = next;
    }
    None
}

/// How long the string literal is that the text begins with, its quotes included.
fn string_bytes(text: &str) -> Option<usize> {
    let quote = match text.get(..3) {
        Some(triple @ ("'''" | "\"\"\"")) => triple,
        _ => text.get(..1)?,
    };
    let mut at = quote.len();
    while !text[at..].starts_with(quote) {
        let mut characters = text[at..].chars();
        let first = characters.next()?;
        at += first.len_utf8();
        if first == '\\' {
            at += characters.next()?.len_utf8();
        }
    }
    Some(at + quote.len())
}

/// What the string holds that the body of a function begins with.
fn docstring(body: &str) -> Option<&str> {
    let mut body = body.trim_start();
    while body.starts_with('#') {
        body = body.split_once('\n')?.1.trim_start();
    }
    let body = body.strip_prefix(['r', 'R', 'u', 'U']).unwrap_or(body);
    if !body.starts_with(['\'', '"']) {
        return None;
    }
    let literal = &body[..string_bytes(body)?];
    let quotes = if literal.len() >= 6 && (literal.starts_with("'''") || literal.starts_with("\"\"\"")) {
        3
    } else {
        1
    };
    literal.get(quotes..literal.len() - quotes)
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

fn parameters(given: &[&str]) -> Option<Vec<Parameter>> {
    let (mut all, mut kind): (Vec<Parameter>, Kind) = (vec![], Kind::Either);
    for part in given.iter().take(PARAMETERS_MAX) {
        if *part == "/" {
            all.iter_mut().for_each(|parameter| parameter.kind = Kind::ByPlace);
            continue;
        }
        if *part == "*" {
            kind = Kind::ByName;
            continue;
        }
        let (name, own_kind) = match (part.strip_prefix("**"), part.strip_prefix('*')) {
            (Some(name), _) => (name, Kind::RestByName),
            (None, Some(name)) => (name, Kind::RestByPlace),
            (None, None) => (*part, kind),
        };
        if own_kind == Kind::RestByPlace {
            kind = Kind::ByName;
        }
        let name = name.split([':', '=']).next().unwrap_or_default().trim();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
        let parameter =
            Parameter { name: name.to_owned(), kind: own_kind, has_default: parts(part, '=').is_some() };
        all.push(is_name.then_some(parameter)?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_read_whatever_stands_in_it() {
        let source = "def other(): pass\nasync  def go(a, /, b: dict[str, int] = {'x': 1, 'y': (2)}, # a, b)\n  \
                      *rest, c='),', **more) -> 'dict[str, int]':  # see\n  # first\n  r\"\"\"\n  Goes.\n  More.\"\"\"\n";
        let found = definition(source, "go").unwrap();
        assert_eq!(
            found.signature,
            "async go(a, /, b: dict[str, int] = {'x': 1, 'y': (2)}, *rest, c='),', **more) -> 'dict[str, int]'"
        );
        assert_eq!(found.doc, "Goes.");
        let kinds: Vec<(&str, Kind, bool)> =
            found.parameters.iter().map(|one| (one.name.as_str(), one.kind, one.has_default)).collect();
        assert_eq!(
            kinds,
            [
                ("a", Kind::ByPlace, false),
                ("b", Kind::Either, true),
                ("rest", Kind::RestByPlace, false),
                ("c", Kind::ByName, true),
                ("more", Kind::RestByName, false)
            ]
        );
    }

    #[test]
    fn the_last_definition_counts_and_half_a_one_is_none() {
        let twice = "def f(x): return 1\ndef f[T](x: T, *, y): 'It\\'s new.'; return 2\n";
        let found = definition(twice, "f").unwrap();
        assert_eq!((found.signature.as_str(), found.doc.as_str()), ("f(x: T, *, y)", "It\\'s new."));
        assert_eq!(definition("def g(): pass", "g").unwrap().doc, "");
        for half in [
            "def f(",
            "def f(x",
            "def f(x)",
            "def f(x='",
            " def f(): pass",
            "f = 1",
            "def fx(): pass",
            "def f(1+): 2",
        ] {
            assert_eq!(definition(half, "f"), None, "{half}");
        }
        let hostile = format!("def f(x=\"\"): \"\"\"\u{1b}[2J{}", "y".repeat(5_000));
        assert_eq!(definition(&hostile, "f").unwrap().doc, "");
        let long = format!("def f({}): '''\u{1b}{}'''", "x, ".repeat(2_000), "y".repeat(5_000));
        let found = definition(&long, "f").unwrap();
        assert!(found.signature.chars().count() <= SIGNATURE_CHARS_MAX && found.doc.starts_with("\\x1by"));
        assert_eq!(found.parameters.len(), PARAMETERS_MAX);
    }
}
