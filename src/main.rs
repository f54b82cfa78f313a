//! The `belljar` program: it parses the command line and leaves the rest to the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    belljar::app::main(belljar::cli::Arguments::parse())
}
