//! What must hold of everything that reads foreign bytes, as one function for each: the fuzz targets run them on inputs
//! of their own making, and here they run on the corpora that fuzzing has left and on structured inputs.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

mod client_files;
mod config_parser;
mod corpora;
mod frame_decoder;
mod inert;
mod injection;
mod jsonrpc_input;
mod name_mapping;
mod properties;
mod python;
mod schema_to_python;
