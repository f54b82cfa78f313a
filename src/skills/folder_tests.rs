//! What the folder of skills keeps, refuses and gives back.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use belljar_base::limits::Limits;

use super::*;

fn skills(dir: &Path) -> Skills {
    let limits = Limits { saved_tool_bytes_max: 4_000, saved_tools_max: 3, ..Limits::default() };
    Skills::new(dir.join("tools"), &limits)
}

fn name(text: &str) -> SkillName {
    SkillName::new(text).unwrap()
}

fn new(of: &str, body: &str) -> NewSkill {
    let (name, body) = (name(of), format!("def {of}(x):\n    'Does it.'\n    {body}\n"));
    NewSkill { name, body, description: None, tags: vec![], servers: vec![], test: None }
}

fn save(skills: &Skills, of: &str, body: &str) -> u64 {
    skills.save(new(of, body)).unwrap().version
}

fn edit(dir: &Path, of: &str, text: &str) {
    fs::write(dir.join("tools").join(of), text).unwrap();
    fs::set_permissions(dir.join("tools").join(of), Permissions::from_mode(0o644)).unwrap();
}

fn why(error: SkillError) -> String {
    error.to_string()
}

#[test]
fn what_is_kept_is_read_again_by_another_and_the_same_again_is_no_new_version() {
    let dir = tempfile::tempdir().unwrap();
    let one = skills(dir.path());
    assert_eq!(one.all().unwrap(), []);
    assert_eq!(one.save(new("f", "return 1")).unwrap(), SaveResult { version: 1, is_new: true });
    assert_eq!(one.save(new("f", "return 1")).unwrap(), SaveResult { version: 1, is_new: false });
    let other = skills(dir.path());
    let tagged = NewSkill { tags: vec!["t".into()], ..new("f", "return 1") };
    assert_eq!(other.save(tagged).unwrap(), SaveResult { version: 2, is_new: true });
    assert_eq!(save(&other, "f", "return 2"), 3);
    let skill = one.ready(&name("f")).unwrap();
    assert_eq!(
        (
            skill.header.version,
            skill.body.as_str(),
            skill.header.description.as_str(),
            skill.definition.signature.as_str()
        ),
        (3, "def f(x):\n    'Does it.'\n    return 2\n", "Does it.", "f(x)")
    );
    assert_eq!(fs::read_to_string(dir.path().join("tools/f.py")).unwrap(), skill.text());
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["tools", "tools/f.py", "tools/.history/f"].map(mode), [0o700, 0o600, 0o700]);
}

#[test]
fn sizes_and_numbers_are_bounded_and_a_source_defines_its_function() {
    let dir = tempfile::tempdir().unwrap();
    let skills = skills(dir.path());
    let large = skills.save(new("a", &"x".repeat(4_000)));
    assert!(matches!(large, Err(SkillError::TooLarge { bytes_max: 4_000, .. })), "{large:?}");
    let other = NewSkill { body: "def b(): pass".into(), ..new("a", "") };
    assert!(matches!(skills.save(other), Err(SkillError::NoFunction { .. })));
    for of in ["a", "b", "c"] {
        save(&skills, of, "return 1");
    }
    skills.remove(&name("c")).unwrap();
    assert!(
        matches!(skills.save(new("d", "return 1")), Err(SkillError::TooMany { count_max: 3 })),
        "c can be restored"
    );
    assert_eq!(save(&skills, "c", "return 2"), 2);
    skills.purge(&name("c")).unwrap();
    assert_eq!(save(&skills, "d", "return 1"), 1);
    assert_eq!(why(skills.purge(&name("c")).unwrap_err()), "there is no skill 'c'");
}

