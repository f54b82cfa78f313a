//! The `hotcell` program: it parses the command line and leaves the rest to the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    hotcell::app::main(hotcell::cli::Arguments::parse())
}
