//! Describes which settings have changed, and from when on they are in effect.
//!
//! It compares two configurations and reads no file.

use std::path::Path;

use super::load::Config;
use super::settings::definitions::{Definition, EffectTime, definitions};
use super::settings::resolve::Setting;

/// Describes the changed settings for the reader of a reply; `None`: no setting has changed. Values are not shown.
#[must_use]
pub fn edited_settings(before: &Config, after: &Config) -> Option<String> {
    let rows = definitions();
    let value = |config: &Config, row: &Definition| {
        let is_it = |setting: &&Setting| setting.name == row.name();
        config.settings.iter().find(is_it).and_then(|setting| setting.value.clone())
    };
    let edited: Vec<&Definition> =
        rows.iter().filter(|row| value(before, row) != value(after, row)).collect();
    let of = |counts: EffectTime, when: &str| {
        let names = edited.iter().filter(|row| row.counts == counts).map(|row| row.name());
        let mounts =
            (counts == EffectTime::NextSandbox && mounted(before) != mounted(after)).then_some("mount");
        let names = names.chain(mounts).collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("{names}{when}"))
    };
    let parts = [
        of(EffectTime::NextRun, ""),
        of(EffectTime::NextSandbox, " for the next sandbox"),
        of(EffectTime::NextServer, " for servers started from now on"),
        of(EffectTime::Restart, " once belljar is started again"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("the user has changed settings ({})", parts.join("; ")))
}

/// The mounted folders, without their positions in the file.
fn mounted(config: &Config) -> Vec<(&Path, &str, bool)> {
    config.mounts.iter().map(|mount| (mount.host.as_path(), mount.guest.as_str(), mount.writable)).collect()
}
