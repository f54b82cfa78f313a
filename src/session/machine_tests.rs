//! The machine's behaviour, event by event.
