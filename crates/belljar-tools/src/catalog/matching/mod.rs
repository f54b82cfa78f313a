//! Compares words and names: words and their stems, synonyms, misspellings, and the tools that have each word.
//!
//! It knows no tools, only numbers and texts.

pub(super) mod fuzzy;
pub(super) mod near_names;
pub(super) mod postings;
pub(super) mod synonyms;
pub(super) mod words;
