//! The decision on one call.

use serde_json::{Map, Value};

use super::arguments::{fit, may_lead_to};
use super::names::Names;
use super::policy_call::{CallArguments, PolicyCall};
use super::rules::{Label, Policy, Profile, Rule};
use super::spelling::{cost, name_cost};
use super::verdict::{Effect, Verdict};

/// The largest cost of the comparisons of one call with rules about arguments (see [`cost`]): about a second, and ten
/// times that for the worst texts.
const COST_MAX: usize = 32 << 20;

/// A verdict, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict on the call.
    pub verdict: Verdict,
    /// The rule or setting that decided, so that the user can change it.
    pub because: String,
}

/// The rules about the tool of a call, whatever its arguments are.
#[derive(Debug, Clone)]
pub struct ToolRules {
    /// Their places among all rules.
    at: Vec<usize>,
    only_reads: bool,
}

impl Policy {
    /// The rules about the tool of this call.
    #[must_use]
    pub fn about(&self, called: &PolicyCall<'_>) -> ToolRules {
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.is_about_tool(called));
        ToolRules { at: rules.map(|(at, _)| at).collect(), only_reads: called.only_reads() }
    }

    /// Whether one of the rules is about arguments. It can take long to compare these, since code chooses how much there is to
    /// compare, and a server what it implies.
    #[must_use]
    pub fn weighs_arguments(&self, rules: &ToolRules) -> bool {
        self.of_tool(rules).any(|(_, rule)| !rule.arguments.is_empty())
    }

    fn of_tool<'p>(&'p self, rules: &'p ToolRules) -> impl Iterator<Item = (usize, &'p Rule)> {
        rules.at.iter().filter_map(|at| Some((*at, self.rules.get(*at)?)))
    }

    /// The decision about a call about which the rules have decided so. `is_mixed`: the session has touched private and
    /// untrusted data.
    #[must_use]
    pub fn decide(&self, called: &PolicyCall<'_>, by_rule: Decision, is_mixed: bool) -> Decision {
        if !(is_mixed && self.labels.has(Label::Egress, called.server)) {
            return by_rule;
        }
        let usual = if self.profile == Profile::Careful { Verdict::Ask } else { Verdict::Warn };
        let verdict = self.labels.when_mixed.unwrap_or(usual);
        let mixed = "labels: this session has read private and untrusted data, and the server lets data out";
        let because = match by_rule.verdict {
            // The human has to know both.
            Verdict::Ask if verdict <= Verdict::Ask => format!("{}; {mixed}", by_rule.because),
            by_rule_verdict if by_rule_verdict >= verdict => return by_rule,
            _ => mixed.into(),
        };
        Decision { verdict: verdict.max(by_rule.verdict), because }
    }

    /// Whether it would take too long to compare the arguments with the rules about them.
    fn costs_too_much(&self, rules: &ToolRules, [given, implied]: [&Map<String, Value>; 2]) -> bool {
        let paths = self.of_tool(rules).flat_map(|(_, rule)| rule.arguments.keys());
        let values = || given.iter().chain(implied);
        let mut costs: Vec<Option<usize>> = vec![None; values().count()];
        let mut left = COST_MAX;
        let mut take = |cost: usize| left.checked_sub(cost).map(|rest| left = rest);
        let spent = paths.into_iter().try_for_each(|path| {
            let names = 1 + path.matches('.').count();
            values().zip(&mut costs).try_for_each(|((name, value), known)| {
                take(names.saturating_mul(name_cost(name)))?;
                if !may_lead_to(name, path) {
                    return Some(());
                }
                let cost = known.get_or_insert_with(|| cost(value, COST_MAX));
                take(names.saturating_mul(*cost))
            })
        });
        spent.is_none()
    }

    /// The decision of the rules, or of the profile if none matches.
    #[must_use]
    pub fn by_rule(&self, rules: &ToolRules, arguments: &CallArguments) -> Decision {
        if let Some(defect) = &self.defect {
            return Decision { verdict: Verdict::Deny, because: defect.clone() };
        }
        let is_strict = |rule: &Rule| !rule.arguments.is_empty() && rule.effect() == Effect::Tightens;
        let find =
            arguments.defaults.as_ref().filter(|_| self.of_tool(rules).any(|(_, rule)| is_strict(rule)));
        let implied = find.map_or_else(|| Ok(Map::new()), |find| find(&arguments.given));
        let unchecked = arguments.unchecked.or(implied.as_ref().err().copied());
        let implied = implied.unwrap_or_default();
        let values = [&*arguments.given, &implied];
        let unchecked = self.costs_too_much(rules, values).then_some(TOO_MUCH).or(unchecked);
        for (at, rule) in self.of_tool(rules) {
            match rule.fits(values, unchecked) {
                RuleMatch::No => {}
                RuleMatch::Yes => {
                    let mut because = format!("rule {}", at + 1);
                    if !rule.reason.is_empty() {
                        because = format!("{because}: {}", rule.reason);
                    }
                    return Decision { verdict: rule.decision, because };
                }
                RuleMatch::Unknown { why } => {
                    let because = format!("rule {} cannot be applied: {why}", at + 1);
                    return Decision { verdict: Verdict::Deny, because };
                }
            }
        }
        let (verdict, because) = match (self.profile, rules.only_reads) {
            (Profile::Open, _) => (Verdict::Allow, "profile open"),
            (Profile::Careful, true) => (Verdict::Allow, "profile careful: it only reads"),
            (Profile::ReadOnly, true) => (Verdict::Allow, "profile read-only: it only reads"),
            (Profile::Careful, false) => {
                (Verdict::Ask, "profile careful: its server does not say that it only reads")
            }
            (Profile::ReadOnly, false) => {
                (Verdict::Deny, "profile read-only: its server does not say that it only reads")
            }
        };
        Decision { verdict, because: because.into() }
    }
}

