//! Checks the paths that an entry gives its server. Refused are paths that differ between processes, places that
//! belljar mounts over, and paths whose target a server could have chosen.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text;
use belljar_confine::{Access, ChangeablePlaces, PlaceKind};

use super::follow::is_of_system;
use super::resolve::{ResolveError, resolve};
use super::surroundings::Surroundings;

/// Folders of which each confined server has its own, or that contain more than files.
const PLACES: [&str; 4] = ["/etc", "/run", "/tmp", "/var/tmp"];

const SHOWN_CHARS_MAX: usize = 200;

/// Resolves a path of an entry. The error tells why it cannot be given, and what to do.
pub(super) fn granted(
    path: &Path,
    access: Access,
    changeable: &ChangeablePlaces,
    at: &Surroundings<'_>,
) -> Result<ResolvedPath, String> {
    let key = if access == Access::Change { "write" } else { "read" };
    let shown = |path: &Path| text::name_in_sentence(&path.to_string_lossy(), SHOWN_CHARS_MAX);
    let named = format!("its sandbox.{key} names {}", shown(path));
    let narrower = "name the folders in it that the server needs";
    let way = resolve(path).map_err(|error| match error {
        ResolveError::Missing(what) => format!("{named}: {what}; create it, or change the entry"),
        ResolveError::OfKernel(place) => {
            let place = shown(&place);
            format!("{named}, which leads to {place}: nothing of /proc, /sys and /dev can be passed on")
        }
    })?;
    if let Some(link) = changeable.link_in(&way) {
        return Err(format!(
            "{named}, which goes through the symlink {}; confined servers can change that one, so name the real path",
            shown(link)
        ));
    }
    if let Some(link) = at.link_of_project(&way) {
        let link = shown(link);
        return Err(format!(
            "{named}, which goes through the project's symlink {link}; whoever sends the project chose where that leads, so \
             name the real path"
        ));
    }
    if let Some((place, why)) = way.chosen_by_others(nix::unistd::geteuid().as_raw()) {
        return Err(format!("{named}, which leads through {}, {why}", shown(place)));
    }
    let real = &way.end;
    let holds = |place: &&PathBuf| place.starts_with(real);
    // A path may be the server's own HOME if that differs from the user's, since the server may keep its files there.
    let homes = at.user_homes.iter().chain(at.homes.iter().filter(|home| *home != real));
    if let Some(home) = homes.into_iter().find(holds) {
        let home = shown(home);
        return Err(format!("{named}, which is or holds the HOME {home}; {narrower}"));
    }
    if is_of_system(real) && access == Access::Change {
        let real = shown(real);
        return Err(format!(
            "{named}, and no server can change {real}; programs of the machine are read-only"
        ));
    }
    if let Some(place) = PLACES.iter().find(|place| Path::new(place).starts_with(real)) {
        return Err(format!(
            "{named}, which is or holds {place}, of which the server has its own; {narrower}"
        ));
    }
    let kind = fs::symlink_metadata(real).map_err(|error| format!("{named}: {}", error.kind()))?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(format!("{named}, which is a device; devices cannot be passed on"));
    }
    // Since the entry was read, a link of the user may have been turned.
    if access == Access::Change
        && let Some((PlaceKind::Own, own)) = at.private.at_to_change(real)
    {
        return Err(format!("{named}, which would let the server change its own rights ({})", shown(&own)));
    }
    Ok(way)
}
