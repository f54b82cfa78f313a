//! The arguments of `belljar image`.

use clap::Subcommand;

/// The subcommands of `image`.
#[derive(Debug, Clone, Subcommand)]
pub enum Image {
    /// Build an image with additional packages or languages. Without any, build belljar's default image.
    Build(Build),
    /// Pull an image that belljar has built elsewhere. Without a reference, pull the published image, or build it if that fails.
    Pull(Pull),
    /// List the images that belljar has built, and mark the one that sandboxes use.
    Ls {
        /// Print JSON, one line for each image.
        #[arg(long)]
        json: bool,
    },
    /// Use this image for sandboxes: set sandbox.image in your config.toml. `default` is belljar's own image.
    Use {
        /// The name of the image.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove an image that belljar has built, and its lock file.
    Rm {
        /// The name of the image.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Arguments of `image build`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Build {
    /// Add this package: `NAME`, `NAME==VERSION` or `NAME[EXTRA]>=VERSION`; can be repeated.
    #[arg(long = "with", value_name = "PACKAGE", conflicts_with = "locked")]
    pub packages: Vec<String>,
    /// Add these languages, separated by commas: c, c++, javascript, php, ruby. Without a list, add all of them.
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        default_missing_value = "all",
        value_delimiter = ',',
        conflicts_with = "locked"
    )]
    pub with_languages: Vec<String>,
    /// The base image; without it, the one that sandboxes use now.
    #[arg(long, value_name = "BASE", conflicts_with = "locked")]
    pub from: Option<String>,
    /// The name of the new image; without it, a name made of the additions.
    #[arg(long, value_name = "NAME", conflicts_with = "locked")]
    pub name: Option<String>,
    /// Build this image again with exactly the packages of its lock file.
    #[arg(long, value_name = "NAME")]
    pub locked: Option<String>,
    /// Use the new image for sandboxes at once.
    #[arg(long = "use")]
    pub use_it: bool,
}

/// Arguments of `image pull`.
#[derive(Debug, Clone, clap::Args)]
pub struct Pull {
    /// The image in your registry, with its digest: `REGISTRY/NAME@sha256:DIGEST`.
    #[arg(value_name = "REFERENCE")]
    pub reference: Option<String>,
    /// Use the image for sandboxes at once.
    #[arg(long = "use")]
    pub use_it: bool,
}
