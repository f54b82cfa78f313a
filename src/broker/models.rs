//! The state of language models in a session: the settings, the budgets, and the endpoint.
//!
//! It asks no model.

use std::sync::Arc;

use belljar_base::run::{FaultCode, ToolFault};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::broker::run::context::RunContext;
use crate::config::ModelSettings;
use crate::models::{Endpoint, Ledger, ModelRequest, TokenReservation};

const BUDGET_HINT: &str = "the user sets budgets below [model] in config.toml; ask less, or of larger parts";

/// The settings, counts and endpoint of models in one session.
pub(super) struct Models(Mutex<ModelState>);

/// The current settings of models, with the counts and the endpoint that belong to them.
pub(super) struct ModelState {
    pub(super) settings: ModelSettings,
    ledger: Ledger,
    /// The permits for simultaneous requests.
    pub(super) turns: Arc<Semaphore>,
    /// The endpoint, after its first use.
    pub(super) endpoint: Option<Arc<Endpoint>>,
}

/// A request to a model that is counted. Dropping it gives back the tokens that it has not used.
pub(super) struct CountedRequest<'m> {
    models: &'m Models,
    run: &'m RunContext,
    reservation: Option<TokenReservation>,
    pub(super) taken: u64,
    _turn: OwnedSemaphorePermit,
}

impl Models {
    pub(super) fn new(settings: ModelSettings) -> Self {
        let turns = Arc::new(Semaphore::new(settings.bounds.at_once));
        Self(Mutex::new(ModelState { settings, ledger: Ledger::default(), turns, endpoint: None }))
    }

    /// Sets the settings that the configuration has when a run begins.
    pub(super) fn set(&self, settings: ModelSettings) {
        let mut now = self.now();
        if settings.bounds.at_once != now.settings.bounds.at_once {
            now.turns = Arc::new(Semaphore::new(settings.bounds.at_once));
        }
        if settings.access != now.settings.access {
            now.endpoint = None;
        }
        now.settings = settings;
    }

    /// Counts a request. The error names the budget that it would exceed.
    pub(super) fn count<'m>(
        &'m self,
        run: &'m RunContext,
        turn: OwnedSemaphorePermit,
        asked: &ModelRequest,
    ) -> Result<CountedRequest<'m>, ToolFault> {
        let mut now = self.now();
        let bounds = now.settings.bounds;
        let sent = asked.estimated_tokens();
        let of_run = &mut run.budget().models;
        let reservation = now.ledger.reserve(&bounds, of_run, sent.saturating_add(asked.max_tokens.into()));
        let reservation = reservation.map_err(|exhausted| {
            ToolFault::new(FaultCode::Denied, format!("the model was not asked: {exhausted}"))
                .hint(BUDGET_HINT)
        })?;
        Ok(CountedRequest { models: self, run, reservation: Some(reservation), taken: 0, _turn: turn })
    }

    pub(super) fn now(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock()
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.models.now().ledger.settle(&mut self.run.budget().models, reservation, self.taken);
        }
    }
}
