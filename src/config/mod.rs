//! What the operator wrote, as one checked value; it starts nothing.