/// Why a rule cannot be applied where [`Policy::costs_too_much`] holds.
const TOO_MUCH: &str = "the arguments have too many texts to compare";

/// The result of the comparison of a rule with a call.
enum RuleMatch {
    Yes,
    No,
    /// The arguments could not be checked.
    Unknown {
        why: &'static str,
    },
}

impl Rule {
    fn effect(&self) -> Effect {
        if self.decision <= Verdict::Warn { Effect::Loosens } else { Effect::Tightens }
    }

    fn names(&self, server: Names<'_>, tool: Names<'_>, effect: Effect) -> bool {
        server.fit(&self.server, effect) && tool.fit(&self.tool, effect)
    }

    fn is_about_tool(&self, called: &PolicyCall<'_>) -> bool {
        self.names(called.server, called.tool, self.effect())
            && self.read_only.is_none_or(|wanted| wanted == called.only_reads())
            && self.destructive.is_none_or(|wanted| wanted == called.may_destroy())
    }

    /// Whether the rule, which is about the tool, matches these given and implied arguments. In doubt it matches, unless it
    /// would let the call pass. `unchecked`: why the arguments cannot be compared, or not all.
    fn fits(&self, values: [&Map<String, Value>; 2], unchecked: Option<&'static str>) -> RuleMatch {
        let effect = self.effect();
        let unchecked = unchecked.filter(|_| !self.arguments.is_empty());
        if unchecked.is_some() && effect == Effect::Loosens {
            return RuleMatch::No;
        }
        let all_fit = || self.arguments.iter().all(|(path, pattern)| fit(values, (path, pattern), effect));
        match unchecked {
            Some(why) if why == TOO_MUCH || !all_fit() => RuleMatch::Unknown { why },
            None if !all_fit() => RuleMatch::No,
            _ => RuleMatch::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::policy::{Budgets, FindDefaults, Labels};

    fn policy(mut json: Value) -> Policy {
        let profile = json.as_object_mut().unwrap().remove("profile");
        let profile = profile.map_or(Profile::Open, |profile| serde_json::from_value(profile).unwrap());
        Policy { profile, ..serde_json::from_value(json).unwrap() }
    }

    fn by_rule(policy: &Policy, called: &PolicyCall<'_>) -> Decision {
        policy.by_rule(&policy.about(called), called.arguments)
    }

    fn decided(policy: &Policy, called: &PolicyCall<'_>) -> Decision {
        policy.decide(called, by_rule(policy, called), false)
    }

    fn verdict(policy: &Policy, server: &str, tool: &str, hints: Value, arguments: Value) -> Verdict {
        let (Value::Object(annotations), Value::Object(arguments)) = (hints, arguments) else { panic!() };
        let (server, tool) = (Names::only(server), Names::only(tool));
        let called = PolicyCall { server, tool, annotations: &annotations, arguments: &arguments.into() };
        decided(policy, &called).verdict
    }

    #[test]
    fn profiles_go_by_what_the_server_says_and_take_silence_for_writing() {
        use Verdict::{Allow, Ask, Deny};
        for (profile, reads, silent, writes) in
            [("open", Allow, Allow, Allow), ("careful", Allow, Ask, Ask), ("read-only", Allow, Deny, Deny)]
        {
            let policy = policy(json!({"profile": profile}));
            let of = |hints| verdict(&policy, "s", "t", hints, json!({}));
            assert_eq!(of(json!({"readOnlyHint": true})), reads);
            assert_eq!(of(json!({})), silent);
            assert_eq!(of(json!({"readOnlyHint": "true"})), silent);
            assert_eq!(of(json!({"readOnlyHint": false, "destructiveHint": false})), writes);
        }
        assert_eq!(Policy::default().profile, Profile::Open);
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_says_so() {
        let policy = policy(json!({"profile": "careful", "rule": [
            {"server": "git*", "tool": "delete_*", "decision": "deny", "reason": "never"},
            {"server": "github", "decision": "allow"},
            {"destructive": true, "decision": "deny"},
            {"read_only": false, "tool": "note", "decision": "warn"}
        ]}));
        let of = |server, tool, hints| verdict(&policy, server, tool, hints, json!({}));
        assert_eq!(of("github", "delete_repo", json!({})), Verdict::Deny);
        assert_eq!(of("github", "create_issue", json!({})), Verdict::Allow);
        assert_eq!(of("gitlab", "create_issue", json!({})), Verdict::Deny);
        assert_eq!(of("gitlab", "create_issue", json!({"destructiveHint": false})), Verdict::Ask);
        assert_eq!(of("x", "note", json!({"destructiveHint": false})), Verdict::Warn);
        assert_eq!(of("x", "read", json!({"readOnlyHint": true, "destructiveHint": true})), Verdict::Allow);
        let (none, empty) = (Map::new(), CallArguments::default());
        let called = PolicyCall {
            server: Names::only("github"),
            tool: Names::only("delete_x"),
            annotations: &none,
            arguments: &empty,
        };
        assert_eq!(decided(&policy, &called).because, "rule 1: never");
    }

    #[test]
    fn what_asks_or_denies_goes_by_python_names_too_and_what_allows_does_not() {
        let policy = policy(json!({"profile": "careful", "rule": [
            {"tool": "get_env", "decision": "deny"},
            {"server": "my_files", "tool": "write", "decision": "deny"},
            {"tool": "list_all", "decision": "allow"}
        ], "labels": {"private": ["my_files"], "untrusted": [], "egress": []}}));
        let none = Map::new();
        let of = |server, tool| {
            decided(
                &policy,
                &PolicyCall { server, tool, annotations: &none, arguments: &CallArguments::default() },
            )
            .verdict
        };
        let files = Names { name: "my-files", alias: "my_files" };
        assert_eq!(of(files, Names { name: "get-env", alias: "get_env" }), Verdict::Deny);
        assert_eq!(of(files, Names::only("write")), Verdict::Deny);
        assert_eq!(of(files, Names { name: "list-all", alias: "list_all" }), Verdict::Ask);
        assert_eq!(of(files, Names::only("list_all")), Verdict::Allow);
        assert!(policy.labels.has(Label::Private, files));
    }

    #[test]
    fn arguments_are_judged_by_path_and_doubt_never_lets_a_call_pass() {
        let deny = policy(json!({"rule": [{"arguments": {"path": "/etc/*"}, "decision": "deny"}]}));
        let allow = policy(json!({"profile": "read-only", "rule": [
            {"arguments": {"path": "/data/*", "options.force": "false"}, "decision": "allow"}
        ]}));
        let of = |policy, arguments| verdict(policy, "s", "t", json!({}), arguments);
        let long = "x".repeat(100_000);
        for (arguments, expected) in [
            (json!({"path": "/etc/passwd"}), Verdict::Deny),
            (json!({"path": ["/tmp/a", "/etc/b"]}), Verdict::Deny),
            (json!({"path": "/tmp"}), Verdict::Allow),
            (json!({}), Verdict::Allow),
            (json!({"path": format!("/etc/{long}")}), Verdict::Deny),
            (json!({"path": long}), Verdict::Deny),
        ] {
            assert_eq!(of(&deny, arguments.clone()), expected, "{arguments:.80}");
        }
        let forced = |path: Value, force: Value| json!({"path": path, "options": {"force": force}});
        for (arguments, expected) in [
            (forced(json!("/data/a"), json!(false)), Verdict::Allow),
            (forced(json!("/data/a"), json!("false")), Verdict::Allow),
            (forced(json!("/data/a"), json!(true)), Verdict::Deny),
            (forced(json!(["/data/a", "/etc/b"]), json!(false)), Verdict::Deny),
            (forced(json!([]), json!(false)), Verdict::Deny),
            (forced(json!(format!("/data/{long}")), json!(false)), Verdict::Deny),
            (json!({"path": "/data/a"}), Verdict::Deny),
            (json!({"path": "/data/a", "options.force": false}), Verdict::Allow),
            (json!({"path": "/data/a", "options.force": false, "options": {"force": true}}), Verdict::Deny),
            (forced(json!("/data/../etc/a"), json!(false)), Verdict::Deny),
        ] {
            assert_eq!(of(&allow, arguments.clone()), expected, "{arguments:.80}");
        }
    }

    #[test]
    fn a_call_that_cannot_be_checked_is_denied_where_a_rule_tightens_by_arguments() {
        let by = |rule: Value| {
            let policy = policy(json!({"rule": [rule]}));
            let given = Arc::new(Map::from_iter([("path".into(), json!("/data/a"))]));
            let arguments = CallArguments { given, unchecked: Some("too many"), ..CallArguments::default() };
            let none = Map::new();
            let called = PolicyCall {
                server: Names::only("s"),
                tool: Names::only("t"),
                annotations: &none,
                arguments: &arguments,
            };
            let decision = decided(&policy, &called);
            (decision.verdict, decision.because, policy.weighs_arguments(&policy.about(&called)))
        };
        let (ask, deny) = (json!({"path": "/etc/*"}), json!({"path": "/data/*"}));
        let unknown = "rule 1 cannot be applied: too many".to_owned();
        assert_eq!(by(json!({"arguments": ask, "decision": "ask"})), (Verdict::Deny, unknown.clone(), true));
        assert_eq!(
            by(json!({"arguments": ask, "tool": "t", "decision": "deny"})),
            (Verdict::Deny, unknown, true)
        );
        assert_eq!(by(json!({"arguments": deny, "decision": "ask"})), (Verdict::Ask, "rule 1".into(), true));
        let open = "profile open".to_owned();
        assert_eq!(
            by(json!({"arguments": ask, "tool": "x", "decision": "deny"})),
            (Verdict::Allow, open.clone(), false)
        );
        assert_eq!(
            by(json!({"arguments": deny, "decision": "warn"})),
            (Verdict::Allow, open, true),
            "no exact match"
        );
        assert_eq!(by(json!({"tool": "t", "decision": "warn"})), (Verdict::Warn, "rule 1".into(), false));
    }

    #[test]
    fn arguments_are_compared_up_to_a_cost_of_the_whole_call() {
        let of = |rules: usize, decision: &str, path: &str, text: &str, count: usize| {
            let rules = vec![json!({"decision": decision, "arguments": {path: "/etc/*"}}); rules];
            let policy = policy(json!({"profile": "read-only", "rule": rules}));
            let arguments = json!({"list": vec![text; count], "other": "/a"});
            verdict(&policy, "s", "t", json!({"readOnlyHint": true}), arguments)
        };
        let (nested, accents) =
            (json!(json!(["/a/%25%2541", 1]).to_string()).to_string(), "\u{e9}".repeat(30_000));
        let list = json!(vec!["\u{e9}"; 1_000]).to_string();
        for (rules, path, text, count, is_compared) in [
            (1, "list", "/a/b", 60_000, true),
            (1, "list.x.y", "/a/b", 60_000, true),
            (40, "list", "/a/b", 60_000, false),
            (1, "list", &*nested, 1_000, true),
            (1, "list", &nested, 60_000, false),
            (1, "list", &accents, 50, true),
            (1, "list", &accents, 200, false),
            (1, "list", &list, 100, true),
            (40, "list", &list, 100, false),
            // What no rule is about costs nothing.
            (40, "other", &accents, 1_000, true),
            (40, "other.x", &nested, 60_000, true),
            (0, "list", &accents, 1_000, true),
        ] {
            let expected = if is_compared { Verdict::Allow } else { Verdict::Deny };
            assert_eq!(of(rules, "deny", path, text, count), expected, "{rules} {path} {count} {text:.20}");
        }
        // A rule that allows cannot be applied either, and the profile decides.
        assert_eq!(of(40, "allow", "list", &accents, 1_000), Verdict::Allow);
        let names = (0..200_000).map(|number| (format!("\u{e9}{number}"), json!(1))).collect::<Map<_, _>>();
        let rule = json!({"decision": "deny", "arguments": {"v.a.b": "x"}});
        let denied = policy(json!({"rule": [rule]}));
        assert_eq!(verdict(&denied, "s", "t", json!({}), Value::Object(names)), Verdict::Deny);
    }

    #[test]
    fn defaults_are_looked_for_only_where_a_rule_that_tightens_is_about_arguments() {
        let policy = policy(json!({"rule": [
            {"tool": "a", "decision": "deny"},
            {"tool": "b", "decision": "allow", "arguments": {"path": "/data/*"}},
            {"tool": "c", "decision": "deny", "arguments": {"path": "/etc/*"}}
        ]}));
        let searches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&searches);
        let defaults: Arc<FindDefaults> = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Map::from_iter([("path".into(), json!("/etc/a"))]))
        });
        let (hints, arguments) =
            (Map::new(), CallArguments { defaults: Some(defaults), ..CallArguments::default() });
        for (tool, verdict, weighs, count) in [
            ("a", Verdict::Deny, false, 0),
            ("b", Verdict::Allow, true, 0),
            ("c", Verdict::Deny, true, 1),
            ("d", Verdict::Allow, false, 1),
        ] {
            let (server, tool) = (Names::only("s"), Names::only(tool));
            let called = PolicyCall { server, tool, annotations: &hints, arguments: &arguments };
            assert_eq!(decided(&policy, &called).verdict, verdict, "{}", tool.name);
            assert_eq!(policy.weighs_arguments(&policy.about(&called)), weighs, "{}", tool.name);
            assert_eq!(searches.load(Ordering::Relaxed), count, "{}", tool.name);
        }
    }

    #[test]
    fn data_that_was_mixed_does_not_leave_unseen() {
        let labels = json!({"private": ["mail"], "untrusted": ["web"], "egress": ["chat"]});
        let (none, empty) = (Map::new(), CallArguments::default());
        let called = |server| PolicyCall {
            server: Names::only(server),
            tool: Names::only("t"),
            annotations: &none,
            arguments: &empty,
        };
        let of = |json: Value, server, is_mixed| {
            let (policy, called) = (policy(json), called(server));
            policy.decide(&called, by_rule(&policy, &called), is_mixed).verdict
        };
        assert_eq!(of(json!({"labels": labels}), "chat", true), Verdict::Warn);
        assert_eq!(of(json!({"labels": labels}), "chat", false), Verdict::Allow);
        assert_eq!(of(json!({"labels": labels}), "mail", true), Verdict::Allow);
        let allowed = json!({"profile": "careful", "labels": labels, "rule": [{"decision": "allow"}]});
        assert_eq!(of(allowed.clone(), "chat", true), Verdict::Ask);
        assert_eq!(of(allowed, "chat", false), Verdict::Allow);
        let asks = json!({"labels": labels, "rule": [{"decision": "ask", "reason": "it posts"}]});
        let (asks, chat) = (policy(asks), called("chat"));
        let because = asks.decide(&chat, by_rule(&asks, &chat), true).because;
        assert!(because.starts_with("rule 1: it posts; labels: this session has read private"), "{because}");
        assert_eq!(of(json!({"profile": "read-only", "labels": labels}), "chat", true), Verdict::Deny);
        let mut denied = labels.clone();
        denied["when_mixed"] = json!("deny");
        assert_eq!(of(json!({"labels": denied}), "chat", true), Verdict::Deny);
        let mut allowed = labels;
        allowed["when_mixed"] = json!("allow");
        assert_eq!(
            of(
                json!({"profile": "careful", "labels": allowed, "rule": [{"decision": "allow"}]}),
                "chat",
                true
            ),
            Verdict::Allow
        );
    }

    #[test]
    fn a_policy_that_could_not_be_read_lets_nothing_pass() {
        let defect = Some("line 3".to_owned());
        let policy = Policy { defect, ..policy(json!({"rule": [{"decision": "allow"}]})) };
        let (hints, none) = (json!({"readOnlyHint": true}), Map::new());
        let called = PolicyCall {
            server: Names::only("s"),
            tool: Names::only("t"),
            annotations: hints.as_object().unwrap(),
            arguments: &none.into(),
        };
        let decision = decided(&policy, &called);
        assert_eq!((decision.verdict, decision.because.as_str()), (Verdict::Deny, "line 3"));
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for wrong in [
            json!({"profile": "open"}),
            json!({"rule": [{"server": "a"}]}),
            json!({"rule": [{"servers": "a", "decision": "deny"}]}),
            json!({"rule": [{"server": "", "decision": "deny"}]}),
            json!({"budgets": {"calls": 3}}),
            json!({"labels": {"secret": []}}),
        ] {
            assert!(serde_json::from_value::<Policy>(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!((Budgets::default().calls_per_run, Labels::default().when_mixed), (None, None));
    }
}
