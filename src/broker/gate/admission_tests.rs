//! Claims about which calls are allowed, when the human is asked, and what is counted.

use std::num::NonZeroU32;

use belljar_base::run::ClientAbilities;
use belljar_tools::policy::{CallArguments, FindDefaults, Names, Profile};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::broker::human::{Human, Question};

fn admission(mut policy: Value) -> Admission {
    let is_careful = policy.as_object_mut().unwrap().remove("profile").is_some();
    let profile = if is_careful { Profile::Careful } else { Profile::Open };
    let policy = Policy { profile, ..serde_json::from_value(policy).unwrap() };
    let log = Arc::new(AuditLog::start(None, &Limits::default()));
    Admission::new(PolicyFile::fixed(policy), log, &Limits::default())
}

/// A human who gives these answers one after the other and then no more, and the task that returns the questions.
fn human(answers: Vec<Approval>) -> (Arc<RunContext>, tokio::task::JoinHandle<Vec<String>>) {
    let (questions, mut asked) = mpsc::channel::<Question>(1);
    let answering = tokio::spawn(async move {
        let (mut texts, mut answers) = (Vec::new(), answers.into_iter());
        while let Some(question) = asked.recv().await {
            let Question::Approval { text, reply, .. } = question else { panic!("{question:?}") };
            texts.push(text);
            if let Some(answer) = answers.next() {
                // The receiver is gone only if the test has failed already.
                let _gone = reply.send(answer);
            }
        }
        texts
    });
    (RunContext::of(1, &Human::new(questions, ClientAbilities::default())), answering)
}

/// The next run of the same human.
fn next(run: Arc<RunContext>) -> Arc<RunContext> {
    RunContext::of(2, &run.human)
}

fn called<'c>(
    tool: &'c str,
    annotations: &'c Map<String, Value>,
    arguments: &'c CallArguments,
) -> PolicyCall<'c> {
    PolicyCall { server: Names::only("files"), tool: Names::only(tool), annotations, arguments }
}

async fn admit(
    admission: &Admission,
    human: &RunContext,
    tool: &str,
    arguments: Value,
) -> Result<(), ToolFault> {
    let (none, Value::Object(arguments)) = (Map::new(), arguments) else { panic!() };
    let arguments = arguments.into();
    let called = called(tool, &none, &arguments);
    admission.admit(human, &called, 1, &CancellationToken::new()).await.map(drop)
}

