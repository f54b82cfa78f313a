//! `belljar uninstall --all`: removes what belljar has put on this machine, and names what stays.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use belljar_base::text;
use belljar_engine::{Choice, EngineError, EngineLocations, ImageStore, find_images};

use super::import::USAGE;
use super::install::{registered_clients, shown, uninstall};
use crate::app::common::printing::{err, is_confirmed, is_terminal, out};
use crate::app::images;
use crate::app::one_bridge::Place;
use crate::cli;
use crate::config::{Config, Environment};

/// Folders of caches. Others in the same place are not belljar's.
const CACHES: [&str; 5] = ["catalog", "learned", "owners", "runtime", "vectors"];

/// Shows what is removed and what stays, asks, and removes it. A failure does not stop the rest.
pub(crate) async fn uninstall_all(
    config: &Config,
    environment: &Environment,
    arguments: &cli::Uninstall,
) -> ExitCode {
    let Some(clients) = registered_clients(config, environment, &arguments.name) else {
        return ExitCode::FAILURE;
    };
    let images = ImagesThere::find(config).await;
    let caches: Vec<PathBuf> =
        config.cache_dir.iter().flat_map(|dir| CACHES.map(|name| dir.join(name))).collect();
    let environments = config.engine.environments.clone();
    let there =
        caches.iter().chain(&environments).chain(&config.former_model_dir).filter(|folder| folder.is_dir());
    let folders: Vec<&PathBuf> = there.collect();

    let entries = clients.iter().map(|client| format!("the entry {} of {client}", arguments.name));
    // A container engine and the environments of this machine can both have one of a name.
    let place = |store: &Arc<dyn ImageStore>| text::inert_line(store.place());
    let found = images.names.iter().map(|(store, name)| format!("the image {name} in {}", place(store)));
    let own_place = Place::new(config);
    let locks = own_place.idle().map(Path::to_owned);
    let removed: Vec<String> = entries
        .chain(found)
        .chain(folders.iter().copied().chain(&locks).map(|folder| shown(folder)))
        .collect();
    list("belljar removes", &removed);
    list("These are yours and stay", &kept(config, environment));
    for problem in &images.unseen {
        err!("belljar: {problem}");
    }
    let afterwards = "Entries in projects stay (`belljar uninstall --client NAME --project` in each), and so does this program, which \
        the package manager removes that has installed it.";
    if removed.is_empty() || arguments.dry_run {
        out!("{afterwards}");
        return ExitCode::SUCCESS;
    }
    if !arguments.yes && !is_terminal() {
        err!("belljar: nothing was removed, since nobody can be asked here; --yes answers for you");
        return ExitCode::from(USAGE);
    }
    if !arguments.yes && !is_confirmed("Remove this? [y/N] ") {
        out!("nothing was removed");
        return ExitCode::FAILURE;
    }

    let mut code = match clients.is_empty() {
        true => ExitCode::SUCCESS,
        false => uninstall(environment, &cli::Uninstall { clients, ..arguments.clone() }),
    };
    for (store, name) in &images.names {
        match store.remove_image(name).await {
            Ok(()) => out!("removed the image {name} in {}", place(store)),
            Err(error) => {
                err!("belljar: the image {name} stays: {}", text::inert_line(&error.to_string()));
                code = ExitCode::FAILURE;
            }
        }
    }
    for folder in folders.into_iter().chain(&locks) {
        let removed = if Some(folder) == locks.as_ref() {
            own_place.remove_idle()
        } else if environments.as_ref() == Some(folder) {
            // Those in use, or under construction, are still there.
            fs::remove_dir(folder)
        } else {
            fs::remove_dir_all(folder)
        };
        match removed {
            Ok(()) => out!("removed {}", shown(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                err!("belljar: {} stays: {error}", shown(folder));
                code = ExitCode::FAILURE;
            }
        }
        // Only the folder that is empty now goes, too. That of locks lies in one of the system.
        let _ = folder.parent().filter(|_| Some(folder) != locks.as_ref()).map(fs::remove_dir);
    }
    out!("{afterwards}");
    code
}

/// The images and environments that belljar has built.
struct ImagesThere {
    names: Vec<(Arc<dyn ImageStore>, String)>,
    /// What could not be looked at.
    unseen: Vec<String>,
}

impl ImagesThere {
    async fn find(config: &Config) -> Self {
        let mut there = Self { names: vec![], unseen: vec![] };
        let mut stores: Vec<Arc<dyn ImageStore>> = Vec::new();
        let process = EngineLocations { choice: Choice::Process, ..config.engine.clone() };
        let has_environments = config.engine.environments.as_ref().is_some_and(|dir| dir.is_dir());
        let of_fleet = config.engine.each();
        for locations in of_fleet.iter().chain(Some(&process).filter(|_| has_environments)) {
            match find_images(locations, &config.lock_dir).await {
                // Without a container engine, both are the same.
                Ok(store) if stores.iter().any(|known| known.place() == store.place()) => {}
                Ok(store) => stores.push(store),
                Err(error) => there.unseen(&error),
            }
        }
        for store in stores {
            match images::built_by_belljar(&*store).await {
                Ok(names) => there.names.extend(names.into_iter().map(|name| (Arc::clone(&store), name))),
                Err(error) => there.unseen(&error),
            }
        }
        there
    }

    fn unseen(&mut self, error: &EngineError) {
        self.unseen.push(format!(
            "images are not looked at, so they stay: {}",
            text::inert_line(&error.to_string())
        ));
    }
}

/// What belongs to the user, as far as it exists.
fn kept(config: &Config, environment: &Environment) -> Vec<String> {
    let settings = environment.config_home().map(|home| home.join("belljar"));
    let entries = environment.home.as_ref().map(|home| home.join("MCPs"));
    let saved = config.owner.workspaces().parent().map(Path::to_owned);
    let saved = saved.filter(|saved| entries.as_ref() != Some(saved));
    let places = [
        (entries, "entries of servers, saved functions, workspaces, handed-over files"),
        (saved, "saved functions, workspaces, handed-over files"),
        (settings, "settings, policy, locks of images"),
        (
            config.own_state_dir.clone(),
            "logins, trust, tokens, the log of calls, sessions, backups of clients' files",
        ),
    ];
    let there = places.into_iter().filter_map(|(place, what)| Some((place?, what)));
    there
        .filter(|(place, _)| place.exists())
        .map(|(place, what)| format!("{} ({what})", shown(&place)))
        .collect()
}

fn list(head: &str, lines: &[String]) {
    match lines.is_empty() {
        true => out!("{head}: nothing"),
        false => out!("{head}:\n  {}", lines.join("\n  ")),
    }
}
