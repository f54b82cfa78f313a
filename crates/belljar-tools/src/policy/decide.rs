//! The decision on one call.

use super::arguments::{fit, may_lead_to};
use super::names::Names;
use super::policy_call::{DetachedCall, PolicyCall};
use super::rules::{Label, Policy, Profile, Rule};
use super::spelling::{cost, name_cost};
use super::verdict::{Effect, Verdict};

/// The largest cost of the comparisons of one call with rules about arguments (see [`cost`]): about a second, and ten
/// times that for the worst texts.
const COST_MAX: usize = 32 << 20;
/// The largest arguments that the thread of a call compares with rules, in bytes, and the largest cost of what is implied.
const AT_ONCE_COST_MAX: usize = 2 * 1024;
/// The largest number of arguments whose names that thread compares.
const NAMES_AT_ONCE_MAX: usize = 100;

/// A verdict, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict on the call.
    pub verdict: Verdict,
    /// The rule or setting that decided, so that the user can change it.
    pub because: String,
}

impl Policy {
    /// What has to be compared on another thread before the rules decide: the arguments, if a rule is about them and they
    /// are many. Code chooses how much there is to compare, and a server what it implies. `bytes`: their size.
    #[must_use]
    pub fn detached(&self, called: &PolicyCall<'_>, bytes: u64) -> Option<DetachedCall> {
        let implied = called.implied.values.values().take(NAMES_AT_ONCE_MAX + 1);
        let implied = implied.map(|value| cost(value, AT_ONCE_COST_MAX)).fold(0, usize::saturating_add);
        let are_few = called.implied.values.len() <= NAMES_AT_ONCE_MAX;
        if bytes <= AT_ONCE_COST_MAX as u64 && are_few && implied <= AT_ONCE_COST_MAX {
            return None;
        }
        let rules =
            || self.rules.iter().filter(|rule| !rule.arguments.is_empty() && rule.is_about_tool(called));
        let paths: Vec<&String> = rules().flat_map(|rule| rule.arguments.keys()).collect();
        let are_few = called.arguments.len() <= NAMES_AT_ONCE_MAX;
        let is_wanted = |name: &str| !are_few || paths.iter().any(|path| may_lead_to(name, path));
        (!paths.is_empty()).then(|| called.detached(is_wanted))
    }

