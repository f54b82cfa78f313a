//! Chooses among several engines that the operator names, for each new session.
//!
//! Nothing is scheduled here: an engine itself knows its sandboxes, also those of other bridges. This process remembers
//! which engines have failed a moment ago, which it has just chosen, and how much memory each has.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future::join_all;
use parking_lot::Mutex;

use super::super::error::{EngineError, with_causes};
use super::super::images::ImageStore;
use super::super::owner::OWNER;
use super::find::{ContainerEngine, EngineLocations, connect_to};

/// How long an engine that has failed is left out, unless no other one is there.
const LEFT_OUT: Duration = Duration::from_secs(60);
/// The longest time of one look at an engine.
const LOOK: Duration = Duration::from_secs(10);
/// The time until a sandbox of an engine that was chosen is sure to be among the engine's own.
const APPEARING: Duration = Duration::from_secs(1);
/// The beginning of the labels that describe the content of an image, and the one that differs between equal images.
const LABELS: &str = "org.belljar.";
const BUILD_LABEL: &str = "org.belljar.build";

static REMEMBERED: Mutex<BTreeMap<String, Remembered>> = Mutex::new(BTreeMap::new());

/// What this process remembers of an engine.
#[derive(Default)]
struct Remembered {
    failed: Option<(Instant, String)>,
    chosen: Vec<Instant>,
    memory_bytes: Option<u64>,
    recipe: Option<BTreeMap<String, String>>,
}

/// An engine of several, as it is now.
#[derive(Debug)]
pub struct FleetMember {
    /// The address by which the operator names it.
    pub address: String,
    /// The number of sandboxes on it, of all bridges.
    pub sandboxes: usize,
    /// The memory of its machine, in bytes.
    pub memory_bytes: u64,
    engine: ContainerEngine,
    /// The description of the image that its sandboxes would have.
    recipe: BTreeMap<String, String>,
}

/// Looks at all these engines at once. The order stays. An error says why an engine is not used: it does not answer,
/// has no image, or its image has other packages than that of the first engine of the list that this process has seen.
pub async fn survey(
    addresses: &[String],
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Vec<Result<FleetMember, (String, String)>> {
    let looks = addresses.iter().map(async |address| {
        let looked = tokio::time::timeout(LOOK, look(address, locations, images, sockets)).await;
        let looked = looked.unwrap_or_else(|_| Err(format!("did not answer within {} s", LOOK.as_secs())));
        looked.map_err(|reason| {
            let said = reason.strip_prefix(&format!("{address}: ")).unwrap_or(&reason);
            (address.clone(), said.to_owned())
        })
    });
    let mut members = join_all(looks).await;
    let first = first_recipe(locations.fleet());
    for member in &mut members {
        if let (Ok(FleetMember { address, recipe, .. }), Some((first, of_first))) = (&*member, &first)
            && recipe != of_first
        {
            let reason = format!(
                "its image has other packages than the image of {first}; `belljar image build` builds it on every engine"
            );
            *member = Err((address.clone(), reason));
        }
    }
    members
}

/// The engine for a new session: of those that answer and have the same image, the one with the fewest sandboxes for its
/// memory. The sentences name the engines that are left out, with the reason.
///
/// # Errors
/// [`EngineError::NoEngine`] names all of them.
pub(crate) async fn choose(
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Result<(ContainerEngine, Vec<String>), EngineError> {
    let all = locations.fleet();
    let (mut resting, mut asked) = (Vec::new(), Vec::new());
    for address in all {
        match recent_failure(address) {
            Some(reason) => resting.push((address.clone(), reason)),
            None => asked.push(address.clone()),
        }
    }
    let mut members = survey(&asked, locations, images, sockets).await;
    // None is left: those that have failed before may be back.
    if members.iter().all(Result::is_err) {
        let again: Vec<String> = resting.drain(..).map(|(address, _)| address).collect();
        members.extend(survey(&again, locations, images, sockets).await);
    }
    let mut found = Vec::new();
    for member in members {
        match member {
            Ok(member) => found.push(member),
            Err((address, reason)) => {
                leave_out(&address, &reason);
                resting.push((address, reason));
            }
        }
    }
    let left_out: Vec<String> = resting
        .iter()
        .map(|(address, reason)| format!("the engine {address} is left out: {reason}"))
        .collect();
    let facts = found.iter().map(|member| (member.address.as_str(), member.sandboxes, member.memory_bytes));
    match least_loaded(facts) {
        Some(place) => Ok((found.swap_remove(place).engine, left_out)),
        None => {
            let tried = resting.into_iter().map(|(address, reason)| format!("{address}: {reason}")).collect();
            Err(EngineError::NoEngine { tried, choice: locations.choice.clone(), is_named: true })
        }
    }
}

/// The first of these engines whose image is known, and its description. It counts also while the engine does not answer:
/// a session must not go on with other packages.
fn first_recipe(addresses: &[String]) -> Option<(String, BTreeMap<String, String>)> {
    let remembered = REMEMBERED.lock();
    addresses.iter().find_map(|address| Some((address.clone(), remembered.get(address)?.recipe.clone()?)))
}

/// Leaves out an engine for a minute, for this reason, where there are several.
pub fn leave_out(address: &str, reason: &str) {
    let mut remembered = REMEMBERED.lock();
    remembered.entry(address.to_owned()).or_default().failed = Some((Instant::now(), reason.to_owned()));
}

fn recent_failure(address: &str) -> Option<String> {
    let remembered = REMEMBERED.lock();
    let (at, reason) = remembered.get(address)?.failed.as_ref()?;
    (at.elapsed() < LEFT_OUT).then(|| reason.clone())
}

/// The place of the first engine with the fewest sandboxes for its memory. Each engine is an address, a number of sandboxes
/// and a number of bytes. One that was just chosen counts as one more sandbox, so that sessions that begin at the same time
/// are spread.
fn least_loaded<'a>(engines: impl Iterator<Item = (&'a str, usize, u64)>) -> Option<usize> {
    let mut remembered = REMEMBERED.lock();
    let loads = engines.map(|(address, sandboxes, memory_bytes)| {
        let chosen = &mut remembered.entry(address.to_owned()).or_default().chosen;
        chosen.retain(|at| at.elapsed() < APPEARING);
        ((sandboxes + chosen.len()) as f64 / memory_bytes.max(1) as f64, address)
    });
    let least = loads.enumerate().min_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other));
    let (place, (_, address)) = least?;
    remembered.entry(address.to_owned()).or_default().chosen.push(Instant::now());
    Some(place)
}

