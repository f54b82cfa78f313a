//! Translates the references of clients into belljar's own: `${VAR}`, `${VAR:-default}`, `${file:PATH}`.
//!
//! It looks up no variables. Text that the client would not replace is escaped, so that belljar does not replace it
//! either.

use std::collections::BTreeMap;
use std::path::Path;

use super::dialect::References;

/// The context in which references are translated.
pub(crate) struct Context<'c> {
    pub(crate) style: References,
    /// The name of the client, for people.
    pub(crate) title: &'static str,
    pub(crate) home: &'c Path,
    /// The folder of the project, if the file is a project's.
    pub(crate) project: Option<&'c Path>,
    /// The folder of the file.
    pub(crate) folder: &'c Path,
    /// The inputs that VS Code asks for: each description by its id.
    pub(crate) inputs: &'c BTreeMap<String, String>,
    /// The entry's own variables, for a client that replaces these.
    pub(crate) own: &'c BTreeMap<String, String>,
}

/// A string in the syntax of belljar, with the variables that it needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TranslatedText {
    pub(crate) text: String,
    /// Variables that the user has to set, each with its purpose.
    pub(crate) needs: Vec<(String, String)>,
}

/// A reference at the beginning of a string: its length, and its translation or the reason for which there is none.
type ReferenceMatch<'t> = Option<(usize, Result<Piece<'t>, String>)>;

enum Piece<'t> {
    /// A reference in belljar's syntax.
    Reference(String),
    /// Literal text.
    Literal(&'t str),
    Value(String),
    Needed(String, String),
}

/// Translates a string into belljar's syntax. The error is a fragment that repeats no value.
pub(crate) fn translate(text: &str, context: &Context<'_>) -> Result<TranslatedText, String> {
    let mut translated = TranslatedText::default();
    // Literal text, in which `${` has to be escaped.
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let Some((length, piece)) = found(rest, context) else {
            literal.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let reference = match piece? {
            Piece::Literal(text) => {
                literal.push_str(text);
                None
            }
            Piece::Value(text) => {
                literal.push_str(&text);
                None
            }
            Piece::Reference(reference) => Some(reference),
            Piece::Needed(variable, what_for) => {
                translated.needs.push((variable.clone(), what_for));
                Some(variable)
            }
        };
        if let Some(reference) = reference {
            // With a "$" right before it, belljar would take the reference literally.
            if literal.ends_with('$') {
                return Err("has a \"$\" right before a reference, which belljar cannot write".into());
            }
            translated.text.push_str(&escaped(&literal));
            literal.clear();
            translated.text.push_str(&format!("${{{reference}}}"));
        }
        rest = &rest[length..];
    }
    translated.text.push_str(&escaped(&literal));
    Ok(translated)
}

/// Whether a text in belljar's syntax has no reference, so that a secret in it is written literally.
pub(crate) fn is_literal(text: &str) -> bool {
    !text.replace("$${", "").contains("${")
}

/// Literal text in belljar's syntax.
pub(crate) fn escaped(literal: &str) -> String {
    literal.replace("${", "$${")
}

fn found<'t>(rest: &'t str, context: &Context<'_>) -> ReferenceMatch<'t> {
    match context.style {
        References::None => None,
        References::Shell => braced(rest).and_then(|(length, name)| {
            let variable = name.split_once(":-").map_or(name, |(variable, _)| variable);
            is_variable(variable).then(|| (length, Ok(Piece::Reference(name.into()))))
        }),
        References::Dollar => dollar(rest).map(|(length, name)| (length, Ok(Piece::Reference(name.into())))),
        References::Editor => braced(rest).and_then(|(length, name)| Some((length, editor(name, context)?))),
        References::EnvAndFile => {
            braced(rest).and_then(|(length, name)| Some((length, env_or_file(name, context)?)))
        }
        References::Braces => {
            let name = rest.strip_prefix('{')?.split_once('}')?.0;
            Some((name.len() + 2, env_or_file(name, context)?))
        }
        References::Secrets => {
            let inner = rest.strip_prefix("${{")?.split_once("}}")?.0;
            let name = inner.trim().strip_prefix("secrets.")?;
            let what_for = format!("what {} has as a secret of this name", context.title);
            is_variable(name).then(|| (inner.len() + 5, Ok(Piece::Needed(name.into(), what_for))))
        }
        References::OwnVariables => dollar(rest).map(|(length, name)| match context.own.get(name) {
            Some(value) => (length, Ok(Piece::Value(value.clone()))),
            None => (length, Ok(Piece::Reference(name.into()))),
        }),
    }
}

/// The content of `${...}` at the beginning, and the length of the whole reference.
fn braced(rest: &str) -> Option<(usize, &str)> {
    let name = rest.strip_prefix("${")?.split_once('}')?.0;
    Some((name.len() + 3, name))
}

/// The variable after a `$`, with or without braces; in braces with its default.
fn dollar(rest: &str) -> Option<(usize, &str)> {
    if let Some((length, name)) = braced(rest) {
        let variable = name.split_once(":-").map_or(name, |(variable, _)| variable);
        return is_variable(variable).then_some((length, name));
    }
    let behind = rest.strip_prefix('$')?;
    let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
    is_variable(&behind[..end]).then(|| (end + 1, &behind[..end]))
}

