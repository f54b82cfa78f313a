//! Parses the text of each setting's value.
//!
//! It does not know where a value was written, nor what it is used for.

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_base::names::WorkspaceName;
use belljar_base::run::OutputMode;
use belljar_base::text;
use belljar_engine::{Choice, KubernetesSettings, User};
use belljar_protocol::{ExtraSystemCall, PostureField};
use belljar_tools::policy::Profile;
use tracing::level_filters::LevelFilter;

use super::choices::{Audit, ModelVia, Sampling, SandboxServers};
use crate::journal::JournalDetail;

/// Names of Python packages, as an import names them.
pub(crate) fn packages(text: &str) -> Result<Vec<String>, String> {
    let names = list(text);
    let is_name = |name: &str| {
        name.split('.').all(|part| {
            let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
            part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && part.chars().all(is_part)
        })
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("{} is no name of a package", text::name_in_sentence(name, 60))),
        None => Ok(names),
    }
}

/// The value in a form that a problem may repeat: short and on one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text::inert_excerpt(text, 60))
}

pub(crate) fn text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

/// A path that does not depend on the working folder.
pub(crate) fn whole_path(value: &str) -> Result<String, String> {
    match value.starts_with('/') || value.starts_with("~/") {
        true => Ok(value.to_owned()),
        false => Err(format!("is {}, which does not begin with / or ~/", quoted(value))),
    }
}

pub(crate) fn audit(value: &str) -> Result<Audit, String> {
    match value {
        "off" => Ok(Audit::Off),
        "hash" => Ok(Audit::Hash),
        "arguments" => Ok(Audit::Arguments),
        _ => Err(format!("is {}, neither off, hash nor arguments", quoted(value))),
    }
}

pub(crate) fn sandbox_servers(value: &str) -> Result<SandboxServers, String> {
    Ok(if switch(value)? { SandboxServers::Yes } else { SandboxServers::No })
}

pub(crate) fn journal(value: &str) -> Result<JournalDetail, String> {
    match value.to_ascii_lowercase().as_str() {
        "off" => Ok(JournalDetail::Off),
        "calls" => Ok(JournalDetail::Calls),
        "full" => Ok(JournalDetail::Full),
        _ => Err(format!("is {}, neither off, calls nor full", quoted(value))),
    }
}

pub(crate) fn profile(value: &str) -> Result<Profile, String> {
    match value {
        "open" => Ok(Profile::Open),
        "careful" => Ok(Profile::Careful),
        "read-only" => Ok(Profile::ReadOnly),
        _ => Err(format!("is {}, no profile", quoted(value))),
    }
}

pub(crate) fn workspace(value: &str) -> Result<WorkspaceName, String> {
    WorkspaceName::new(value).map_err(|error| error.to_string())
}

/// The items between commas, without empty ones.
pub(crate) fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The schemes of engines' addresses.
const ENGINE_SCHEMES: [&str; 3] = ["unix://", "tcp://", "ssh://"];

/// The address, or each address of a list, without its password and its query.
pub(super) fn without_secrets(value: &str) -> String {
    // A password can contain a comma.
    let begins =
        |at: usize| ENGINE_SCHEMES.iter().any(|scheme| value[at + 1..].trim_start().starts_with(scheme));
    if let Some((at, _)) = value.match_indices(',').find(|(at, _)| begins(*at)) {
        return format!("{},{}", without_secrets(&value[..at]), without_secrets(&value[at + 1..]));
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    if let Some((before, _)) = rest.split_once('?') {
        return format!("{}?…", without_secrets(&format!("{scheme}://{before}")));
    }
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match place.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{scheme}://{user}:…@{host}{path}"),
        None => value.to_owned(),
    }
}

pub(crate) fn seconds(value: &str, min: u64, max: u64) -> Result<Duration, String> {
    whole(value, min, max).map(Duration::from_secs)
}