#[test]
fn what_was_changed_outside_is_given_to_nobody_until_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let skills = skills(dir.path());
    save(&skills, "f", "return 1");
    let text = skills.ready(&name("f")).unwrap().text();
    let none = "# /// skill\n# x\n# ///\ndef f(): pass\n";
    for (edited, said) in [
        (text.replace("return 1", "return 2"), "its file was changed since belljar wrote it"),
        ("def f(): return 2\n".to_owned(), "its file has no header of belljar's"),
        (none.to_owned(), "its header cannot be read: "),
        (text.replace("name = \"f\"", "name = \"g\""), "its header is of 'g'"),
    ] {
        edit(dir.path(), "f.py", &edited);
        let refused = why(skills.ready(&name("f")).unwrap_err());
        assert!(refused.starts_with(&format!("skill 'f' is not loaded: {said}")), "{refused}");
        assert!(refused.ends_with("belljar skill trust f"), "{refused}");
        // Code can neither replace nor remove it.
        assert_eq!(why(skills.save(new("f", "return 3")).unwrap_err()), refused);
        assert_eq!(why(skills.remove(&name("f")).unwrap_err()), refused);
        assert_eq!(why(skills.restore(&name("f"), Some(1)).unwrap_err()), refused);
        let waiting = skills.waiting(&name("f")).unwrap();
        assert_eq!(
            (waiting.text.as_str(), waiting.before.as_deref()),
            (edited.as_str(), Some(&text[text.find("def").unwrap()..]))
        );
    }
    edit(dir.path(), "f.py", "def f(x, y):\n    '''New.'''\n");
    let shown = skills.waiting(&name("f")).unwrap();
    edit(dir.path(), "f.py", "def f(x, y):\n    '''Newer.'''\n");
    assert!(matches!(skills.accept(&name("f"), &shown), Err(SkillError::ChangedAgain { .. })));
    let shown = skills.waiting(&name("f")).unwrap();
    assert_eq!(skills.accept(&name("f"), &shown).unwrap(), 2);
    let skill = skills.ready(&name("f")).unwrap();
    assert_eq!(
        (skill.header.description.as_str(), skill.definition.signature.as_str()),
        ("Newer.", "f(x, y)")
    );
    assert!(matches!(skills.waiting(&name("f")), Err(SkillError::Unchanged { .. })));
    edit(dir.path(), "f.py", "def g(): pass\n");
    assert!(matches!(skills.waiting(&name("f")), Err(SkillError::NoFunction { .. })));
    fs::set_permissions(dir.path().join("tools/f.py"), Permissions::from_mode(0o666)).unwrap();
    let refused = why(skills.ready(&name("f")).unwrap_err());
    assert_eq!(refused, "skill 'f' cannot be used: it must be a plain file of yours that only you can write");
}

#[test]
fn history_is_kept_within_bounds_and_undoes_what_code_has_done() {
    let dir = tempfile::tempdir().unwrap();
    let skills = skills(dir.path());
    for number in 0..25 {
        save(&skills, "f", &format!("return {number}"));
    }
    let versions = |of: &str| -> Vec<u64> {
        skills.history(&name(of)).unwrap().iter().map(|skill| skill.header.version).collect()
    };
    assert_eq!(versions("f"), (6..=25).rev().collect::<Vec<_>>());
    assert_eq!(skills.remove(&name("f")).unwrap(), 25);
    assert_eq!(why(skills.ready(&name("f")).unwrap_err()), "there is no skill 'f'");
    assert_eq!(skills.restore(&name("f"), None).unwrap().version, 26);
    assert!(skills.ready(&name("f")).unwrap().body.contains("return 24"));
    assert_eq!(skills.restore(&name("f"), Some(10)).unwrap().version, 27);
    assert!(skills.ready(&name("f")).unwrap().body.contains("return 9\n"));
    assert_eq!(versions("f").len(), 20);
    let refused = why(skills.restore(&name("f"), Some(1)).unwrap_err());
    assert!(refused.starts_with("version 1 of 'f' is not kept; kept: 8, 9, 10,"), "{refused}");
    assert_eq!(why(skills.history(&name("ff")).unwrap_err()), "there is no skill 'ff'");
    save(&skills, "weekly", "return 1");
    assert_eq!(
        why(skills.ready(&name("wekly")).unwrap_err()),
        "there is no skill 'wekly'; did you mean 'weekly'?"
    );
    // By the bytes as well, the newest in any case.
    let wide = Skills::new(dir.path().join("wide"), &Limits::default());
    for number in 0..4 {
        save(&wide, "f", &format!("return '{}{number}'", "x".repeat(200 << 10)));
    }
    assert_eq!(wide.history(&name("f")).unwrap().len(), 2);
}

#[test]
fn what_the_user_removes_unaccepted_is_kept_first_and_an_edited_version_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let skills = skills(dir.path());
    save(&skills, "f", "return 1");
    edit(dir.path(), "f.py", "def f(): return 'mine'\n");
    skills.remove_any(&name("f")).unwrap();
    assert!(matches!(skills.remove_any(&name("f")), Err(SkillError::Unknown { .. })));
    assert_eq!(skills.restore(&name("f"), None).unwrap().version, 3);
    assert_eq!(skills.ready(&name("f")).unwrap().body, "def f(): return 'mine'\n");
    let version = dir.path().join("tools/.history/f/000001.py");
    fs::write(&version, fs::read_to_string(&version).unwrap() + "import os\n").unwrap();
    let refused = why(skills.restore(&name("f"), Some(1)).unwrap_err());
    assert!(refused.contains("it has a version 1 that was changed"), "{refused}");
}

#[test]
fn many_at_once_each_get_a_version_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = dir.path();
            scope.spawn(move || {
                for number in 0..5 {
                    save(&skills(path), "f", &format!("return {writer}, {number}"));
                }
            });
        }
    });
    let skills = skills(dir.path());
    let versions: Vec<u64> =
        skills.history(&name("f")).unwrap().iter().map(|skill| skill.header.version).collect();
    assert_eq!(versions, (1..=20).rev().collect::<Vec<_>>());
    assert_eq!(skills.ready(&name("f")).unwrap().header.version, 20);
}