fn editor<'t>(name: &'t str, context: &Context<'_>) -> Option<Result<Piece<'t>, String>> {
    let of_project = |shown: &str| match context.project {
        Some(project) => Ok(project),
        None => Err(format!(
            "refers to ${{{shown}}}, the folder that {} has open, which belljar does not know",
            context.title
        )),
    };
    let piece = match name {
        "userHome" => Ok(Piece::Value(context.home.display().to_string())),
        "workspaceFolder" | "workspaceRoot" | "cwd" => {
            of_project(name).map(|folder| Piece::Value(folder.display().to_string()))
        }
        "workspaceFolderBasename" => of_project(name).map(|folder| {
            let name = folder.file_name().unwrap_or_default();
            Piece::Value(name.to_string_lossy().into_owned())
        }),
        "pathSeparator" | "/" => Ok(Piece::Literal("/")),
        _ => match name.split_once(':')? {
            ("env", variable) if is_variable(variable) => Ok(Piece::Reference(variable.into())),
            ("input", id) => {
                let variable = variable_of(id);
                let about = context.inputs.get(id).filter(|about| !about.is_empty());
                let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
                let what_for = format!("what {} asks for as {id:?}{about}", context.title);
                Ok(Piece::Needed(variable, what_for))
            }
            (kind @ ("config" | "command" | "workspaceFolder" | "env" | "secret"), _) => {
                Err(format!("refers to ${{{kind}:…}}, which only {} can replace", context.title))
            }
            _ => return None,
        },
    };
    Some(piece)
}

fn env_or_file<'t>(name: &'t str, context: &Context<'_>) -> Option<Result<Piece<'t>, String>> {
    match name.split_once(':')? {
        ("env", variable) if is_variable(variable) => Some(Ok(Piece::Reference(variable.into()))),
        ("file", path) => {
            let path = path.trim();
            let path = if path.starts_with("~/") { path.into() } else { context.folder.join(path) };
            Some(Ok(Piece::Reference(format!("file:{}", path.display()))))
        }
        _ => None,
    }
}

/// The name of the variable for an input of VS Code: GITHUB_TOKEN for `github-token`.
fn variable_of(id: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let variable: String = id.chars().map(upper).collect();
    if is_variable(&variable) { variable } else { format!("INPUT_{variable}") }
}

pub(crate) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(style: References, project: Option<&str>, text: &str) -> Result<String, String> {
        let inputs = [("api-key".to_owned(), "Key of the API".to_owned())].into();
        let own = [("REGION".to_owned(), "eu".to_owned())].into();
        let context = Context {
            style,
            title: "VS Code",
            home: Path::new("/home/ada"),
            project: project.map(Path::new),
            folder: Path::new("/home/ada/.x"),
            inputs: &inputs,
            own: &own,
        };
        let TranslatedText { text, needs } = translate(text, &context)?;
        Ok(needs.iter().fold(text, |text, (variable, what_for)| format!("{text} [{variable}: {what_for}]")))
    }

    #[test]
    fn each_client_s_references_become_belljar_s_and_all_else_stays_text() {
        let cases = [
            (References::None, "${A} $B {env:C}", "$${A} $B {env:C}"),
            (References::Shell, "${A}/${B:-c d}/${a b}/$C", "${A}/${B:-c d}/$${a b}/$C"),
            (References::Dollar, "$A/x-${B} 5$ $1 ${c d}", "${A}/x-${B} 5$ $1 $${c d}"),
            (References::Editor, "${env:A} ${userHome}${/}x ${A}", "${A} /home/ada/x $${A}"),
            (
                References::Editor,
                "Bearer ${input:api-key}",
                "Bearer ${API_KEY} [API_KEY: what VS Code asks for as \"api-key\" (Key of the API)]",
            ),
            (References::EnvAndFile, "${env:A} ${file:k.txt} ${B}", "${A} ${file:/home/ada/.x/k.txt} $${B}"),
            (References::Braces, "{env:A} {file:~/k} ${B} {x}", "${A} ${file:~/k} $${B} {x}"),
            (
                References::Secrets,
                "Bearer ${{ secrets.KEY }} ${A} ${{ inputs.B }}",
                "Bearer ${KEY} $${A} $${{ inputs.B }} [KEY: what VS Code has as a secret of this name]",
            ),
            (References::OwnVariables, "https://$REGION.x/${KEY}", "https://eu.x/${KEY}"),
        ];
        for (style, text, expected) in cases {
            assert_eq!(translated(style, None, text).as_deref(), Ok(expected), "{style:?} {text}");
        }
    }

    #[test]
    fn the_folder_of_a_project_is_known_in_its_own_files_only() {
        let folder = "${workspaceFolder}/x ${workspaceFolderBasename}";
        assert_eq!(translated(References::Editor, Some("/work/p"), folder).unwrap(), "/work/p/x p");
        assert_eq!(
            translated(References::Editor, None, folder).unwrap_err(),
            "refers to ${workspaceFolder}, the folder that VS Code has open, which belljar does not know"
        );
    }

    #[test]
    fn what_only_the_client_can_replace_is_refused_without_repeating_it() {
        let refused = translated(References::Editor, None, "${config:my.secret}").unwrap_err();
        assert_eq!(refused, "refers to ${config:…}, which only VS Code can replace");
        let refused = translated(References::Shell, None, "$${A}").unwrap_err();
        assert_eq!(refused, "has a \"$\" right before a reference, which belljar cannot write");
    }

    #[test]
    fn a_text_without_a_reference_is_literal() {
        assert!(is_literal("s3cret") && is_literal("a$${B}"));
        assert!(!is_literal("Bearer ${A}"));
    }
}
