//! What a session knows of language models: the settings, the budgets, and the endpoint.
//!
//! It asks no model.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::broker::run::context::RunContext;
use crate::config::{ModelBounds, ModelSettings};
use crate::models::{Asked, Bounds, Endpoint, Ledger, Reserved};
use crate::run::{FaultCode, ToolFault};

const BUDGET_HINT: &str = "the user sets budgets below [model] in config.toml; ask less, or of larger parts";

/// What is known of models in one session.
pub(super) struct Models(Mutex<Now>);

pub(super) struct Now {
    pub(super) settings: ModelSettings,
    ledger: Ledger,
    /// As many as may be asked at once.
    pub(super) turns: Arc<Semaphore>,
    /// Once it was asked for.
    pub(super) endpoint: Option<Arc<Endpoint>>,
}

/// A request that is counted; what it has not taken is given back with this.
pub(super) struct Counted<'m> {
    models: &'m Models,
    run: &'m RunContext,
    reserved: Option<Reserved>,
    pub(super) taken: u64,
    _turn: OwnedSemaphorePermit,
}

impl Models {
    pub(super) fn new(settings: ModelSettings) -> Self {
        let turns = Arc::new(Semaphore::new(settings.bounds.at_once));
        Self(Mutex::new(Now { settings, ledger: Ledger::default(), turns, endpoint: None }))
    }

    /// The settings as they stand when a run begins.
    pub(super) fn set(&self, settings: ModelSettings) {
        let mut now = self.now();
        if settings.bounds.at_once != now.settings.bounds.at_once {
            now.turns = Arc::new(Semaphore::new(settings.bounds.at_once));
        }
        if settings.way != now.settings.way {
            now.endpoint = None;
        }
        now.settings = settings;
    }

    /// Counts one more, or says which budget does not cover it.
    pub(super) fn count<'m>(
        &'m self,
        run: &'m RunContext,
        turn: OwnedSemaphorePermit,
        asked: &Asked,
    ) -> Result<Counted<'m>, ToolFault> {
        let mut now = self.now();
        let bounds = bounds(&now.settings.bounds);
        let sent = asked.estimated_tokens();
        let of_run = &mut run.budget().models;
        let reserved = now.ledger.reserve(&bounds, of_run, sent.saturating_add(asked.max_tokens.into()));
        let reserved = reserved.map_err(|exhausted| {
            ToolFault::new(FaultCode::Denied, format!("the model was not asked: {exhausted}"))
                .hint(BUDGET_HINT)
        })?;
        Ok(Counted { models: self, run, reserved: Some(reserved), taken: 0, _turn: turn })
    }

    pub(super) fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.models.now().ledger.settle(&mut self.run.budget().models, reserved, self.taken);
        }
    }
}

fn bounds(settings: &ModelBounds) -> Bounds {
    Bounds {
        requests_per_run: settings.requests_per_run,
        requests_per_session: settings.requests_per_session,
        tokens_per_run: settings.tokens_per_run,
        tokens_per_session: settings.tokens_per_session,
    }
}
