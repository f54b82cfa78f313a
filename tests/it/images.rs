//! `belljar image` where it needs no engine: what cannot be meant is refused before one is looked for.

use crate::support::Home;

#[test]
fn what_cannot_be_built_is_refused_before_an_engine_is_looked_for() {
    let home = Home::new().file(".config/belljar/images/broken.lock", "# base: x\n--index-url https://x\n");
    for (arguments, says) in [
        (&["build", "--with=--index-url=https://x"][..], "--with: \"--index-url=https://x\" is an address"),
        (&["build", "--with=--pre"], "--with: \"--pre\" is no package, at character 1"),
        (&["build", "--with", "https://x/y.whl"], "is an address; only packages of the index"),
        (&["build", "--with", "rich", "--with", "Rich==1"], "--with: rich is named twice"),
        (
            &["build", "--with-languages", "cobol"],
            "there is no language \"cobol\" to add; there is c, c++, javascript",
        ),
        (&["build", "--with", "rich", "--name", "../x"], "--name: \"../x\" is no name of an image"),
        (&["build", "--locked", "none"], "none.lock: No such file"),
        (
            &["build", "--locked", "broken"],
            "broken.lock: line 2 is not a line of a lock: \"--index-url https://x\"",
        ),
        (&["rm", "default"], "\"default\" is the name of belljar's own image"),
    ] {
        let output = home.run(&[&["image"], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn without_an_engine_it_is_said_what_to_do() {
    for arguments in [&["build", "--with", "rich"][..], &["ls"], &["use", "rich"], &["rm", "rich"]] {
        let output = Home::new().run(&[&["image"], arguments].concat());
        assert_eq!(output.code, Some(1), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains("no container engine is running"), "{}", output.stderr);
    }
}

#[test]
fn belljars_own_image_comes_back_without_an_engine_and_what_counts_more_is_said() {
    let home =
        Home::new().file(".config/belljar/config.toml", "[run]\ntimeout = 5\n[sandbox]\nimage = \"mine\"\n");
    let output = home.run(&["image", "use", "default"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let config = home.path().join(".config/belljar/config.toml");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "[run]\ntimeout = 5\n");
    let home = home.env("MCP_BRIDGE_IMAGE", "other");
    let output = home.run(&["image", "use", "default"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("but MCP_BRIDGE_IMAGE counts more"), "{}", output.stderr);
}
