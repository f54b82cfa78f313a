//! The readings of a file URI: parsers differ in what they make of its host, its slashes and what follows the path.
//!
//! It decodes nothing. The caller passes folded text.

/// All readings of a file URI in the form `file:///path`; none if the text is no file URI.
pub(super) fn readings(folded: &str) -> Vec<String> {
    let Some(rest) = folded.strip_prefix("file:") else { return vec![] };
    let path = rest.replace('\\', "/");
    let mut paths = vec![path.as_str()];
    // A parser may read a host behind two slashes, or a path all the same.
    if let Some((_host, path)) = path.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
        paths.push(path);
    }
    let mut readings: Vec<String> = Vec::new();
    for path in paths {
        for path in [path, path.split(['?', '#']).next().unwrap_or(path)] {
            let reading = format!("file://{}", plain_path(&format!("/{path}")));
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
    }
    readings
}

/// The path without `.`, `..` and empty segments.
pub(super) fn plain_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_absolute = path.starts_with(['/', '\\']);
    let above = segments.iter().take_while(|segment| is_absolute && **segment == "..").count();
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", segments[above..].join("/"))
}
