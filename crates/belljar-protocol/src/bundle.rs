//! The bundle, which a sandbox reads before any frame: the Python runtime. It is embedded, so that both ends always have
//! the same version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::from_sandbox::RuntimeCode;
use super::to_sandbox::write_json;

/// The code for `python3 -c`, which reads the bundle and runs it.
pub const BOOTSTRAP: &str = include_str!("../entrypoint/bootstrap.py");

/// The same where the bundle comes from another machine: the sandbox's end of a stream that outlives its connections is in
/// front of it.
pub const REMOTE_BOOTSTRAP: &str = concat!(
    include_str!("../entrypoint/remote/stream.py"),
    "\n\n",
    include_str!("../entrypoint/bootstrap.py")
);

/// The code for `python3 -c` of a relay, which joins its stdin and stdout with that stream.
pub const RELAY: &str = include_str!("../entrypoint/remote/relay.py");

/// The module whose `main()` becomes PID 1.
const MAIN: &str = "belljar_sandbox.boot.main";

/// The source files by path.
static FILES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    // The list is made by build.rs.
    BTreeMap::from(include!(concat!(env!("OUT_DIR"), "/runtime_files.rs")))
});

/// What a new sandbox reads first: all files of the runtime, and compiled code.
#[must_use]
pub fn runtime_bundle(code: BundleCode<'_>) -> Vec<u8> {
    bundle(&FILES, MAIN, code)
}

/// The names of the runtime's modules, such as `mcp.servers`.
pub fn runtime_modules() -> impl Iterator<Item = String> {
    FILES.keys().map(|path| {
        let path = path.strip_suffix(".py").unwrap_or(path);
        path.strip_suffix("/__init__").unwrap_or(path).replace('/', ".")
    })
}

/// The compiled code that a bundle has or wants.
#[derive(Debug, Clone, Copy)]
pub enum BundleCode<'a> {
    /// No, and the bridge does not store any.
    None,
    /// Not yet: the sandbox is asked for it.
    Wanted,
    /// Yes.
    Stored(&'a RuntimeCode),
}

/// The bundle: a header in one line, then the content. The header names the module whose `main()` is called, and gives
/// the place of each source file and each compiled module in the content.
fn bundle(files: &BTreeMap<&str, &str>, main: &str, code: BundleCode<'_>) -> Vec<u8> {
    /// The first byte of a part, and the first one after it.
    type Place = [usize; 2];
    #[derive(Serialize)]
    struct Header<'a> {
        main: &'a str,
        bytes: usize,
        files: BTreeMap<&'a str, Place>,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Option<Code<'a>>>,
    }
    #[derive(Serialize)]
    struct Code<'a> {
        magic: &'a str,
        modules: BTreeMap<&'a str, Place>,
    }
    let mut content = Vec::new();
    let mut place = |part: &[u8]| {
        let begin = content.len();
        content.extend_from_slice(part);
        [begin, content.len()]
    };
    let files = files.iter().map(|(path, source)| (*path, place(source.as_bytes()))).collect();
    let code = match code {
        BundleCode::None => None,
        BundleCode::Wanted => Some(None),
        BundleCode::Stored(RuntimeCode { magic, modules }) => {
            // The sandbox compiles a module whose code is missing.
            let decoded =
                modules.iter().filter_map(|(name, code)| Some((name.as_str(), STANDARD.decode(code).ok()?)));
            let modules = decoded.map(|(name, code)| (name, place(&code))).collect();
            Some(Some(Code { magic, modules }))
        }
    };
    let header = Header { main, bytes: content.len(), files, code };
    let mut bundle = Vec::new();
    write_json(&mut bundle, &header);
    bundle.push(b'\n');
    bundle.append(&mut content);
    bundle
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_place_of_the_header_has_the_part_that_it_names() {
        let files = BTreeMap::from([("a.py", "é = 1\n"), ("b.py", ""), ("c.py", "c")]);
        let modules = [("a", "AAEC"), ("b", "no base64"), ("c", "/w==")];
        let modules = modules.map(|(name, code)| (name.to_owned(), code.to_owned()));
        let code = RuntimeCode { magic: "a70d0d0a".into(), modules: modules.into() };
        let bundle = bundle(&files, "a", BundleCode::Stored(&code));
        let end = bundle.iter().position(|byte| *byte == b'\n').unwrap();
        let (header, content) = (&bundle[..end], &bundle[end + 1..]);
        let header: Value = serde_json::from_slice(header).unwrap();
        let part = |place: &Value| {
            let [begin, end] = [0, 1].map(|of| usize::try_from(place[of].as_u64().unwrap()).unwrap());
            content[begin..end].to_vec()
        };
        assert_eq!((&header["main"], header["bytes"].as_u64()), (&"a".into(), Some(content.len() as u64)));
        for (path, source) in files {
            assert_eq!(part(&header["files"][path]), source.as_bytes());
        }
        let modules = header["code"]["modules"].as_object().unwrap();
        let parts: Vec<_> = modules.iter().map(|(name, place)| (name.as_str(), part(place))).collect();
        assert_eq!(parts, [("a", vec![0, 1, 2]), ("c", vec![255])]);
        assert_eq!(content.len(), 7 + 1 + 3 + 1);
    }
}
