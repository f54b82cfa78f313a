//! Results that stay in the bridge, and the handles that code has of them.
//!
//! No handle outlives its session.

pub(super) mod handles;
mod held_value;
