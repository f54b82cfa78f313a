//! The arguments of `belljar image`.

use clap::Subcommand;

/// What `image` does.
#[derive(Debug, Subcommand)]
pub enum Image {
    /// Build an image with more packages or languages; without any, the one that belljar has by default.
    Build(Build),
    /// List the images that belljar has built, and say which one sandboxes have.
    Ls,
    /// Have sandboxes made of this image from now on, as sandbox.image of your config.toml; `default` is belljar's own.
    Use {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove an image that belljar has built, and its lock.
    Rm {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Arguments of `image build`.
#[derive(Debug, clap::Args)]
pub struct Build {
    /// Add this package: `NAME`, `NAME==VERSION` or `NAME[EXTRA]>=VERSION`; may be given more than once.
    #[arg(long = "with", value_name = "PACKAGE", conflicts_with = "locked")]
    pub packages: Vec<String>,
    /// Add these languages: c, c++, javascript, php, ruby, with commas between them; all of them without a list.
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        default_missing_value = "all",
        value_delimiter = ',',
        conflicts_with = "locked"
    )]
    pub with_languages: Vec<String>,
    /// Build on this image; without, on the one that sandboxes have now.
    #[arg(long, value_name = "BASE", conflicts_with = "locked")]
    pub from: Option<String>,
    /// What to call it; without, after what is added.
    #[arg(long, value_name = "NAME", conflicts_with = "locked")]
    pub name: Option<String>,
    /// Build this image again, with exactly the packages that its lock has.
    #[arg(long, value_name = "NAME")]
    pub locked: Option<String>,
    /// Have sandboxes made of it right away.
    #[arg(long = "use")]
    pub use_it: bool,
}
