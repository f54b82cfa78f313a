//! Wires the rooms together; it decides nothing about runs or calls itself.
