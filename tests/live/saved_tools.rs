//! Saved functions: kept by the bridge, there again in later sessions.

use std::os::unix::fs::PermissionsExt;

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Home};

on_every_engine!(
    a_saved_function_is_there_in_the_next_session,
    a_saved_function_that_others_can_write_is_left_out,
    a_place_where_nothing_can_be_kept_costs_the_saving_only,
    a_full_disk_costs_the_saving_only_and_keeps_what_was_saved_before,
);

const SAVE: &str = "def twice(x):\n    \"Two times x.\"\n    return 2 * x\nsave_tool(twice)";

fn a_saved_function_is_there_in_the_next_session(engine: &Engine) {
    let home = Home::on(engine);
    let mut first = Bridge::start(&home).warm();
    let said = first.ok(SAVE);
    assert!(said.contains("Tool 'twice' saved"), "{said}");
    drop(first);
    let mut second = Bridge::start(&home).warm();
    assert_eq!(second.ok("twice(21)"), "42");
    let folder = home.path().join("MCPs/tools");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("twice.py"))), (0o700, 0o600));
    let elsewhere = Home::on(engine).env("MCP_BRIDGE_STATE_DIR", home.path().join("MCPs").to_str().unwrap());
    assert_eq!(Bridge::start(&elsewhere).warm().ok("twice(4)"), "8");
}

fn a_saved_function_that_others_can_write_is_left_out(engine: &Engine) {
    let home = Home::on(engine);
    Bridge::start(&home).warm().ok(SAVE);
    let file = home.path().join("MCPs/tools/twice.py");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let mut bridge = Bridge::start(&home).warm();
    assert!(bridge.run("twice(21)").text.contains("NameError"));
    bridge.says("a saved tool is left out");
}

fn a_place_where_nothing_can_be_kept_costs_the_saving_only(engine: &Engine) {
    let home = Home::on(engine).file("plain", "a file");
    let plain = home.path().join("plain").to_str().unwrap().to_owned();
    // Nobody may make a folder in the first two; the third is a file.
    for place in ["/proc/hotcell", "/sys/hotcell", &plain] {
        let home = Home::on(engine).env("MCP_BRIDGE_STATE_DIR", place);
        let mut bridge = Bridge::start(&home).warm();
        let refused = bridge.run(SAVE);
        assert!(refused.is_error, "{place}: {}", refused.text);
        assert!(
            refused.text.contains("the folder of saved tools cannot be used"),
            "{place}: {}",
            refused.text
        );
        assert_eq!(bridge.ok("twice(21)"), "42", "{place}");
    }
}

fn a_full_disk_costs_the_saving_only_and_keeps_what_was_saved_before(engine: &Engine) {
    let home = Home::on(engine).full_folder("MCPs/tools");
    let mut bridge = Bridge::start(&home).warm();
    let refused = bridge.run(SAVE);
    assert!(refused.is_error && refused.text.contains("No space left on device"), "{}", refused.text);
    assert_eq!(bridge.ok("twice(21)"), "42");
    // As the program sees it.
    let folder = format!("/proc/{}/root{}/MCPs/tools", bridge.pid(), home.path().display());
    let names = || {
        let entries = std::fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["full"], "no half of a file");
    std::fs::remove_file(format!("{folder}/full")).unwrap();
    bridge.ok(SAVE);
    assert_eq!(names(), ["twice.py"]);
    std::fs::write(format!("{folder}/full"), vec![0; 64 * 1024]).expect_err("it is full again");
    assert!(bridge.run(&SAVE.replace("2 * x", "x + x")).is_error);
    assert!(std::fs::read_to_string(format!("{folder}/twice.py")).unwrap().contains("2 * x"));
}
