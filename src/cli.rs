//! The command line; it only parses.
