//! Replaces `${NAME}` and `${NAME:-default}` in a configured value by variables of the bridge's environment.
//!
//! It runs nothing and knows no other shell syntax: `$NAME` stays, `$${` is a literal `${`.

use super::environment::Environment;

/// What other programs' references begin with.
const KINDS: [&str; 6] = ["input:", "file:", "cmd:", "command:", "workspaceFolder", "userHome"];

/// The value with every reference replaced, or what is wrong with one; no value is repeated in the fragment.
pub(super) fn substitute(value: &str, environment: &Environment) -> Result<String, String> {
    let mut replaced = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(dollar) = rest.find("${") {
        if let Some(before) = rest[..dollar].strip_suffix('$') {
            replaced.push_str(before);
            replaced.push_str("${");
            rest = &rest[dollar + 2..];
            continue;
        }
        replaced.push_str(&rest[..dollar]);
        let Some((reference, after)) = rest[dollar + 2..].split_once('}') else {
            return Err("has \"${\" without its \"}\"".to_owned());
        };
        replaced.push_str(&looked_up(reference, environment)?);
        rest = after;
    }
    replaced.push_str(rest);
    Ok(replaced)
}

fn looked_up(reference: &str, environment: &Environment) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let bare = name.strip_prefix("env:");
    // A password may look like a reference: what may be one is not repeated.
    let shown = match bare {
        Some(bare) => format!("${{env:{bare}}}"),
        None if is_usual_name(name) => format!("${{{name}}}"),
        None => "a ${…}".to_owned(),
    };
    let name = bare.unwrap_or(name);
    if !is_variable_name(name) {
        let kind = KINDS.iter().find(|kind| reference.starts_with(**kind));
        let shown = kind.map_or_else(|| "a ${…}".to_owned(), |kind| format!("${{{kind}…}}"));
        return Err(format!("refers to {shown}, which is no environment variable"));
    }
    match (environment.variable(name), default) {
        (Some(found), _) => found
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("refers to {shown}, whose value is not UTF-8")),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!("refers to {shown}, which is not set")),
    }
}

/// As variables are mostly called; passwords are not.
fn is_usual_name(name: &str) -> bool {
    is_variable_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substituted(value: &str) -> Result<String, String> {
        let environment = Environment {
            variables: [("KEY".into(), "v1".into())].into(),
            home: None,
            uid: 0,
            cwd: None,
            executable: None,
        };
        substitute(value, &environment)
    }

    #[test]
    fn references_are_replaced_and_everything_else_stays() {
        assert_eq!(
            substituted("a ${KEY} ${env:KEY}${NONE:-d e} $KEY $${KEY} $").unwrap(),
            "a v1 v1d e $KEY ${KEY} $"
        );
    }

    #[test]
    fn a_reference_to_nothing_is_refused_by_name() {
        assert_eq!(substituted("${NONE}").unwrap_err(), "refers to ${NONE}, which is not set");
        assert_eq!(
            substituted("${input:token}").unwrap_err(),
            "refers to ${input:…}, which is no environment variable"
        );
        assert_eq!(substituted("${env:none}").unwrap_err(), "refers to ${env:none}, which is not set");
        for password in ["${hunter2}", "x${Pa55word}", "${p@ss word}"] {
            let refusal = substituted(password).unwrap_err();
            assert!(refusal.starts_with("refers to a ${…}, which is "), "{refusal}");
        }
        assert_eq!(substituted("${KEY").unwrap_err(), "has \"${\" without its \"}\"");
    }
}
