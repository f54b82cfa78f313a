//! Claims about the section `[model]`: which model is asked, where keys come from, and what a project may set.

use std::fs;

use super::*;
use crate::config::test_home::Home;

impl Home {
    /// The model's settings, and the problems with the home's place left out.
    fn model(&self) -> (ModelSettings, String) {
        let config = self.load();
        let problems = config
            .problems
            .iter()
            .map(|problem| self.said(format!("{}: {problem}", problem.severity)).trim_end().to_owned());
        let problems = problems.collect::<Vec<_>>().join("\n");
        assert!(!format!("{:?}{problems}", config.model).contains("s3cret"), "{problems}");
        (config.model, problems)
    }
}

fn set(lines: &str) -> Home {
    Home::new().user(&format!("[model]\n{lines}\n"))
}

const ENDPOINT: &str = "endpoint = \"https://llm.example/v1\"\nname = \"m\"\n";

#[test]
fn without_anything_the_client_is_asked_within_bounds() {
    let (model, problems) = Home::new().model();
    assert_eq!((model.access, model.name, problems.as_str()), (ModelAccess::Sampling, None, ""));
    let bounds = Bounds {
        requests_per_run: 50,
        requests_per_session: 500,
        tokens_per_run: 200_000,
        tokens_per_session: 2_000_000,
        time: Duration::from_secs(120),
        at_once: 4,
    };
    assert_eq!(model.bounds, bounds);
}

#[test]
fn an_endpoint_is_asked_where_one_is_set_unless_the_user_says_otherwise() {
    let way = |lines: &str| set(&format!("{ENDPOINT}{lines}")).model();
    let endpoint =
        ModelEndpoint { url: "https://llm.example/v1".parse().unwrap(), name: "m".into(), key: None };
    for via in ["", "via = \"auto\"", "via = \"endpoint\""] {
        assert_eq!(way(via).0.access, ModelAccess::Endpoint(endpoint.clone()), "{via}");
    }
    let (model, problems) = way("via = \"sampling\"");
    assert_eq!(
        (model.access, model.name.as_deref(), problems.as_str()),
        (ModelAccess::Sampling, Some("m"), "")
    );
    assert_eq!(way("via = \"off\"").0.access, ModelAccess::Off);
    let from_environment = Home::new()
        .variable("MCP_BRIDGE_MODEL_ENDPOINT", "http://localhost:11434/v1")
        .variable("MCP_BRIDGE_MODEL_NAME", "llama")
        .variable("MCP_BRIDGE_MODEL_CONCURRENCY", "2");
    let (model, problems) = from_environment.model();
    assert!(matches!(model.access, ModelAccess::Endpoint(ModelEndpoint { key: None, .. })), "{problems}");
    assert_eq!((model.bounds.at_once, problems.as_str()), (2, ""));
}

#[test]
fn a_key_is_found_where_the_reference_leads_and_nowhere_else() {
    let key = |reference: &str| set(&format!("{ENDPOINT}key = '{reference}'"));
    let found = |home: Home| match home.model() {
        (ModelSettings { access: ModelAccess::Endpoint(endpoint), .. }, _) => endpoint.key,
        (model, problems) => panic!("{:?}: {problems}", model.access),
    };
    let of_variable = key("${env:LLM_KEY}").variable("LLM_KEY", "s3cret-1");
    assert_eq!(found(of_variable), Some(ModelKey::Value("s3cret-1".into())));
    let of_file = key("${file:key.txt}").file(".config/belljar/key.txt", "s3cret-2\n");
    let path = of_file.path(".config/belljar/key.txt");
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(found(of_file), Some(ModelKey::Value("s3cret-2".into())));
    let command = set(&format!("{ENDPOINT}key = '${{cmd:pass show llm}}'\n[policy]\nallow_cmd = true"));
    let Some(ModelKey::Command(command)) = found(command) else { panic!("a command") };
    assert_eq!(command.words, ["pass", "show", "llm"]);
    // The folder that belljar was started in is a stranger's project.
    let of_variable = set(&format!("{ENDPOINT}[policy]\nallow_cmd = true"));
    let of_variable = of_variable.variable("MCP_BRIDGE_MODEL_KEY", "${cmd:pass}");
    let home = of_variable.environment().home;
    let Some(ModelKey::Command(command)) = found(of_variable) else { panic!("a command") };
    assert_eq!(command.folder, home);
}

