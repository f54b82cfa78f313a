//! Images with every language, or on another base, built by the program itself: once for each engine and content.
//!
//! They stay in the engine, so that later runs of the tests find them there.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::engines::cache;
use super::{Engine, Home};

/// What decides the image's content, beside the image below.
const FILES: [&str; 6] = [
    "Containerfile",
    "sandbox-image/install-packages.sh",
    "sandbox-image/install-languages.sh",
    "sandbox-image/keep-one-copy.py",
    "sandbox-image/finish-image.sh",
    "sandbox-image/lock-packages.py",
];
/// Where packages come from on this machine.
const SOURCES: [&str; 11] = [
    "PIP_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_CERT",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// A home in which images can be built.
pub fn building(engine: &Engine) -> Home {
    with_sources(Home::on(engine))
}

/// The home, with where packages come from.
pub fn with_sources(home: Home) -> Home {
    SOURCES.iter().fold(home, |home, name| match std::env::var(name) {
        Ok(value) => home.env(name, &value),
        Err(_) => home,
    })
}

/// A home whose sandboxes have every language.
pub fn with_languages(engine: &Engine) -> Home {
    kept(engine, "test-languages-", |_| Some(vec!["--with-languages"]), |_| ())
        .expect("it can always be built")
}

/// Packages that users add, which call the kernel in ways of their own: databases, compilers of code, images, documents.
const ADDED: [&str; 8] =
    ["--with", "duckdb", "--with", "numba", "--with", "opencv-python-headless", "--with", "lxml"];

/// A home whose sandboxes have packages that users often add.
pub fn with_added_packages(engine: &Engine) -> Home {
    kept(engine, "test-packages-", |_| Some(ADDED.to_vec()), |_| ()).expect("it can always be built")
}

/// A home whose sandboxes have torch, with the memory that it needs. The package takes gigabytes.
pub fn with_torch(engine: &Engine) -> Home {
    let home = kept(engine, "test-torch-", |_| Some(vec!["--with", "torch"]), |_| ())
        .expect("it can always be built");
    home.env("MCP_BRIDGE_MEMORY", "1g")
}

/// The base below, with older copies of two usual packages where distributions and official images have them.
const OLDER: &str = "localhost/belljar-test-older:1";
/// The older matplotlib has a file that hides the 3-D plots of the newer copy. Nothing lists the older pandas' files.
const OLDER_FILES: [(&str, &str); 6] = [
    ("older/matplotlib-3.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: matplotlib\nVersion: 3.0\n"),
    (
        "older/matplotlib-3.0.dist-info/RECORD",
        "matplotlib/__init__.py,,\nmpl_toolkits/__init__.py,,\nmatplotlib-3.0.dist-info/METADATA,,\n\
         matplotlib-3.0.dist-info/RECORD,,\n",
    ),
    ("older/matplotlib/__init__.py", "raise ImportError('the older copy')\n"),
    ("older/mpl_toolkits/__init__.py", ""),
    ("older/pandas-1.5.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: pandas\nVersion: 1.5.3\n"),
    ("older/pandas_of_1_5.py", ""),
];

/// A home whose sandboxes are of an image that is built on one that is not belljar's: what the sandbox image is built on itself,
/// where this engine has that, with older copies of two packages.
pub fn on_another_base(engine: &Engine) -> Option<Home> {
    let older = |base: &str| {
        let recipe = format!(
            "FROM {base}\nCOPY older/ /usr/lib/python3/dist-packages/\nCOPY older/ /usr/local/lib/python3.14/site-packages/\n"
        );
        let files = [&[("Dockerfile", &*recipe)], &OLDER_FILES[..]].concat();
        if !engine.has_image(OLDER) {
            engine.build_image(OLDER, &files);
        }
        vec!["--from", OLDER, "--with", "ptyprocess"]
    };
    let says = |said: &str| {
        for (copy, what) in [
            ("matplotlib 3.0 in /usr/", "was removed: code imports 3."),
            ("pandas 1.5.3 in /usr/", "stays there, too, since nobody lists its files: code imports 3."),
        ] {
            let line = said.lines().find(|line| line.starts_with(copy));
            assert!(line.is_some_and(|line| line.contains(what)), "{said}");
        }
    };
    kept(engine, "test-from-", |base| engine.has_image(base).then(|| older(base)), says)
}

/// A home whose sandboxes are of an image with such a name, built with these arguments: they are told what the sandbox image is
/// built on. What the build says is checked.
fn kept(
    engine: &Engine,
    prefix: &str,
    arguments: impl Fn(&str) -> Option<Vec<&str>>,
    says: impl Fn(&str),
) -> Option<Home> {
    let home = building(engine);
    // Two tests must not build the same at once.
    let lock = File::create(cache().join(format!("test-image-{}.lock", engine.name))).unwrap();
    lock.lock().unwrap();
    let listed = home.run(&["image", "ls"]).stdout;
    let below = listed.lines().find(|line| line.contains(" default ")).expect("the sandbox image is there");
    let base = below.rsplit_once("  on ").map(|(_, base)| base.to_owned()).unwrap_or_default();
    let arguments = arguments(&base)?;
    let mut hasher = DefaultHasher::new();
    below.trim_start_matches('*').hash(&mut hasher);
    let of_process: &[&str] = if engine.is_process() { &super::environments::FILES } else { &[] };
    for file in FILES.iter().chain(of_process) {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap().hash(&mut hasher);
    }
    let name = format!("{prefix}{:016x}", hasher.finish());
    let known: Vec<&str> = listed.split_whitespace().filter(|word| word.starts_with(prefix)).collect();
    if !known.contains(&name.as_str()) {
        for other in known {
            // One that a sandbox of another checkout has stays.
            home.run(&["image", "rm", other]);
        }
        let built = home.run(&[&["image", "build", "--name", &name], &*arguments].concat());
        assert_eq!(built.code, Some(0), "{}", built.stderr);
        says(&built.stdout);
    }
    Some(home.env("MCP_BRIDGE_IMAGE", &format!("localhost/belljar/{name}:latest")))
}
