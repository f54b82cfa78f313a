//! The bundle, which a sandbox reads before any frame: the Python runtime.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::from_sandbox::RuntimeCode;
use super::to_sandbox::write_json;

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

/// The bundle: a header in one line, and the content in which the header's numbers are places. It has the runtime's
/// source files by path, the module whose `main()` is called, and compiled code.
#[must_use]
pub fn bundle(files: &BTreeMap<&str, &str>, main: &str, code: BundleCode<'_>) -> Vec<u8> {
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
            // The sandbox compiles a module whose code cannot be decoded.
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