pub(crate) fn whole(value: &str, min: u64, max: u64) -> Result<u64, String> {
    let number: u64 = value.parse().map_err(|_| format!("is {}, not a whole number", quoted(value)))?;
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!("is {number}, outside {min} to {max}"))
    }
}

/// A number up to `max`, or a switch for 1 and 0.
pub(crate) fn count(value: &str, max: u64) -> Result<u64, String> {
    switch(value).map_or_else(|_| whole(value, 0, max), |is_on| Ok(u64::from(is_on)))
}

/// Whether a switch is on.
pub(crate) fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("is {}, neither on nor off", quoted(value))),
    }
}

pub(crate) fn sampling(value: &str) -> Result<Sampling, String> {
    match value.to_ascii_lowercase().as_str() {
        "ask" => Ok(Sampling::Ask),
        "off" => Ok(Sampling::Off),
        _ => Err(format!("is {}, neither ask nor off", quoted(value))),
    }
}

pub(super) fn model_via(value: &str) -> Result<ModelVia, String> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(ModelVia::Auto),
        "endpoint" => Ok(ModelVia::Endpoint),
        "sampling" => Ok(ModelVia::Sampling),
        "off" => Ok(ModelVia::Off),
        _ => Err(format!("is {}, neither auto, endpoint, sampling nor off", quoted(value))),
    }
}

/// A size as Docker writes it: bytes, or with `k`, `m`, `g`, `t` (of 1024), optionally followed by `b` or `ib`.
pub(crate) fn size_bytes(value: &str) -> Result<u64, String> {
    const MIN: f64 = 64.0 * 1024.0 * 1024.0;
    const MAX: f64 = 1024.0 * 1024.0 * 1024.0 * 1024.0;
    let lower = value.to_ascii_lowercase();
    let digits_end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits_end);
    let factor = match unit.trim() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tb" | "tib" => MAX,
        _ => return Err(format!("is {}, not a size", quoted(value))),
    };
    let number: f64 = digits.parse().map_err(|_| format!("is {}, not a size", quoted(value)))?;
    let bytes = number * factor;
    if (MIN..=MAX).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("is {}, outside 64m to 1t", quoted(value)))
    }
}

/// A number of CPUs, in thousandths.
pub(crate) fn cpu_millis(value: &str) -> Result<u32, String> {
    let cpus: f64 = value.parse().map_err(|_| format!("is {}, not a number", quoted(value)))?;
    if (0.01..=1024.0).contains(&cpus) {
        Ok((cpus * 1000.0).round() as u32)
    } else {
        Err(format!("is {}, outside 0.01 to 1024", quoted(value)))
    }
}

/// The engine, or the addresses of several with commas.
pub(crate) fn engine(value: &str) -> Result<Choice, String> {
    let items = list(value);
    let has_scheme = |item: &String| ENGINE_SCHEMES.iter().any(|scheme| item.starts_with(scheme));
    if items.iter().all(has_scheme) && !items.is_empty() {
        if let Some(bare) = items.iter().find(|item| ENGINE_SCHEMES.contains(&item.as_str())) {
            return Err(format!("is {}, an address without a place", quoted(bare)));
        }
        if items.iter().any(|item| without_secrets(item) != *item) {
            return Err("has a password or a query in an address, which engines do not take".to_owned());
        }
        let unique: BTreeSet<&String> = items.iter().collect();
        return if unique.len() == items.len() {
            Ok(Choice::At(items))
        } else {
            Err("has one address twice".to_owned())
        };
    }
    if items.len() > 1 {
        return Err("is a list, which can have unix://, tcp:// and ssh:// addresses only".to_owned());
    }
    // Earlier versions accepted the path of an engine's command.
    match value.rsplit('/').next().unwrap_or(value).to_ascii_lowercase().as_str() {
        "auto" => Ok(Choice::Auto),
        "podman" => Ok(Choice::Podman),
        "docker" => Ok(Choice::Docker),
        "process" => Ok(Choice::Process),
        "kubernetes" => Ok(Choice::Kubernetes),
        // An address can carry a password: only its scheme is repeated.
        _ if value.contains("://") => Err(format!(
            "has the scheme {}, which is none of unix, tcp and ssh",
            quoted(value.split("://").next().unwrap_or(""))
        )),
        _ => Err(format!("is {}, no engine that is known", quoted(value))),
    }
}

