//! Decides how long a search waits for servers whose tools are unknown, and for which servers first.
//!
//! It asks no server itself; `indexing` does.

use belljar_base::names::ServerName;
use belljar_base::run::Progress;
use belljar_base::text;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::call::Call;
use crate::broker::parts::Broker;

/// Words of servers' names that do not identify a server.
const COMMON_WORDS: [&str; 5] = ["mcp", "server", "servers", "tool", "tools"];
/// The shortest word of a server's name by which a query can name the server, in characters.
const WORD_CHARS_MIN: usize = 3;
/// The largest number of servers that a progress message names, and the longest name in it, in characters.
const NAMED_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 60;

impl Broker {
    /// Asks the servers whose tools are unknown, first those that the query names. The wait is bounded and leaves at
    /// least half of the run's time. After the named servers have answered, the others are waited for only shortly.
    pub(super) async fn ask_for_tools(
        &self,
        servers: &[ServerName],
        query: &str,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) {
        let (named, others): (Vec<_>, Vec<_>) =
            servers.iter().cloned().partition(|server| is_named(server.as_str(), query));
        self.shared.indexing.begin(&[named.clone(), others].concat()).await;
        let tell = |awaited: &[&ServerName]| {
            call.run().tell(Progress::AwaitsTools { servers: shortened(awaited) });
        };
        let now = Instant::now();
        let half = call.deadline.saturating_duration_since(now) / 2;
        if named.is_empty() {
            let deadline = now + self.limits.search_wait.min(half);
            self.shared.indexing.settled(servers, deadline, cancel, tell).await;
        } else {
            let deadline = now + self.limits.search_wait_named.min(half);
            self.shared.indexing.settled(&named, deadline, cancel, tell).await;
            let soon = deadline.min(Instant::now() + self.limits.further_index);
            self.shared.indexing.settled(servers, soon, cancel, |_| {}).await;
        }
    }
}

/// Whether a word of the query is a word of the server's name.
fn is_named(server: &str, query: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect()
    };
    let query = words(query);
    words(server).iter().any(|word| {
        word.chars().count() >= WORD_CHARS_MIN
            && !COMMON_WORDS.contains(&word.as_str())
            && query.contains(word)
    })
}

fn shortened(servers: &[&ServerName]) -> String {
    let shown =
        servers.iter().take(NAMED_MAX).map(|server| text::inert_excerpt(server.as_str(), NAME_CHARS_MAX));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match servers.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_server_by_a_whole_word_that_says_something() {
        for (server, query, named) in [
            ("sqlite", "sqlite run query, list tables", true),
            ("mcp-server-SQLite", "SQLite: run a query", true),
            ("my_git_hub", "open an issue on hub", true),
            ("sqlite", "sql", false),
            ("mcp-server", "which server has tools for mcp", false),
            ("a-b", "a b", false),
            ("sqlite", "", false),
        ] {
            assert_eq!(is_named(server, query), named, "{server} {query}");
        }
    }

    #[test]
    fn servers_that_are_waited_for_are_told_in_a_bounded_line() {
        let names: Vec<ServerName> =
            (0..7).map(|number| ServerName::new(&format!("s{number}")).unwrap()).collect();
        let all: Vec<&ServerName> = names.iter().collect();
        assert_eq!(shortened(&all[..2]), "s0, s1");
        assert_eq!(shortened(&all), "s0, s1, s2, s3, s4 and 2 more");
    }
}
