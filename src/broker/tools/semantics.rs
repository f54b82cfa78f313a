//! Search by meaning: computes the tools' vectors in the background, and encodes queries once all tools have vectors.
//!
//! It ranks nothing, and no reply waits for missing vectors. The first search that can use the encoder loads it, and it
//! is unloaded when no search has used it for a while.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::tool_index::ToolIndex;
use super::vector_cache::{CachedVectors, TextHash, VectorCache, text_hash};
use crate::catalog::{Catalog, ServerTools, Vectors, respelt, tool_text};
use crate::encoder::Encoder;
use crate::limits::Limits;

/// Encodes queries, and tools in the background.
pub(in crate::broker) struct Semantics {
    /// The shared state; `None`: search by meaning is off.
    shared: Option<Arc<SharedState>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The state that searches share with the background task that encodes tools.
struct SharedState {
    /// The model's folder; it may appear at any time.
    model: PathBuf,
    cache: Option<VectorCache>,
    tool_index: Arc<ToolIndex>,
    /// Held while the encoder is loaded, and only by blocking threads.
    loading: Mutex<()>,
    /// Held only for short times.
    state: Mutex<EncoderState>,
    closing: CancellationToken,
    idle_max: Duration,
}

/// The encoder, and whether tools are being encoded.
#[derive(Default)]
struct EncoderState {
    slot: EncoderSlot,
    /// Whether tools are being encoded.
    is_encoding: bool,
}

/// The encoder, if it is loaded.
#[derive(Default)]
enum EncoderSlot {
    #[default]
    Empty,
    Loaded {
        encoder: Arc<Encoder>,
        used: Instant,
        /// Whether a task waits to unload it.
        is_watched: bool,
    },
    /// The encoder could not be loaded, and the reason was logged. The next bridge tries again.
    Refused,
}

/// The vector of a query, or the reason for which there is no vector yet.
enum QueryVector {
    /// The vector of the query. Every tool that the search may find has a vector, too.
    Vector(Vec<f32>),
    /// Some tools have no vector yet.
    Lacking,
    /// No encoder is installed.
    NoEncoder,
}

impl Semantics {
    /// `model`: the folder of the model; `None`: search by meaning is off. `cache`: the folder of cached vectors.
    pub(in crate::broker) fn new(
        model: Option<PathBuf>,
        cache: Option<PathBuf>,
        tool_index: Arc<ToolIndex>,
        limits: &Limits,
    ) -> Self {
        let shared = model.map(|model| {
            Arc::new(SharedState {
                model,
                cache: cache.map(|dir| VectorCache::new(dir, limits)),
                tool_index,
                loading: Mutex::default(),
                state: Mutex::default(),
                closing: CancellationToken::new(),
                idle_max: limits.encoder_idle,
            })
        });
        Self { shared, tasks: Mutex::default() }
    }

    /// The vector of a query; `None`: the search has to use words only. If vectors of tools in the catalog are missing,
    /// their computation begins. Waits for the disk and for the encoding of one sentence only. Must be called inside a
    /// tokio runtime.
    pub(in crate::broker) async fn vector(&self, catalog: &Catalog, query: &str) -> Option<Vec<f32>> {
        // An empty query lists everything, without ranking.
        let shared = self.shared.as_ref().filter(|_| !query.trim().is_empty())?;
        let (asked, catalog, query) = (Arc::clone(shared), catalog.clone(), query.to_owned());
        let ready = tokio::task::spawn_blocking(move || asked.ready(&catalog, &query)).await;
        self.watch(shared);
        match ready {
            Ok(QueryVector::Vector(vector)) => Some(vector),
            Ok(QueryVector::Lacking) => {
                self.begin(shared);
                None
            }
            Ok(QueryVector::NoEncoder) => None,
            Err(error) => {
                tracing::error!(%error, "the encoder broke; searches go by words");
                shared.state.lock().slot = EncoderSlot::Refused;
                None
            }
        }
    }

