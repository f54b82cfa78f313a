//! Claims about which servers may ask which human, how often, and until when.

use belljar_base::run::ClientAbilities;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::broker::human::Question;

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn human() -> (Human, mpsc::Receiver<Question>) {
    let (questions, asked) = mpsc::channel(1);
    (
        Human::new(
            questions,
            ClientAbilities {
                elicitation: true,
                sampling: false,
                model: false,
                ..ClientAbilities::default()
            },
        ),
        asked,
    )
}

fn requests(limits: &Limits) -> Arc<ServerRequests> {
    ServerRequests::new(limits)
}

fn params() -> Value {
    json!({"message": "name?", "requestedSchema": {}})
}

async fn refusal(requests: &ServerRequests, server: &str, kind: QuestionKind) -> String {
    requests.answer((&name(server), None), kind, &params()).await.1.unwrap_err().message
}

#[tokio::test]
async fn a_server_is_heard_only_while_it_is_called_and_for_what_the_client_offers() {
    let requests = requests(&Limits::default());
    let (human, mut asked) = human();
    let nobody = "no call of a run is under way at this server";
    assert_eq!(refusal(&requests, "a", QuestionKind::Elicitation).await, nobody);
    let calling = requests.calling(&name("a"), &RunContext::of(1, &human), 9).await;
    assert_eq!(refusal(&requests, "b", QuestionKind::Elicitation).await, nobody);
    assert_eq!(
        refusal(&requests, "a", QuestionKind::Sampling).await,
        "the client of this run does not offer it"
    );
    let server = name("a");
    let form = params();
    let answering = async {
        let Some(Question::OfServer { kind: QuestionKind::Elicitation, params, reply }) = asked.recv().await
        else {
            panic!("a server's question, and no approval");
        };
        assert!(params["message"].as_str().unwrap().starts_with("Server 'a' asks for this"), "{params}");
        reply.send(Ok(json!({"action": "decline"}))).unwrap();
    };
    let ((of, answer), ()) =
        tokio::join!(requests.answer((&server, None), QuestionKind::Elicitation, &form), answering);
    assert_eq!(of.unwrap(), Asked { session: SessionId::new("a"), run: RunId(1) });
    assert_eq!(answer, Ok(json!({"action": "decline"})));
    drop(calling);
    assert_eq!(refusal(&requests, "a", QuestionKind::Elicitation).await, nobody);
    assert!(asked.try_recv().is_err(), "nobody was asked");
}

#[tokio::test]
async fn a_question_lasts_as_long_as_any_call_of_its_run_and_no_longer() {
    let requests = requests(&Limits::default());
    let (human, mut asked) = human();
    let first = requests.calling(&name("a"), &RunContext::of(1, &human), 9).await;
    let second = requests.calling(&name("a"), &RunContext::of(1, &human), 9).await;
    let (server, form) = (name("a"), params());
    let mut answer = std::pin::pin!(requests.answer((&server, None), QuestionKind::Elicitation, &form));
    assert!(futures_util::poll!(&mut answer).is_pending());
    let Some(Question::OfServer { mut reply, .. }) = asked.recv().await else { panic!("a question") };
    drop(first);
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert!(human.waits().borrow().is_waiting(), "the run's time stands still");
    drop(second);
    let ended = "the call that it was asked in has ended";
    assert_eq!(answer.await.1.unwrap_err().message, ended);
    reply.closed().await;
    assert!(!human.waits().borrow().is_waiting());
}

