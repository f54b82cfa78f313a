//! Decides whether a call is allowed, and has it answered: by a server, through `upstream`, or by the bridge itself.
//!
//! It keeps no processes and knows no sandbox. Nothing in a call frame is trusted.

mod answer;
mod arguments;
mod call;
mod dispatch;
mod failure_text;
mod gate;
mod helpers;
mod human;
mod models;
mod parts;
mod record;
mod run;
mod servers;
mod shared;
mod tools;
mod values;

pub use answer::Answer;
pub use call::{Call, CallHandles, SendRule};
pub use gate::trust::Changes;
pub use human::{Approval, ApprovalForm, Human, HumanWaits, Question};
pub use parts::{Broker, SessionSetup};
pub use record::journal_form::is_made_again;
pub use record::replay::{AnswerSource, Replay, ReplayReport, not_kept};
pub use run::call_record::CallRecord;
pub use run::context::{ExecutionMode, Origin, RunContext, RunSpec};
pub use run::record::RunRecord;
pub use servers::active_config::{ActiveConfig, model_endpoint, remote_spec};
pub use shared::Shared;