    /// Ends all background tasks; finished vectors are cached.
    pub(in crate::broker) async fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.closing.cancel();
        }
        let mut tasks = std::mem::take(&mut *self.tasks());
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a task that encodes tools broke");
            }
        }
    }

    /// Begins to encode the tools without vectors, unless that is in progress.
    fn begin(&self, shared: &Arc<SharedState>) {
        let is_encoding = std::mem::replace(&mut shared.state.lock().is_encoding, true);
        if is_encoding || shared.closing.is_cancelled() {
            return;
        }
        let shared = Arc::clone(shared);
        self.tasks().spawn_blocking(move || shared.encode_tools());
    }

    /// Starts the task that unloads an idle encoder.
    fn watch(&self, shared: &Arc<SharedState>) {
        let is_new = match &mut shared.state.lock().slot {
            EncoderSlot::Loaded { is_watched, .. } => !std::mem::replace(is_watched, true),
            EncoderSlot::Empty | EncoderSlot::Refused => false,
        };
        if is_new && !shared.closing.is_cancelled() {
            let shared = Arc::clone(shared);
            self.tasks().spawn(async move { shared.give_up_idle_encoder().await });
        }
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks
    }
}

impl SharedState {
    fn ready(&self, catalog: &Catalog, query: &str) -> QueryVector {
        let Some(encoder) = self.encoder() else { return QueryVector::NoEncoder };
        let lacking: Vec<&Arc<ServerTools>> =
            catalog.servers().iter().filter(|server| !server.has_vectors()).collect();
        if !lacking.is_empty() {
            // The task that encodes tools also loads cached vectors. So nothing is loaded here while the task runs, nor
            // after the first server whose vectors are not all cached.
            let is_encoding = self.state.lock().is_encoding;
            if is_encoding || !lacking.into_iter().all(|server| self.take_kept(&encoder, server)) {
                return QueryVector::Lacking;
            }
        }
        match encoder.encode(&respelt(catalog, query)) {
            Ok(vector) => QueryVector::Vector(vector),
            Err(error) => {
                tracing::warn!(%error, "a search goes by words");
                QueryVector::NoEncoder
            }
        }
    }

    /// The encoder, which is loaded if necessary; `None`: there is no usable model.
    fn encoder(&self) -> Option<Arc<Encoder>> {
        let _one_at_a_time = self.loading.lock();
        match &mut self.state.lock().slot {
            EncoderSlot::Loaded { encoder, used, .. } => {
                *used = Instant::now();
                return Some(Arc::clone(encoder));
            }
            EncoderSlot::Refused => return None,
            EncoderSlot::Empty => {}
        }
        if !self.model.is_dir() {
            return None;
        }
        let (slot, encoder) = match Encoder::load(&self.model) {
            Ok(encoder) => {
                let encoder = Arc::new(encoder);
                let loaded = Arc::clone(&encoder);
                (EncoderSlot::Loaded { encoder, used: Instant::now(), is_watched: false }, Some(loaded))
            }
            Err(error) => {
                let model = self.model.display();
                tracing::warn!(%error, %model, "the sentence encoder cannot be used; searches go by words");
                (EncoderSlot::Refused, None)
            }
        };
        self.state.lock().slot = slot;
        encoder
    }

    /// Loads the cached vectors of a server. Returns whether each of its tools has a vector now.
    fn take_kept(&self, encoder: &Encoder, server: &ServerTools) -> bool {
        let kept = self.kept(encoder, server);
        let texts = server.listed().iter().map(|tool| text_hash(&tool_text(server, tool)));
        let numbers: Option<Vec<&Vec<f32>>> = texts.map(|hash| kept.by_text.get(&hash)).collect();
        let numbers = numbers.map(|numbers| numbers.into_iter().flatten().copied().collect());
        if let Some(vectors) = numbers.and_then(|numbers| Vectors::new(encoder.dimensions(), numbers)) {
            server.set_vectors(vectors);
        }
        server.has_vectors()
    }

