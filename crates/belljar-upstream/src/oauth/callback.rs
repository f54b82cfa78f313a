//! The address that the browser returns to: a listener on the loopback interface that accepts one answer with the right
//! `state`.
//!
//! Any process on this machine can reach it, so other requests are refused and change nothing.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

const PATH: &str = "/callback";
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The longest time for one connection; browsers open some that they never use.
const CONNECTION: Duration = Duration::from_secs(10);
/// The largest number of simultaneous connections.
const CONNECTIONS_MAX: usize = 32;

/// A listener for the browser's return.
pub(super) struct Callback {
    listener: TcpListener,
    /// The address to which the browser is redirected.
    pub(super) address: Url,
}

impl Callback {
    /// Listens at a port that the system chooses.
    pub(super) async fn listen() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        let address = Url::parse(&address).map_err(std::io::Error::other)?;
        Ok(Self { listener, address })
    }

    /// Waits for an answer with this `state`, and returns its address.
    pub(super) async fn answer(&self, state: &str) -> std::io::Result<Url> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                    let (stream, _) = accepted?;
                    let (address, state) = (self.address.clone(), state.to_owned());
                    connections.spawn(tokio::time::timeout(CONNECTION, served(stream, address, state)));
                }
                Some(ended) = connections.join_next() => {
                    if let Ok(Ok(Ok(Some(answer)))) = ended {
                        return Ok(answer);
                    }
                }
            }
        }
    }
}

/// Serves one request; returns its address if it is the authorization server's answer.
async fn served(mut stream: TcpStream, address: Url, state: String) -> std::io::Result<Option<Url>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let answer = answer(&head, &address, &state);
    let (status, said) = match &answer {
        Some(answer) if of(answer, "error").is_some() => {
            ("200 OK", "The login was refused; belljar says why.")
        }
        Some(_) => ("200 OK", "You can close this page; belljar says whether the login has worked."),
        None => ("400 Bad Request", "This is no answer that belljar waits for."),
    };
    let body = format!("<!doctype html><meta charset=utf-8><title>belljar</title><p>{said}</p>\n");
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(answer)
}

fn answer(head: &[u8], address: &Url, state: &str) -> Option<Url> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let target = (words.next()? == "GET").then(|| words.next())??;
    // The target is not joined to the address: a target such as //host/callback would give another address.
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let mut answer = address.clone();
    answer.set_query(Some(query));
    let is_one = |name: &str| answer.query_pairs().filter(|(found, _)| found == name).count() == 1;
    let is_ours = is_one("state") && of(&answer, "state").is_some_and(|found| is_same(&found, state));
    (is_ours && (is_one("code") || is_one("error"))).then_some(answer)
}

/// The value of a parameter in the answer.
pub(super) fn of(answer: &Url, name: &str) -> Option<String> {
    answer.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Compares in constant time, so that the time does not tell how much is right.
fn is_same(found: &str, expected: &str) -> bool {
    let differs = found.bytes().zip(expected.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    found.len() == expected.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_the_path_with_the_state_and_one_code_or_error_is_an_answer() {
        let address: Url = "http://127.0.0.1:4000/callback".parse().unwrap();
        let taken = |line: &str| answer(format!("{line} HTTP/1.1\r\n\r\n").as_bytes(), &address, "s3");
        assert_eq!(
            taken("GET /callback?state=s3&code=c%201").unwrap().as_str(),
            "http://127.0.0.1:4000/callback?state=s3&code=c%201"
        );
        assert!(taken("GET /callback?error=access_denied&state=s3").is_some());
        for line in [
            "GET /callback?code=c",
            "GET /callback?code=c&state=s4",
            "GET /callback?code=c&state=",
            "GET /callback?code=c&state=s3&state=s4",
            "GET /callback?code=c&code=d&state=s3",
            "GET /callback?state=s3",
            "GET /other?code=c&state=s3",
            "GET //evil.test/callback?code=c&state=s3",
            "GET /callback2?code=c&state=s3",
            "POST /callback?code=c&state=s3",
            "GET",
            "",
        ] {
            assert_eq!(taken(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_says_nothing_and_one_without_end_do_not_keep_the_answer_out() {
        let callback = Callback::listen().await.unwrap();
        let place = callback.address.socket_addrs(|| None).unwrap()[0];
        let _silent = TcpStream::connect(place).await.unwrap();
        let endless = tokio::spawn(async move {
            let mut stream = TcpStream::connect(place).await.unwrap();
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        });
        let browser = tokio::spawn(async move {
            let mut stream = TcpStream::connect(place).await.unwrap();
            stream.write_all(b"GET /callback?code=c&state=s HTTP/1.1\r\n\r\n").await.unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).await.unwrap();
            page
        });
        let answer = tokio::time::timeout(Duration::from_secs(60), callback.answer("s")).await.unwrap();
        assert_eq!(of(&answer.unwrap(), "code").as_deref(), Some("c"));
        assert!(browser.await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
        tokio::time::timeout(Duration::from_secs(60), endless).await.expect("it was cut off").unwrap();
    }
}
