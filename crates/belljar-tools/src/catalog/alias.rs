//! Python names for servers and tools: valid, deterministic, and no two names ever share one.
//!
//! An alias grants nothing: calls use the raw name that it stands for.

use std::collections::{BTreeMap, BTreeSet};

use super::literal::{is_identifier, is_keyword};

/// Attributes that the proxies and modules of servers already have.
const PROXY_NAMES: [&str; 7] = ["list_tools", "mro", "TOOLS", "TOOL_MAP", "_calls", "_server", "_tool_map"];
/// Prefixes of names that notebooks look up on every object. A proxy must not treat such a name as a tool.
const PROBED: [&str; 2] = ["_ipython", "_repr_"];
/// The table of all servers is named `mcp_servers`, so no server gets the alias `servers`.
const TABLE_NAME: &str = "servers";

/// The kind of a name that gets an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasKind {
    /// Servers. Their aliases are in lower case, since agents know them as `mcp_<alias>`.
    Servers,
    /// Tools. A name that is an identifier stays as it is.
    Tools,
}

/// Aliases of servers, by raw name.
pub fn server_aliases<'n>(
    names: impl IntoIterator<Item = &'n str>,
    bytes_max: usize,
) -> BTreeMap<&'n str, String> {
    aliases(AliasKind::Servers, names, bytes_max)
}

/// Aliases of one server's tools, by raw name.
pub fn tool_aliases<'n>(
    names: impl IntoIterator<Item = &'n str>,
    bytes_max: usize,
) -> BTreeMap<&'n str, String> {
    aliases(AliasKind::Tools, names, bytes_max)
}

/// A name that is a valid alias stays as it is. Any other name gets its folded form, unless another name has or folds
/// to the same form. Then it gets that form with a suffix from the name's hash. No alias equals the raw name of another
/// name. The result depends on the set of names only.
fn aliases<'n>(
    kind: AliasKind,
    names: impl IntoIterator<Item = &'n str>,
    bytes_max: usize,
) -> BTreeMap<&'n str, String> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for name in &names {
        *wanted.entry(folded(kind, name, bytes_max)).or_default() += 1;
    }
    let mut taken: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut aliases = BTreeMap::new();
    for name in &names {
        let form = folded(kind, name, bytes_max);
        let alias = if form == *name || (wanted[&form] == 1 && !taken.contains(&form)) {
            form
        } else {
            suffixed(&form, name, bytes_max, &taken)
        };
        taken.insert(alias.clone());
        aliases.insert(*name, alias);
    }
    aliases
}

/// Appends a hash of the name, with another salt until the result is free. A name that was chosen to collide only costs
/// another round.
fn suffixed(form: &str, name: &str, bytes_max: usize, taken: &BTreeSet<String>) -> String {
    let mut salt = 0_u64;
    loop {
        let hash = format!("{:08x}", fnv1a(salt, name.as_bytes()) >> 32);
        let stem = &form[..form.len().min(bytes_max.saturating_sub(hash.len() + 1))];
        let alias = format!("{stem}_{hash}");
        if !taken.contains(&alias) {
            return alias;
        }
        salt += 1;
    }
}

/// The name as an ASCII identifier that Python and the proxies do not use themselves, of at most `bytes_max` bytes.
fn folded(kind: AliasKind, name: &str, bytes_max: usize) -> String {
    let mut form = String::with_capacity(name.len().min(bytes_max));
    let mut in_run = false;
    for character in name.trim().chars() {
        let fits = character.is_ascii_alphanumeric() || character == '_';
        if fits {
            form.push(character);
        } else if !in_run {
            form.push('_');
        }
        in_run = !fits;
    }
    let default = match kind {
        AliasKind::Servers => {
            form.make_ascii_lowercase();
            "server"
        }
        AliasKind::Tools => "tool",
    };
    if !form.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
        default.clone_into(&mut form);
    }
    let is_probed = kind == AliasKind::Tools && PROBED.iter().any(|probed| form.starts_with(probed));
    if form.starts_with("__") || is_probed {
        form.insert_str(0, default);
    }
    if form.starts_with(|c: char| c.is_ascii_digit()) {
        form.insert(0, '_');
    }
    let is_taken = match kind {
        AliasKind::Servers => form == TABLE_NAME,
        AliasKind::Tools => PROXY_NAMES.contains(&form.as_str()),
    };
    if is_keyword(&form) || is_taken {
        form.push('_');
    }
    form.truncate(bytes_max);
    debug_assert!(is_identifier(&form), "{form} is no identifier");
    form
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
pub(super) fn fnv1a(salt: u64, bytes: &[u8]) -> u64 {
    salt.to_le_bytes().iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES_MAX: usize = 64;

    fn tools(names: &[&str]) -> Vec<String> {
        let aliases = tool_aliases(names.iter().copied(), BYTES_MAX);
        names.iter().map(|name| aliases[name].clone()).collect()
    }

    #[test]
    fn ordinary_names_keep_themselves() {
        assert_eq!(
            tools(&["list_issues", "getUser", "get_user", "print"]),
            ["list_issues", "getUser", "get_user", "print"]
        );
        let servers = server_aliases(["GitHub", "my-server", "1password"], BYTES_MAX);
        assert_eq!(servers.into_values().collect::<Vec<_>>(), ["_1password", "github", "my_server"]);
    }

    #[test]
    fn names_that_python_or_the_proxies_use_are_changed() {
        assert_eq!(
            tools(&["class", "__class__", "list_tools", "import", "2fa", "日本", "a.b"]),
            ["class_", "tool__class__", "list_tools_", "import_", "_2fa", "tool", "a_b"]
        );
        assert_eq!(
            tools(&["_server", "_calls", "_repr_html_", "_ipython_display_", "_repr"]),
            ["_server_", "_calls_", "tool_repr_html_", "tool_ipython_display_", "_repr"]
        );
        let servers = server_aliases(["Servers", "servers"], BYTES_MAX);
        assert_eq!(servers.into_values().collect::<Vec<_>>(), ["servers__9abd4ffd", "servers__c5951263"]);
    }

    #[test]
    fn colliding_names_get_suffixes_and_the_plain_name_keeps_its_own() {
        assert_eq!(
            tools(&["a-b", "a_b", "a.b", "日本", "中国"]),
            ["a_b_aa1aeddb", "a_b", "a_b_aa1dd3db", "tool_8e66124d", "tool_f7829ea5"]
        );
    }

    proptest! {
        #[test]
        fn aliases_are_identifiers_unique_and_never_anothers_name(
            names in prop::collection::hash_set("[abAB_\\-.é日1 ]{1,4}|class|__a__|\\PC{1,80}|a_b_aa1aeddb", 0..40)
        ) {
            for kind in [AliasKind::Servers, AliasKind::Tools] {
                let aliases = aliases(kind, names.iter().map(String::as_str), BYTES_MAX);
                prop_assert_eq!(aliases.len(), names.len());
                let unique: BTreeSet<&String> = aliases.values().collect();
                prop_assert_eq!(unique.len(), names.len());
                for (name, alias) in &aliases {
                    prop_assert!(is_identifier(alias) && alias.len() <= BYTES_MAX && !alias.starts_with("__"), "{}", alias);
                    prop_assert!(alias == name || !names.contains(alias));
                }
            }
        }
    }
}