#[tokio::test]
async fn what_is_denied_says_by_what_and_what_is_warned_of_is_noted_once() {
    let admission = admission(json!({"rule": [
        {"tool": "delete", "decision": "deny", "reason": "no\u{1b}[1m"},
        {"tool": "move", "decision": "warn"}
    ]}));
    let (human, asked) = human(vec![]);
    let fault = admit(&admission, &human, "delete", json!({})).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::Denied);
    assert_eq!(fault.message, "files.delete was not called: rule 1: no\\x1b[1m");
    for _ in 0..3 {
        admit(&admission, &human, "move", json!({})).await.unwrap();
    }
    assert_eq!(human.end().notes, ["files.move was called: rule 2"]);
    drop(human);
    assert_eq!(asked.await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn the_human_is_asked_with_the_arguments_and_a_refusal_holds_for_the_run() {
    let admission = admission(json!({"profile": "careful"}));
    let (human, asked) = human(vec![Approval::Once, Approval::missing("the user refused"), Approval::Once]);
    admit(&admission, &human, "write", json!({"path": "/a\u{202e}"})).await.unwrap();
    let refusal = "files.write was not called: the user has to be asked (profile careful: its server does not say that it only \
                   reads), and the user refused";
    for _ in 0..2 {
        let fault = admit(&admission, &human, "write", json!({"path": "/b"})).await.unwrap_err();
        assert_eq!(fault.message, refusal);
        let hint = "do not repeat this call in this run; the user can let it pass by a rule or another profile in policy.toml";
        assert_eq!(fault.hint, hint);
    }
    let human = next(human);
    admit(&admission, &human, "write", json!({"path": "/c"})).await.unwrap();
    drop(human);
    let asked = asked.await.unwrap();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].starts_with("Code that the model wrote wants to call files.write (profile careful: "));
    assert!(asked[0].contains(r#""path": "/a\u202e""#) && !asked[0].contains('\u{202e}'), "{}", asked[0]);
}

#[tokio::test]
async fn an_approval_of_further_calls_answers_for_those_that_wait_behind_it() {
    let admission = admission(json!({"profile": "careful"}));
    let further = Approval::Further {
        calls: NonZeroU32::new(2).unwrap(),
        arguments: vec![("path".into(), belljar_tools::policy::Pattern::new("/data/*").unwrap())],
    };
    let (human, asked) = human(vec![further, Approval::missing("the user refused")]);
    let calls = ["/data/1", "/data/2", "/data/3", "/data/4"].map(|path| {
        let (admission, human) = (&admission, &human);
        async move { admit(admission, human, "write", json!({ "path": path })).await.is_ok() }
    });
    let admitted = futures_util::future::join_all(calls).await;
    assert_eq!(admitted, [true, true, true, false]);
    drop(human);
    assert_eq!(asked.await.unwrap().len(), 2);
}

#[tokio::test]
async fn arguments_of_further_calls_are_asked_for_once_more_and_without_an_answer_nothing_is_allowed() {
    let admission = admission(json!({"profile": "careful"}));
    let further = Approval::Further {
        calls: NonZeroU32::MIN,
        arguments: vec![("path".into(), belljar_tools::policy::Pattern::new("/data/*").unwrap())],
    };
    let dismissed = Approval::missing("the question was dismissed");
    let (human, asked) = human(vec![Approval::Narrowed, further, Approval::Narrowed, dismissed]);
    for path in ["/data/1", "/data/2"] {
        admit(&admission, &human, "write", json!({ "path": path })).await.unwrap();
    }
    let fault = admit(&admission, &human, "write", json!({"path": "/data/3"})).await.unwrap_err();
    assert!(fault.message.ends_with("and the question was dismissed"), "{}", fault.message);
    drop(human);
    assert_eq!(asked.await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_human_sees_every_argument_or_the_call_is_denied() {
    let admission = admission(json!({"profile": "careful"}));
    let (human, asked) = human(vec![Approval::Once]);
    let long = json!({"body": "x".repeat(100_000), "force": true});
    admit(&admission, &human, "write", long).await.unwrap();
    let many: Map<String, Value> = (0..1_000).map(|n| (format!("name {n}"), json!(n))).collect();
    let fault = admit(&admission, &human, "write", many.into()).await.unwrap_err();
    assert!(
        fault.message.ends_with("and the arguments are too many to be shown to them"),
        "{}",
        fault.message
    );
    drop(human);
    let asked = asked.await.unwrap();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].contains("characters not shown") && asked[0].ends_with("\n  \"force\": true}"),
        "{}",
        asked[0]
    );
}

#[tokio::test]
async fn a_run_asks_so_many_times_and_of_a_tool_that_nobody_could_be_asked_about_once() {
    let admission = admission(json!({"profile": "careful"}));
    let unable = Approval::missing("the client has not answered");
    let questions_max = Limits::default().approvals_per_run_max;
    let answers = [vec![unable], vec![Approval::Once; questions_max]].concat();
    let (human, asked) = human(answers);
    for _ in 0..3 {
        let fault = admit(&admission, &human, "write", json!({})).await.unwrap_err();
        assert!(fault.message.ends_with("and the client has not answered"), "{}", fault.message);
    }
    for _ in 1..questions_max {
        admit(&admission, &human, "move", json!({})).await.unwrap();
    }
    let fault = admit(&admission, &human, "move", json!({})).await.unwrap_err();
    let said = format!("and this run has asked them {questions_max} times, which is all that it may");
    assert!(fault.message.ends_with(&said), "{}", fault.message);
    let human = next(human);
    admit(&admission, &human, "write", json!({})).await.unwrap();
    drop(human);
    assert_eq!(asked.await.unwrap().len(), questions_max + 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_so_long_for_its_human_and_no_longer() {
    let admission = admission(json!({"profile": "careful"}));
    let (questions, mut asked) = mpsc::channel::<Question>(1);
    let human = RunContext::of(1, &Human::new(questions, ClientAbilities::default()));
    let keeping = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(question) = asked.recv().await {
            kept.push(question);
        }
        kept.len()
    });
    let began = Instant::now();
    let mut last = String::new();
    for tool in ["a", "b", "c", "d", "e"] {
        last = admit(&admission, &human, tool, json!({})).await.unwrap_err().message;
    }
    let limits = Limits::default();
    assert_eq!(began.elapsed().as_secs(), limits.waiting_per_run.as_secs());
    assert!(
        last.ends_with("this run has waited 1800 s for answers of the user, which is all that it may"),
        "{last}"
    );
    drop(human);
    assert_eq!(keeping.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_and_told() {
    let admission = admission(json!({"profile": "careful"}));
    let (questions, mut asked) = mpsc::channel::<Question>(1);
    let human = RunContext::of(1, &Human::new(questions, ClientAbilities::default()));
    let waits = human.human.waits();
    let deadline = Instant::now() + Duration::from_secs(1);
    let until = human.human.until(deadline);
    let (none, cancel) = (Map::new(), CancellationToken::new());
    let arguments = CallArguments::default();
    let called = called("write", &none, &arguments);
    let admitting = admission.admit(&human, &called, 1, &cancel);
    let answering = async {
        let Some(Question::Approval { reply, .. }) = asked.recv().await else { panic!("a question") };
        assert!(waits.borrow().is_waiting());
        tokio::time::sleep(Duration::from_secs(60)).await;
        reply.send(Approval::Once).unwrap();
    };
    let (admitted, ()) = tokio::join!(admitting, answering);
    assert_eq!(admitted.unwrap(), "asked: profile careful: its server does not say that it only reads");
    assert!(!waits.borrow().is_waiting());
    assert_eq!(until.deadline() - deadline, Duration::from_secs(60));

    // Nobody answers.
    let (_keeps_it_open, fault) =
        tokio::join!(async { asked.recv().await }, admission.admit(&human, &called, 1, &cancel));
    let message = fault.unwrap_err().message;
    assert!(message.ends_with("and the user has not answered"), "{message}");
    cancel.cancel();
    let fault = admission.admit(&human, &called, 1, &cancel).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
}

#[tokio::test]
async fn without_anybody_to_ask_nothing_passes_that_must_be_asked_for() {
    let admission = admission(json!({"profile": "careful"}));
    let human = RunContext::of(1, &Human::new(mpsc::channel(1).0, ClientAbilities::default()));
    let fault = admit(&admission, &human, "write", json!({})).await.unwrap_err();
    assert!(fault.message.ends_with("and nobody can be asked here"), "{}", fault.message);
    assert!(fault.hint.contains("policy.toml"), "{}", fault.hint);
}

#[tokio::test]
async fn a_budget_that_is_used_up_is_named_before_anybody_is_asked() {
    let admission = admission(json!({"profile": "careful", "budgets": {"calls_per_run": 1}}));
    let (human, asked) = human(vec![Approval::Once, Approval::Once]);
    admit(&admission, &human, "write", json!({})).await.unwrap();
    let fault = admit(&admission, &human, "write", json!({})).await.unwrap_err();
    assert!(fault.message.contains("budgets.calls_per_run: 1 calls"), "{}", fault.message);
    drop(human);
    assert_eq!(asked.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_that_cannot_be_logged_is_told_of_or_denied() {
    let log = |_| Arc::new(AuditLog::nowhere("Read-only file system"));
    let with = |admission: Admission| Admission { log: log(()), ..admission };
    let (run, _) = human(vec![]);
    let open = with(admission(json!({})));
    for _ in 0..2 {
        admit(&open, &run, "write", json!({})).await.unwrap();
    }
    let said =
        "the log of calls cannot be written (Read-only file system), so the calls of this run are not logged";
    assert_eq!(run.end().notes, [said]);
    let careful = with(admission(json!({"profile": "careful", "rule": [{"decision": "allow"}]})));
    let fault = admit(&careful, &run, "write", json!({})).await.unwrap_err();
    let said = "files.write was not called: the log of calls cannot be written (Read-only file system), and profile careful \
                allows no call that is not logged";
    assert_eq!((fault.code, fault.message.as_str()), (FaultCode::Denied, said));
}

#[tokio::test]
async fn rules_about_arguments_are_compared_on_another_thread_whatever_the_size_of_the_call() {
    let here = std::thread::current().id();
    let searched = Arc::new(Mutex::new(Vec::new()));
    let of = |decision: &str, tool: &str| {
        let rule = json!({"tool": tool, "decision": decision, "arguments": {"path": "/etc/*"}});
        admission(json!({"profile": "careful", "rule": [rule]}))
    };
    let noted = Arc::clone(&searched);
    let defaults: Arc<FindDefaults> = Arc::new(move |_| {
        noted.lock().push(std::thread::current().id());
        Ok(Map::from_iter([("path".to_owned(), json!("/etc/a"))]))
    });
    let arguments = CallArguments { defaults: Some(defaults), ..CallArguments::default() };
    let (none, cancel) = (Map::new(), CancellationToken::new());
    let called = called("write", &none, &arguments);
    let (human, _asked) = human(vec![Approval::Once]);
    let fault = of("deny", "write").admit(&human, &called, 1, &cancel).await.unwrap_err();
    assert_eq!(fault.message, "files.write was not called: rule 1");
    assert!(of("ask", "write").would_ask(&called, &cancel).await.unwrap());
    let threads = std::mem::take(&mut *searched.lock());
    assert!(threads.len() == 2 && !threads.contains(&here), "{threads:?}");
    // Without a rule that is about the tool nothing is searched.
    of("deny", "read").admit(&human, &called, 1, &cancel).await.unwrap();
    assert_eq!(searched.lock().len(), 0);
    assert_eq!(Arc::strong_count(&arguments.given), 1, "nothing was copied or kept");
}

#[tokio::test]
async fn a_call_that_waits_for_the_comparison_of_another_one_ends_with_its_run() {
    let admission = admission(json!({"rule": [{"decision": "deny", "arguments": {"path": "/etc/*"}}]}));
    let _turn = admission.comparing.lock().await;
    let (none, arguments, cancel) = (Map::new(), CallArguments::default(), CancellationToken::new());
    let (called, (human, _asked)) = (called("write", &none, &arguments), human(vec![]));
    cancel.cancel();
    assert_eq!(admission.would_ask(&called, &cancel).await.unwrap_err().code, FaultCode::Cancelled);
    let fault = admission.admit(&human, &called, 1, &cancel).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::Cancelled);
}
