//! Whether a URI template (RFC 6570) can produce a URI, precisely enough to find the server that publishes it.
//!
//! It expands no template: expressions match any text.

/// Longest template that is matched, in bytes.
const TEMPLATE_BYTES_MAX: usize = 2_048;

/// Whether the URI begins and ends as the template does, and has its other fixed parts between them, in order.
pub(crate) fn fits(template: &str, uri: &str) -> bool {
    if template.len() > TEMPLATE_BYTES_MAX {
        return false;
    }
    let mut fixed = Vec::new();
    let mut rest = template;
    while let Some((before, expression)) = rest.split_once('{') {
        let Some((_, after)) = expression.split_once('}') else { return false };
        fixed.push(before);
        rest = after;
    }
    let Some((first, middle)) = fixed.split_first() else { return template == uri };
    let Some(mut left) = uri.strip_prefix(first).and_then(|left| left.strip_suffix(rest)) else {
        return false;
    };
    for part in middle {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_the_template_that_it_can_come_of() {
        for (template, uri) in [
            ("test://static/{id}", "test://static/7"),
            ("file:///{+path}", "file:///a/b.txt"),
            ("x://{a}/mid/{b}.json", "x://1/mid/2.json"),
            ("x://fixed", "x://fixed"),
            ("{+any}", "x://y"),
            ("x://a{?q}", "x://a"),
        ] {
            assert!(fits(template, uri), "{template} {uri}");
        }
        for (template, uri) in [
            ("test://static/{id}", "test://dynamic/7"),
            ("x://{a}/mid/{b}.json", "x://1/other/2.json"),
            ("x://{a}/mid/{b}.json", "x://1/mid/2.xml"),
            ("x://aa{b}aa", "x://aaa"),
            ("x://fixed", "x://fixed2"),
            ("x://{broken", "x://{broken"),
        ] {
            assert!(!fits(template, uri), "{template} {uri}");
        }
        assert!(!fits(&"{a}".repeat(1_000), "x"));
    }
}
