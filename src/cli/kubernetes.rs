//! The command line of `belljar kubernetes`.

use clap::Subcommand;

/// The largest number of characters of a DNS label, and so of a namespace.
const LABEL_MAX: usize = 63;
/// The largest number of characters of an image's name and of a host name, far above those in use.
const NAME_MAX: usize = 512;

/// The subcommands of `kubernetes`.
#[derive(Debug, Subcommand)]
pub enum Kubernetes {
    /// Print objects as YAML for `kubectl apply -f -`: a namespace for sandboxes, belljar's rights there, and a NetworkPolicy.
    /// With --image, add `belljar serve --http` as a Deployment.
    Manifests(Manifests),
}

/// Arguments of `kubernetes manifests`.
#[derive(Debug, clap::Args)]
pub struct Manifests {
    /// The namespace, which should hold nothing else.
    #[arg(long, value_name = "NAME", default_value = "belljar", value_parser = namespace)]
    pub namespace: String,
    /// The image of belljar for the Deployment: REGISTRY/NAME@sha256:DIGEST, or with a tag. Without it, there is no Deployment.
    #[arg(long, value_name = "IMAGE", requires = "sandbox_image", value_parser = image)]
    pub image: Option<String>,
    /// The image of sandboxes for the config.toml of the Deployment.
    #[arg(long, value_name = "IMAGE", requires = "image", value_parser = image)]
    pub sandbox_image: Option<String>,
    /// The host name by which clients reach the proxy in front of belljar, HOST or HOST:PORT; without it, that of the Service.
    #[arg(long, value_name = "HOST", requires = "image", value_parser = host)]
    pub host: Option<String>,
}

/// A namespace that belljar may have for itself.
fn namespace(name: &str) -> Result<String, &'static str> {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = (1..=LABEL_MAX).contains(&name.len())
        && name.starts_with(is_edge)
        && name.ends_with(is_edge)
        && name.chars().all(|c| is_edge(c) || c == '-');
    if !is_label {
        return Err("a namespace has at most 63 characters: a to z, 0 to 9 and -, and no - at its ends");
    }
    if name == "default" || name.starts_with("kube-") {
        return Err("the cluster itself uses this namespace; name one that only belljar uses");
    }
    Ok(name.to_owned())
}

/// A reference of an image, as far as its characters go.
fn image(name: &str) -> Result<String, &'static str> {
    of_characters(name, "._-/:@").ok_or(
        "an image is REGISTRY/NAME@sha256:DIGEST or REGISTRY/NAME:TAG, of letters, digits and the characters . _ - / : @",
    )
}

/// A host name, as far as its characters go.
fn host(name: &str) -> Result<String, &'static str> {
    of_characters(name, ".-:")
        .ok_or("a host is HOST or HOST:PORT, of letters, digits and the characters . - :")
}

/// The text if it begins with a letter or a digit, and has only these and `others`.
fn of_characters(text: &str, others: &str) -> Option<String> {
    let is_right = text.len() <= NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
    is_right.then(|| text.to_owned())
}