/// The settings of a cluster, as JSON.
pub(crate) fn kubernetes(value: &str) -> Result<KubernetesSettings, String> {
    serde_json::from_str(value)
        .map_err(|error| format!("cannot be used: {}", text::inert_excerpt(&error.to_string(), 160)))
}

/// The longest name of an OCI runtime, in bytes.
const OCI_RUNTIME_BYTES_MAX: usize = 64;

/// A name that an engine's configuration may give to an OCI runtime; never a path.
pub(crate) fn oci_runtime(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = value.len() <= OCI_RUNTIME_BYTES_MAX
        && value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(is_plain);
    if is_name { Ok(value.to_owned()) } else { Err(format!("is {}, not a runtime's name", quoted(value))) }
}

pub(crate) fn container_user(value: &str) -> Result<Option<User>, String> {
    if value == "auto" {
        return Ok(None);
    }
    let numbers = value.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    match numbers {
        Some((0, _)) => Err("is uid 0: sandboxed code never runs as root".to_owned()),
        Some((uid, gid)) => Ok(Some(User { uid, gid })),
        None => Err(format!("is {}, neither auto nor a numeric uid:gid", quoted(value))),
    }
}

/// The properties of the sandbox that may be weaker. With an unknown name, none may be.
pub(crate) fn posture_fields(value: &str) -> Result<Vec<PostureField>, String> {
    list(value)
        .iter()
        .map(|name| {
            name.parse().map_err(|()| {
                let known: Vec<&str> = PostureField::ALL.iter().map(|field| field.name()).collect();
                format!("has {}, no field that is known; known are {}", quoted(name), known.join(", "))
            })
        })
        .collect()
}

pub(crate) fn extra_system_calls(value: &str) -> Result<Vec<ExtraSystemCall>, String> {
    list(value).iter().map(|name| name.parse()).collect()
}

pub(crate) fn output_mode(value: &str) -> Result<OutputMode, String> {
    match value.to_ascii_lowercase().as_str() {
        "compact" => Ok(OutputMode::Compact),
        "toon" => Ok(OutputMode::Toon),
        "json" => Ok(OutputMode::Json),
        _ => Err(format!("is {}, no output mode", quoted(value))),
    }
}