    /// Encodes the tools without vectors, server by server, including servers that are added meanwhile.
    fn encode_tools(&self) {
        let _encoding = Encoding(self);
        loop {
            let catalog = self.tool_index.catalog();
            let lacking = catalog.servers().iter().find(|server| !server.has_vectors());
            let (Some(server), Some(encoder)) = (lacking, self.encoder()) else { return };
            if let Err(end) = self.encode_server(&encoder, server) {
                tracing::debug!(server = %server.name, end, "no more tools are encoded");
                return;
            }
        }
    }

    /// Encodes the tools of a server whose vectors are not cached, and caches the vectors, even if it is cancelled in
    /// between.
    fn encode_server(&self, encoder: &Encoder, server: &ServerTools) -> Result<(), String> {
        let mut kept = self.kept(encoder, server);
        let texts: Vec<String> = server.listed().iter().map(|tool| tool_text(server, tool)).collect();
        let hashes: Vec<TextHash> = texts.iter().map(|text| text_hash(text)).collect();
        // Drops the vectors of tools that the server no longer has.
        kept.by_text.retain(|hash, _| hashes.contains(hash));
        let before = kept.by_text.len();
        let mut end = Ok(());
        for (text, hash) in texts.iter().zip(&hashes) {
            if self.closing.is_cancelled() {
                end = Err("belljar ends".to_owned());
                break;
            }
            if !kept.by_text.contains_key(hash) {
                match encoder.encode(text) {
                    Ok(vector) => drop(kept.by_text.insert(*hash, vector)),
                    Err(error) => {
                        end = Err(error.to_string());
                        break;
                    }
                }
            }
        }
        if kept.by_text.len() > before {
            self.keep(server, &kept);
        }
        end?;
        let numbers = hashes.iter().filter_map(|hash| kept.by_text.get(hash)).flatten().copied().collect();
        let vectors = Vectors::new(encoder.dimensions(), numbers).ok_or("its vectors are no numbers")?;
        server.set_vectors(vectors);
        if server.has_vectors() { Ok(()) } else { Err("a vector is missing".to_owned()) }
    }

    fn kept(&self, encoder: &Encoder, server: &ServerTools) -> CachedVectors {
        let (model, dimensions) = (encoder.model(), encoder.dimensions());
        let key = self.tool_index.key(&server.name);
        match key.zip(self.cache.as_ref()) {
            Some((key, cache)) => cache.read(&key, model, dimensions),
            None => CachedVectors { model: model.to_owned(), dimensions, by_text: HashMap::new() },
        }
    }

    fn keep(&self, server: &ServerTools, kept: &CachedVectors) {
        let Some((key, cache)) = self.tool_index.key(&server.name).zip(self.cache.as_ref()) else { return };
        if let Err(error) = cache.write(&key, kept, &self.tool_index.keys()) {
            tracing::warn!(server = %server.name, %error, "vectors of tools are not kept for later");
        }
    }

    /// Waits until the encoder has been idle for a while, and unloads it, since the encoder takes many times the memory
    /// of the rest of the bridge.
    async fn give_up_idle_encoder(&self) {
        loop {
            let until = match &mut self.state.lock().slot {
                EncoderSlot::Loaded { used, .. } => *used + self.idle_max,
                EncoderSlot::Empty | EncoderSlot::Refused => return,
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.closing.cancelled() => return,
            }
            let mut state = self.state.lock();
            if matches!(&state.slot, EncoderSlot::Loaded { used, .. } if *used + self.idle_max <= Instant::now())
            {
                state.slot = EncoderSlot::Empty;
                return;
            }
        }
    }
}

/// Marks the encoding of tools as ended when it is dropped.
struct Encoding<'w>(&'w SharedState);

impl Drop for Encoding<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_encoding = false;
    }
}

#[cfg(all(test, feature = "semantic"))]
#[path = "semantics_tests.rs"]
mod tests;