#[tokio::test]
async fn the_call_of_a_later_run_takes_over_and_the_end_of_an_earlier_one_takes_nothing_away() {
    let requests = requests(&Limits::default());
    let ((earlier, _), (later, mut asked)) = (human(), human());
    let first = requests.calling(&name("a"), &RunContext::of(1, &earlier), 9).await;
    let _second = requests.calling(&name("a"), &RunContext::of(2, &later), 9).await;
    drop(first);
    let (server, form) = (name("a"), params());
    let mut answer = std::pin::pin!(requests.answer((&server, None), QuestionKind::Elicitation, &form));
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert!(asked.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_run_hears_so_many_questions_and_waits_so_long_for_each() {
    let limits = Limits { server_requests_per_run_max: 2, ..Limits::default() };
    let requests = requests(&limits);
    let (human, mut asked) = human();
    let _calling = requests.calling(&name("a"), &RunContext::of(1, &human), 9).await;
    let began = Instant::now();
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(question) = asked.recv().await {
            kept.push(question);
        }
        kept.len()
    });
    for _ in 0..2 {
        assert_eq!(refusal(&requests, "a", QuestionKind::Elicitation).await, "the user has not answered");
    }
    assert_eq!(began.elapsed(), limits.approval * 2);
    assert_eq!(refusal(&requests, "a", QuestionKind::Elicitation).await, "servers may ask 2 times in a run");
    drop((_calling, human));
    assert_eq!(silent.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn servers_are_not_heard_once_the_run_has_waited_for_its_human_as_long_as_it_may() {
    let limits = Limits::default();
    let requests = requests(&limits);
    let (human, mut asked) = human();
    let _calling = requests.calling(&name("a"), &RunContext::of(1, &human), 9).await;
    let waiting = human.wait();
    tokio::time::sleep(limits.waiting_per_run).await;
    drop(waiting);
    let said = "this run has waited 1800 s for answers of the user, which is all that it may";
    assert_eq!(refusal(&requests, "a", QuestionKind::Elicitation).await, said);
    assert!(asked.try_recv().is_err(), "nobody was asked");
}

#[tokio::test]
async fn a_question_during_the_calls_of_two_sessions_goes_to_nobody_and_then_one_calls_at_a_time() {
    let requests = requests(&Limits::default());
    let ((one, mut asked_one), (other, mut asked_other)) = (human(), human());
    // Both sessions count their runs from 1.
    let (of_one, of_other) = (RunContext::of_session("a", 1, &one), RunContext::of_session("b", 1, &other));
    let (server, form) = (name("a"), params());
    let first = requests.calling(&server, &of_one, 9).await;
    let second = requests.calling(&server, &of_other, 9).await;
    let said = refusal(&requests, "a", QuestionKind::Elicitation).await;
    assert_eq!(said, "several sessions are calling this server, and it cannot say which one it asks");
    assert!(asked_one.try_recv().is_err() && asked_other.try_recv().is_err());
    // A call that is under way goes on, and also calls of the same session are not kept waiting.
    drop(second);
    let again = requests.calling(&server, &of_one, 9).await;
    let elsewhere = requests.calling(&name("b"), &of_other, 9).await;
    let mut waiting = std::pin::pin!(requests.calling(&server, &of_other, 9));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let mut answer = std::pin::pin!(requests.answer((&server, None), QuestionKind::Elicitation, &form));
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert!(asked_one.try_recv().is_ok() && asked_other.try_recv().is_err());
    drop((first, elsewhere));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(again);
    let _now = waiting.await;
    let mut answer = std::pin::pin!(requests.answer((&server, None), QuestionKind::Elicitation, &form));
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert!(asked_other.try_recv().is_ok());
}

#[tokio::test]
async fn a_private_server_asks_its_own_session_and_keeps_no_other_waiting() {
    let requests = requests(&Limits::default());
    let ((one, mut asked_one), (other, mut asked_other)) = (human(), human());
    let (of_one, of_other) = (RunContext::of_session("a", 1, &one), RunContext::of_session("b", 1, &other));
    let (server, form) = (name("a"), params());
    let session = of_one.session.clone();
    let ask = || requests.answer((&server, Some(&session)), QuestionKind::Elicitation, &form);
    let first = requests.calling(&server, &of_one, 9).await;
    let _second = requests.calling(&server, &of_other, 9).await;
    let mut answer = std::pin::pin!(ask());
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert!(asked_one.try_recv().is_ok() && asked_other.try_recv().is_err());
    drop((first, answer));
    // Its own call has ended: the other session's human is not asked instead.
    assert_eq!(ask().await.1.unwrap_err().message, "no call of a run is under way at this server");
    assert!(asked_other.try_recv().is_err());
    // It has asked, and both sessions still call their own servers at the same time.
    let mut again = std::pin::pin!(requests.calling(&server, &of_one, 9));
    assert!(futures_util::poll!(&mut again).is_ready());
}

#[tokio::test]
async fn calls_of_jobs_count_for_their_session_and_nobody_is_asked_in_them() {
    let requests = requests(&Limits::default());
    let ((one, _one), (other, mut asked)) = (human(), human());
    let job = RunContext::of_session("a", 1, &one).job(1, belljar_base::run::ServerScope::All);
    let of_job = requests.calling(&name("a"), &job, 9).await;
    assert_eq!(
        refusal(&requests, "a", QuestionKind::Elicitation).await,
        "no call of a run is under way at this server"
    );
    let run = RunContext::of_session("b", 1, &other);
    let server = name("a");
    let mut waiting = std::pin::pin!(requests.calling(&server, &run, 9));
    assert!(futures_util::poll!(&mut waiting).is_pending(), "the question could be the job's");
    // A run of the same session that calls the server is not asked for the job either.
    let same = RunContext::of_session("a", 2, &one);
    let of_run = requests.calling(&server, &same, 9).await;
    let said = refusal(&requests, "a", QuestionKind::Elicitation).await;
    assert!(said.contains("it cannot say in which call it asks"), "{said}");
    drop((of_run, of_job));
    let _now = waiting.await;
    assert!(asked.try_recv().is_err());
}

#[tokio::test]
async fn many_calls_of_one_session_wait_for_each_other_and_not_before_another_session_s() {
    let requests = requests(&Limits::default());
    let ((one, _one), (other, _other)) = (human(), human());
    let (of_one, of_other) = (RunContext::of_session("a", 1, &one), RunContext::of_session("b", 1, &other));
    let server = name("a");
    let first = requests.calling(&server, &of_one, 2).await;
    let _second = requests.calling(&server, &of_one, 2).await;
    let mut third = std::pin::pin!(requests.calling(&server, &of_one, 2));
    assert!(futures_util::poll!(&mut third).is_pending(), "the server takes two calls");
    let _of_other = requests.calling(&server, &of_other, 2).await;
    let _elsewhere = requests.calling(&name("b"), &of_one, 2).await;
    assert!(futures_util::poll!(&mut third).is_pending());
    drop(first);
    let _third = third.await;
}
