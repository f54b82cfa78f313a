//! What goes the other way over HTTP, through the room that reaches servers: their questions, progress and words, and what
//! is read of them; with the reference server, over both transports.

use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::ClientAbilities;
use belljar_upstream::{
    ListKind, ProgressUpdate, QuestionError, QuestionKind, RemoteSpec, Request, ServerChannels,
    ServerQuestion, ServerSpec, ServerTransport, Upstream,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::session;
use crate::support::PATIENCE;
use crate::support::everything::Everything;

fn name() -> ServerName {
    ServerName::new("far").unwrap()
}

/// The server in both of its modes, offered a model and a human, and the listener's ends.
fn servers() -> Vec<(Everything, Upstream, ServerChannels)> {
    [("streamableHttp", "mcp"), ("sse", "sse")]
        .map(|(mode, path)| {
            let server = Everything::start(mode, path);
            let transport = ServerTransport::Remote(RemoteSpec {
                url: server.url.parse().unwrap(),
                transport: None,
                headers: vec![],
                login: None,
            });
            let spec = ServerSpec::new(name(), transport);
            let upstream = Upstream::new(vec![spec], &Arc::new(Limits::default()));
            upstream.offer(ClientAbilities {
                elicitation: true,
                sampling: true,
                model: true,
                ..ClientAbilities::default()
            });
            let heard = upstream.listen().unwrap();
            (server, upstream, heard)
        })
        .into()
}

async fn ask(
    upstream: &Upstream,
    request: Request,
    hears: Option<watch::Sender<Option<ProgressUpdate>>>,
) -> Result<Value, String> {
    let cancel = CancellationToken::new();
    let mut connection =
        upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
    // It adds the tools that ask only once it knows what its client can do.
    let is_there = |tools: &[Value]| match &request {
        Request::Tool { name, .. } => tools.iter().any(|tool| tool["name"] == name.as_str()),
        _ => true,
    };
    let until = Instant::now() + PATIENCE;
    while !is_there(&connection.tools()) {
        assert!(Instant::now() < until, "the server does not offer what is called");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        connection = upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
    }
    let answer = connection.ask(request, &Deadline::after(PATIENCE), &cancel, hears).await;
    answer.map(|answer| serde_json::from_str(answer.get()).unwrap()).map_err(|error| error.to_string())
}

fn tool(name: &str, arguments: Value) -> Request {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    Request::Tool { name: name.to_owned(), arguments, only_reads: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_remote_server_reach_who_listens_and_their_answers_the_server() {
    for (_server, upstream, mut heard) in servers() {
        let asking = ask(&upstream, tool("trigger-sampling-request", json!({"prompt": "Hi"})), None);
        let answering = async {
            let ServerQuestion { server, kind, params, reply, .. } = heard.asked.recv().await.unwrap();
            assert_eq!((server, kind), (name(), QuestionKind::Sampling));
            assert!(params["messages"][0]["content"]["text"].as_str().unwrap().ends_with("Hi"), "{params}");
            let content = json!({"type": "text", "text": "of a model"});
            reply.send(Ok(json!({"role": "assistant", "content": content, "model": "m"}))).unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert!(answer.unwrap().to_string().contains("of a model"));

        let asking = ask(&upstream, tool("trigger-elicitation-request", json!({})), None);
        let answering = async {
            let ServerQuestion { kind, reply, .. } = heard.asked.recv().await.unwrap();
            assert_eq!(kind, QuestionKind::Elicitation);
            reply.send(Err(QuestionError { code: Some(-7), message: "not now".into() })).unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert!(answer.unwrap().to_string().contains("not now"));
        upstream.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_readings_of_a_remote_server_come_as_those_of_any_other() {
    for (_server, upstream, _heard) in servers() {
        let (hears, mut heard) = watch::channel(None);
        let long = tool("trigger-long-running-operation", json!({"duration": 0.2, "steps": 2}));
        ask(&upstream, long, Some(hears)).await.unwrap();
        let last = heard.borrow_and_update().clone().unwrap();
        // The last step and the answer may overtake each other.
        assert!((1.0..=2.0).contains(&last.progress) && last.total == Some(2.0), "{last:?}");

        let cancel = CancellationToken::new();
        let connection =
            upstream.connect(&name(), &session(), Instant::now() + PATIENCE, &cancel).await.unwrap();
        let resources =
            connection.list(ListKind::Resources, &Deadline::after(PATIENCE), &cancel).await.unwrap().0;
        let uri = resources[0]["uri"].as_str().unwrap().to_owned();
        let read = ask(&upstream, Request::Resource { uri: uri.clone() }, None).await.unwrap();
        assert_eq!(read["contents"][0]["uri"], uri);
        let refused = ask(&upstream, Request::Resource { uri: "no://such".into() }, None).await.unwrap_err();
        assert!(refused.starts_with("server 'far' refused: "), "{refused}");
        let prompts =
            connection.list(ListKind::Prompts, &Deadline::after(PATIENCE), &cancel).await.unwrap().0;
        let simple = prompts[0]["name"].as_str().unwrap().to_owned();
        let prompt =
            ask(&upstream, Request::Prompt { name: simple, arguments: Map::new() }, None).await.unwrap();
        assert_eq!(prompt["messages"][0]["role"], "user");
        upstream.close().await;
    }
}