#[test]
fn what_cannot_be_used_is_said_at_its_place_and_nobody_is_asked() {
    for (lines, said) in [
        (
            format!("{ENDPOINT}key = \"sk-s3cret\""),
            "model.key: is no reference, and a key itself stands in no setting",
        ),
        (format!("{ENDPOINT}key = \"${{env:LLM_KEY}}\""), "model.key"),
        (format!("{ENDPOINT}key = \"${{cmd:pass llm}}\""), "policy.allow_cmd"),
        ("endpoint = \"https://llm.example/v1\"".to_owned(), "model.endpoint: has no model.name beside it"),
        ("endpoint = \"ftp://llm.example\"\nname = \"m\"".to_owned(), "model.endpoint"),
        ("via = \"endpoint\"".to_owned(), ""),
        ("via = \"always\"".to_owned(), "neither auto, endpoint, sampling nor off"),
        ("tokens_per_run = 0".to_owned(), "model.tokens_per_run"),
        ("temperature = 1".to_owned(), "model.temperature"),
    ] {
        let (model, problems) = set(&lines).model();
        assert!(problems.contains(said), "{lines}: {problems}");
        assert!(!matches!(model.access, ModelAccess::Endpoint(_)), "{lines}: {:?}", model.access);
        if lines != "via = \"endpoint\"" {
            assert!(problems.contains("config.toml:"), "{problems}");
        }
    }
    let (model, _) = set("via = \"endpoint\"").model();
    assert_eq!(
        model.access,
        ModelAccess::Unusable("model.via is endpoint, and model.endpoint is not set".into())
    );
}

#[test]
fn what_goes_over_the_net_in_the_clear_is_warned_of() {
    for (url, warns) in [
        ("http://llm.example/v1", true),
        ("https://llm.example/v1", false),
        ("http://127.0.0.1:8080/v1", false),
        ("http://localhost:11434/v1", false),
    ] {
        let (model, problems) = set(&format!("endpoint = \"{url}\"\nname = \"m\"")).model();
        assert!(matches!(model.access, ModelAccess::Endpoint(_)), "{problems}");
        assert_eq!(problems.contains("is http, not https"), warns, "{problems}");
    }
}

#[test]
fn a_project_lowers_budgets_and_never_says_who_is_asked() {
    let user = format!("[model]\n{ENDPOINT}requests_per_run = 10\n");
    let project = "[model]\nendpoint = \"https://evil.example/v1\"\nkey = \"${env:OTHER_KEY}\"\nname = \"other\"\n\
                   requests_per_run = 90\ntokens_per_run = 7\n";
    let home = || Home::new().user(&user).project(project).variable("OTHER_KEY", "s3cret-9");
    // One that is trusted may raise what it may lower, as with all settings.
    for (home, requests, refused) in [(home(), 10, 4), (home().trusted(), 90, 3)] {
        let (model, problems) = home.model();
        let ModelAccess::Endpoint(endpoint) = &model.access else { panic!("{:?}", model.access) };
        assert_eq!((endpoint.origin(), endpoint.name.as_str()), ("https://llm.example".into(), "m"));
        assert_eq!((model.bounds.requests_per_run, model.bounds.tokens_per_run), (requests, 7));
        assert_eq!(endpoint.key, None);
        assert_eq!(problems.matches("work/.belljar/config.toml:").count(), refused, "{problems}");
    }
    let (model, _) = Home::new().user(&user).project("[model]\nvia = \"off\"\n").model();
    assert_eq!(model.access, ModelAccess::Off);
}

#[test]
fn what_a_section_that_cannot_be_read_would_forbid_is_not_done() {
    let (model, problems) = Home::new().user(&format!("[model]\n{ENDPOINT}requests_per_run = \n")).model();
    assert!(matches!(model.access, ModelAccess::Unusable(_)), "{:?}: {problems}", model.access);
    let (model, problems) = set("via = 7").model();
    assert!(matches!(model.access, ModelAccess::Unusable(_)), "{:?}: {problems}", model.access);
}
