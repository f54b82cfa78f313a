//! Starts, attaches, signals and kills one locked container; it knows no Python and no frames.
