//! Keeps what of a server's messages could not be read, for the replies and reports that miss it.

use std::sync::Arc;

use belljar_base::text;
use parking_lot::Mutex;

/// The longest excerpt of a line or an item, in characters.
const EXCERPT_CHARS_MAX: usize = 120;
/// The largest number of items that are named.
const ITEMS_MAX: usize = 5;

/// What could not be read of a server since its last start. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lines: usize,
    first_line: String,
    items: Vec<String>,
}

impl Unread {
    /// Forgets what an earlier process or session of the server has sent.
    pub(crate) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    /// Notes a line that is no message. `text` makes its text without secrets.
    pub(super) fn line(&self, text: impl FnOnce() -> String, why: &str) {
        let mut state = self.0.lock();
        state.lines += 1;
        if state.lines == 1 {
            state.first_line = format!("{} ({why})", text::inert_excerpt(&text(), EXCERPT_CHARS_MAX));
        }
    }

    /// Notes the items that the present list of tools lacks.
    pub(crate) fn items(&self, left_out: Vec<String>) {
        self.0.lock().items = left_out;
    }

    /// What was passed over and left out, in words; `None`: nothing.
    pub(crate) fn said(&self) -> Option<String> {
        let state = self.0.lock();
        let lines = (state.lines > 0).then(|| {
            let (count, first) = (state.lines, &state.first_line);
            let lines = if count == 1 { "line" } else { "lines" };
            format!("{count} {lines} from it could not be used, the first: {first}")
        });
        let said: Vec<String> = lines.into_iter().chain(state.left_out()).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// The items that the present list of tools lacks, in words; `None`: it lacks none.
    pub(crate) fn left_out(&self) -> Option<String> {
        self.0.lock().left_out()
    }
}

impl State {
    fn left_out(&self) -> Option<String> {
        (!self.items.is_empty()).then(|| left_out(&self.items))
    }
}

/// Items that a list lacks, in words.
pub(crate) fn left_out(items: &[String]) -> String {
    let more = items.len().saturating_sub(ITEMS_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = items.iter().take(ITEMS_MAX).map(|item| text::inert_excerpt(item, EXCERPT_CHARS_MAX));
    format!("left out of its list: {}{more}", named.collect::<Vec<_>>().join(", "))
}