    /// The decision of the rules about a call that was detached.
    #[must_use]
    pub fn by_rule_detached(&self, called: &DetachedCall) -> Decision {
        self.by_rule(&called.as_call())
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

    /// Whether a rule that asks or denies could match a call of this tool because of its arguments.
    #[must_use]
    pub fn weighs_arguments(&self, server: Names<'_>, tool: Names<'_>) -> bool {
        self.rules.iter().any(|rule| {
            let effect = rule.effect();
            effect == Effect::Tightens && !rule.arguments.is_empty() && rule.names(server, tool, effect)
        })
    }

    /// Whether it would take too long to compare the arguments with the rules about them.
    fn costs_too_much(&self, called: &PolicyCall<'_>) -> bool {
        let weighing = self.rules.iter().filter(|rule| rule.is_about_tool(called));
        let paths = weighing.flat_map(|rule| rule.arguments.keys());
        let values = || called.arguments.iter().chain(&called.implied.values);
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
    pub fn by_rule(&self, called: &PolicyCall<'_>) -> Decision {
        if let Some(defect) = &self.defect {
            return Decision { verdict: Verdict::Deny, because: defect.clone() };
        }
        let unchecked = self.costs_too_much(called).then_some(TOO_MUCH).or(called.implied.unchecked);
        for (at, rule) in self.rules.iter().enumerate() {
            match rule.fits(called, unchecked) {
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
        let (verdict, because) = match (self.profile, called.only_reads()) {
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

    /// Whether the rule matches the call. In doubt it matches, unless it would let the call pass. `unchecked`: why the
    /// arguments cannot be compared, or not all.
    fn fits(&self, called: &PolicyCall<'_>, unchecked: Option<&'static str>) -> RuleMatch {
        let effect = self.effect();
        let unchecked = unchecked.filter(|_| !self.arguments.is_empty());
        if !self.is_about_tool(called) || unchecked.is_some() && effect == Effect::Loosens {
            return RuleMatch::No;
        }
        let all_fit = || self.arguments.iter().all(|(path, pattern)| fit(called, path, pattern, effect));
        match unchecked {
            Some(why) if why == TOO_MUCH || !all_fit() => RuleMatch::Unknown { why },
            None if !all_fit() => RuleMatch::No,
            _ => RuleMatch::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::policy::ImpliedArguments;
    use crate::policy::{Budgets, Labels};

    fn policy(mut json: Value) -> Policy {
        let profile = json.as_object_mut().unwrap().remove("profile");
        let profile = profile.map_or(Profile::Open, |profile| serde_json::from_value(profile).unwrap());
        Policy { profile, ..serde_json::from_value(json).unwrap() }
    }

    fn decided(policy: &Policy, called: &PolicyCall<'_>) -> Decision {
        policy.decide(called, policy.by_rule(called), false)
    }

    fn verdict(policy: &Policy, server: &str, tool: &str, hints: Value, arguments: Value) -> Verdict {
        let (Value::Object(annotations), Value::Object(arguments)) = (hints, arguments) else { panic!() };
        let (server, tool) = (Names::only(server), Names::only(tool));
        let called = PolicyCall {
            server,
            tool,
            annotations: &annotations,
            arguments: &arguments,
            implied: &ImpliedArguments::default(),
        };
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
        let (none, empty, implied) = (Map::new(), Map::new(), ImpliedArguments::default());
        let called = PolicyCall {
            server: Names::only("github"),
            tool: Names::only("delete_x"),
            annotations: &none,
            arguments: &empty,
            implied: &implied,
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
                &PolicyCall {
                    server,
                    tool,
                    annotations: &none,
                    arguments: &none,
                    implied: &ImpliedArguments::default(),
                },
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
            let implied = ImpliedArguments { unchecked: Some("too many"), ..ImpliedArguments::default() };
            let (none, arguments) = (Map::new(), json!({"path": "/data/a"}));
            let called = PolicyCall {
                server: Names::only("s"),
                tool: Names::only("t"),
                annotations: &none,
                arguments: arguments.as_object().unwrap(),
                implied: &implied,
            };
            let decision = decided(&policy, &called);
            (decision.verdict, decision.because, policy.weighs_arguments(called.server, called.tool))
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
            (Verdict::Allow, open, false),
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
    fn a_call_is_compared_on_another_thread_only_where_rules_are_about_many_arguments() {
        let rule = json!({"tool": "t", "decision": "deny", "arguments": {"path.x": "/etc/*"}});
        let policy = policy(json!({"rule": [rule]}));
        let (hints, implied) = (Map::new(), ImpliedArguments::default());
        let arguments = json!({"Path": {"x": ["/etc/a"]}, "content": "long"});
        let called = |tool| PolicyCall {
            server: Names::only("s"),
            tool: Names::only(tool),
            annotations: &hints,
            arguments: arguments.as_object().unwrap(),
            implied: &implied,
        };
        assert!(
            policy.detached(&called("t"), 100).is_none() && policy.detached(&called("u"), 1 << 20).is_none()
        );
        let detached = policy.detached(&called("t"), 1 << 20).unwrap();
        assert_eq!(detached.as_call().arguments.keys().collect::<Vec<_>>(), ["Path"]);
        assert_eq!(policy.by_rule_detached(&detached), policy.by_rule(&called("t")));
        assert_eq!(policy.by_rule_detached(&detached).verdict, Verdict::Deny);
    }

    #[test]
    fn data_that_was_mixed_does_not_leave_unseen() {
        let labels = json!({"private": ["mail"], "untrusted": ["web"], "egress": ["chat"]});
        let (none, empty, implied) = (Map::new(), Map::new(), ImpliedArguments::default());
        let called = |server| PolicyCall {
            server: Names::only(server),
            tool: Names::only("t"),
            annotations: &none,
            arguments: &empty,
            implied: &implied,
        };
        let of = |json: Value, server, is_mixed| {
            let (policy, called) = (policy(json), called(server));
            policy.decide(&called, policy.by_rule(&called), is_mixed).verdict
        };
        assert_eq!(of(json!({"labels": labels}), "chat", true), Verdict::Warn);
        assert_eq!(of(json!({"labels": labels}), "chat", false), Verdict::Allow);
        assert_eq!(of(json!({"labels": labels}), "mail", true), Verdict::Allow);
        let allowed = json!({"profile": "careful", "labels": labels, "rule": [{"decision": "allow"}]});
        assert_eq!(of(allowed.clone(), "chat", true), Verdict::Ask);
        assert_eq!(of(allowed, "chat", false), Verdict::Allow);
        let asks = json!({"labels": labels, "rule": [{"decision": "ask", "reason": "it posts"}]});
        let (asks, chat) = (policy(asks), called("chat"));
        let because = asks.decide(&chat, asks.by_rule(&chat), true).because;
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
            arguments: &none,
            implied: &ImpliedArguments::default(),
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
