//! A deadline that does not move, for calls that no human is asked about.

use std::time::Duration;

use belljar_upstream::Clock;
use tokio::time::Instant;

pub struct Deadline(pub Instant);

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }
}

impl Clock for Deadline {
    async fn over(&self) {
        tokio::time::sleep_until(self.0).await;
    }

    fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    async fn passed(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