pub(crate) fn log_level(value: &str) -> Result<LevelFilter, String> {
    match value.to_ascii_lowercase().as_str() {
        "trace" => Ok(LevelFilter::TRACE),
        "debug" => Ok(LevelFilter::DEBUG),
        "info" | "notset" => Ok(LevelFilter::INFO),
        "warning" | "warn" => Ok(LevelFilter::WARN),
        "error" | "critical" | "fatal" => Ok(LevelFilter::ERROR),
        "off" => Ok(LevelFilter::OFF),
        _ => Err(format!("is {}, no log level", quoted(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_docker_reads_them() {
        let read = |text: &str| size_bytes(text).ok();
        assert_eq!(read("512m"), Some(512 << 20));
        assert_eq!(read("1.5G"), Some(3 << 29));
        assert_eq!(read("256 MiB"), Some(256 << 20));
        assert_eq!(read("104857600"), Some(104_857_600));
        for bad in ["0", "-1", "m", "1.2.3g", "512x", "1e9", "2t", "63m", "inf", "nan"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn engines_are_named_or_addressed() {
        assert_eq!(engine("Podman"), Ok(Choice::Podman));
        assert_eq!(engine("/usr/bin/docker"), Ok(Choice::Docker));
        assert_eq!(engine("process"), Ok(Choice::Process));
        assert_eq!(engine("kubernetes"), Ok(Choice::Kubernetes));
        assert_eq!(engine("ssh://me@box"), Ok(Choice::At(vec!["ssh://me@box".into()])));
        assert_eq!(engine("tcp://"), Err("is \"tcp://\", an address without a place".into()));
        assert_eq!(
            engine("http://user:pw@box"),
            Err("has the scheme \"http\", which is none of unix, tcp and ssh".into())
        );
        let several = ["ssh://me@box", "tcp://two:2376", "unix:///run/x.sock"];
        assert_eq!(engine(&several.join(", ")), Ok(Choice::At(several.map(str::to_owned).into())));
        assert_eq!(engine("tcp://a,tcp://a"), Err("has one address twice".into()));
        for secret in ["tcp://me:s3cret@a", "ssh://a,tcp://me:s3,cret@b:1", "tcp://a?token=s3cret"] {
            let said = engine(secret).unwrap_err();
            assert!(!said.contains("s3"), "{said}");
        }
        let mixed = "is a list, which can have unix://, tcp:// and ssh:// addresses only";
        for list in ["podman,docker", "podman,tcp://a", "tcp://a,http://user:pw@box"] {
            assert_eq!(engine(list), Err(mixed.into()), "{list}");
        }
        assert_eq!(engine("lxc"), Err("is \"lxc\", no engine that is known".into()));
    }

    #[test]
    fn what_may_be_weaker_is_named_field_by_field() {
        use PostureField::{Memory, Mounts};
        assert_eq!(posture_fields("memory, mounts,"), Ok(vec![Memory, Mounts]));
        assert_eq!(posture_fields(""), Ok(vec![]));
        assert_eq!(
            posture_fields("memory,all"),
            Err("has \"all\", no field that is known; known are uid, gid, groups, capabilities, no_new_privs, \
                 seccomp, root, mounts, masks, fds, kernel, interfaces, namespaces, rlimits, memory, pids, cpus, \
                 tracing, landlock"
                .into())
        );
    }

    #[test]
    fn an_address_is_shown_without_its_password_and_its_query() {
        assert_eq!(without_secrets("ssh://me:s3cret@box/run/x.sock"), "ssh://me:…@box/run/x.sock");
        assert_eq!(without_secrets("https://box/v1?token=s3cret://"), "https://box/v1?…");
        let list = "ssh://me:s3,cret@box,tcp://you:s3cret@two:1,unix:///x";
        assert_eq!(without_secrets(list), "ssh://me:…@box,tcp://you:…@two:1,unix:///x");
        for plain in ["auto", "unix:///run/podman.sock", "ssh://me@box", "tcp://box:2375"] {
            assert_eq!(without_secrets(plain), plain);
        }
    }

    #[test]
    fn cpus_are_thousandths() {
        assert_eq!(cpu_millis("1.5"), Ok(1500));
        assert_eq!(cpu_millis("0"), Err("is \"0\", outside 0.01 to 1024".into()));
        assert_eq!(cpu_millis("NaN"), Err("is \"NaN\", outside 0.01 to 1024".into()));
    }

    #[test]
    fn a_sandbox_user_is_two_numbers_and_never_root() {
        assert_eq!(oci_runtime("io.containerd.kata.v2"), Ok("io.containerd.kata.v2".into()));
        for bad in ["", "/usr/bin/runsc", "-x", "a b", &"a".repeat(65)] {
            assert!(oci_runtime(bad).is_err(), "{bad}");
        }
        assert_eq!(container_user("auto"), Ok(None));
        assert_eq!(container_user("1000:0"), Ok(Some(User { uid: 1000, gid: 0 })));
        assert_eq!(container_user("0:0"), Err("is uid 0: sandboxed code never runs as root".into()));
        assert_eq!(container_user("nobody"), Err("is \"nobody\", neither auto nor a numeric uid:gid".into()));
    }
}