async fn look(
    address: &str,
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Result<FleetMember, String> {
    let engine = connect_to(address, None, locations, sockets).await?;
    let (sandboxes, memory_bytes, recipe) =
        tokio::join!(running(&engine), memory(address, &engine), recipe(&engine, images));
    let recipe = recipe?;
    REMEMBERED.lock().entry(address.to_owned()).or_default().recipe = Some(recipe.clone());
    Ok(FleetMember {
        address: address.to_owned(),
        sandboxes: sandboxes?,
        memory_bytes: memory_bytes?,
        engine,
        recipe,
    })
}

/// The number of sandboxes that run, of all bridges.
async fn running(engine: &ContainerEngine) -> Result<usize, String> {
    let filters =
        [("label", vec![OWNER]), ("status", vec!["running"])].into_iter().collect::<HashMap<_, _>>();
    let options = ListContainersOptionsBuilder::default().filters(&filters).build();
    let listed = engine.docker.list_containers(Some(options)).await;
    listed.map(|containers| containers.len()).map_err(|error| with_causes(&error))
}

/// The memory of the engine's machine, asked once: it takes half a second on Podman.
async fn memory(address: &str, engine: &ContainerEngine) -> Result<u64, String> {
    let known = REMEMBERED.lock().get(address).and_then(|engine| engine.memory_bytes);
    if let Some(bytes) = known {
        return Ok(bytes);
    }
    let info = engine.docker.info().await.map_err(|error| with_causes(&error))?;
    let bytes = info.mem_total.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
    REMEMBERED.lock().entry(address.to_owned()).or_default().memory_bytes = Some(bytes);
    Ok(bytes)
}

/// The labels that describe the first of these images that exists. Images of others have none.
async fn recipe(engine: &ContainerEngine, images: &[String]) -> Result<BTreeMap<String, String>, String> {
    let missing = || "it has no image for sandboxes, which `belljar image build` builds".to_owned();
    let said = |error: EngineError| error.to_string();
    let name = engine.image(images).await.map_err(|error| match error {
        EngineError::ImageMissing { .. } => missing(),
        other => other.to_string(),
    })?;
    let image = engine.about_image(&name).await.map_err(said)?.ok_or_else(missing)?;
    let describes = |name: &String| name.starts_with(LABELS) && name != BUILD_LABEL;
    Ok(image.labels.into_iter().filter(|(name, _)| describes(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_go_where_the_fewest_sandboxes_are_for_the_memory_also_many_at_once() {
        let choose = |engines: &[(&'static str, usize, u64)]| {
            least_loaded(engines.iter().copied()).map(|place| engines[place].0)
        };
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[("a1", 3, 8), ("a2", 2, 8), ("a3", 2, 8)]), Some("a2"));
        assert_eq!(choose(&[("b1", 3, 16), ("b2", 2, 8)]), Some("b1"));
        // None of these appears at its engine yet.
        let burst: Vec<_> = (0..8).map(|_| choose(&[("c1", 0, 24), ("c2", 0, 8)]).unwrap()).collect();
        let count = |address| burst.iter().filter(|chosen| **chosen == address).count();
        assert_eq!((count("c1"), count("c2")), (6, 2));
    }

    #[test]
    fn an_engine_that_failed_is_left_out_with_its_reason() {
        assert_eq!(recent_failure("d1"), None);
        leave_out("d1", "did not answer");
        assert_eq!(recent_failure("d1").as_deref(), Some("did not answer"));
    }
}
