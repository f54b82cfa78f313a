//! Compares words, names and vectors: words and their stems, synonyms, misspellings, and which words are in which tools.
//!
//! It knows no tool, only numbers and texts.

pub(super) mod fuzzy;
pub(super) mod near_names;
pub(super) mod postings;
pub(super) mod synonyms;
pub(super) mod vectors;
pub(super) mod words;
