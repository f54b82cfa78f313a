//! What the model reads; it decides nothing.
