//! Lists the calls of a dry run instead of making them.

use crate::broker::call::{Answer, Call};
use crate::broker::state::Broker;
use crate::policy::Called;
use crate::run::NotMade;
use crate::text;

/// Longest name of a call in a note, in characters.
const NAME_CHARS_MAX: usize = 200;

impl Broker {
    /// Lists a call instead of making it. The next reply reports a call of a job whose run has ended as that job's.
    pub(in crate::broker) fn planned(
        &self,
        call: &Call<'_>,
        called: &Called<'_>,
        (asks, why): (bool, NotMade),
        redacted: &dyn Fn(String) -> String,
    ) -> Answer {
        let (server, tool) = (called.server.name.to_owned(), called.tool.name.to_owned());
        if !self.dry_run.list(call.run, called, (asks, why), redacted) {
            let name = text::inert_excerpt(&format!("{server}.{tool}"), NAME_CHARS_MAX);
            self.admission
                .note(call.job, format!("{name} was planned and not called: its run was a dry run"));
        }
        Answer::Planned { server, tool }
    }
}
