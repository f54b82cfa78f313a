//! The places to which a text may lead as a path, a file URI or an address, in each way that some server reads them.
//!
//! It decides nothing: rules that ask or deny compare all places of a value with all places of their pattern.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use belljar_base::text;
use url::{Host, Position, Url};

use super::number::with_ascii_digits;

/// The places to which a path or URI may lead, folded: without `..`, `.` and empty segments, and for a file URI or a web address
/// in all readings. A path that leads above its unknown beginning may lead to the root. Beside them: whether there is a host that
/// cannot be read, so that the text may lead to any address, too.
///
/// Parts are told apart before folding and after it: a character can become `/` or `..` by folding, for some servers only.
///
/// `is_value`: the path of an address is a place, too, whatever its scheme is. A pattern for addresses of a scheme does not mean
/// all paths.
pub(super) fn places(text: &str, is_value: bool, host_bytes_max: usize) -> (BTreeSet<String>, bool) {
    let folded = text::folded(text);
    let (mut found, mut is_unread) = (BTreeSet::new(), false);
    // What marks an address may also be a folder's name that `..` leaves.
    let forms = BTreeSet::from([text, unwrapped(text), &*folded, unwrapped(&folded)]);
    for place in forms {
        found.extend(file_places(place));
        found.extend(standard_places(place));
        match web_addresses(place, host_bytes_max) {
            Some(addresses) => found.extend(addresses),
            None => is_unread = true,
        }
        if is_value {
            found.extend(paths_alone(place));
        }
        // What looks like a scheme may also be a name in a path.
        let behind_scheme = place.split_once("://").filter(|(scheme, _)| is_scheme(scheme));
        let behind_scheme = behind_scheme.map(|(scheme, path)| (format!("{scheme}://"), path));
        for (before, path) in [Some((String::new(), place)), behind_scheme].into_iter().flatten() {
            for plain in plain_paths(path) {
                if plain.split('/').any(|segment| segment == "..") {
                    found.extend(
                        plain_paths(&format!("/{plain}")).into_iter().map(|path| before.clone() + &path),
                    );
                }
                found.insert(before.clone() + &plain);
            }
        }
    }
    let found = found.iter().map(|place| text::folded(place).into_owned());
    (found.filter(|place| *place != folded).collect(), is_unread)
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// The readings of a text as servers have it that take the path of an address for that of a file, whatever the scheme is. A
/// web address counts only without a host: one with a host leads elsewhere for nearly all.
fn paths_alone(text: &str) -> Vec<String> {
    // Some servers only look for the marks behind a scheme, and take what is before them for one.
    let has_marks = |scheme: &str, path: &str| path.starts_with("//") && !scheme.contains(['/', '\\', ' ']);
    let parts = text.split_once(':').filter(|(scheme, path)| is_scheme(scheme) || has_marks(scheme, path));
    let (path, is_uri) = match parts {
        Some((scheme, _)) if WEB_SCHEMES.contains(&&*scheme.to_ascii_lowercase()) && has_host(text) => {
            return vec![];
        }
        // Behind a word of prose and its colon comes a blank.
        Some((_, path)) if path.starts_with(char::is_whitespace) => return vec![],
        Some((_, path)) => (path, true),
        None => (text, text.starts_with('/')),
    };
    let cut = |ends: &[char]| path.split(ends).next().unwrap_or(path);
    let without_query = cut(&['?', '#']);
    let last = without_query.rfind('/').unwrap_or(0);
    let end = without_query[last..].find(';').map_or(without_query.len(), |end| last + end);
    let cuts = [path, without_query, cut(&['?', '#', ';']), &without_query[..end]];
    // Some servers decode what is left.
    let paths: BTreeSet<String> = cuts.iter().flat_map(|path| [(*path).to_owned(), decoded(path)]).collect();
    // A word before a mark is no path, and neither is the beginning of a line of commands.
    let is_path =
        |path: &String| path.contains(['/', '\\', '.']) && (is_uri || !path.contains(char::is_whitespace));
    let paths = paths.iter().filter(|path| is_path(path)).map(String::as_str);
    let readings = |path: &str| {
        let behind_host = path.strip_prefix("//").and_then(|rest| rest.split_once('/'));
        let behind_host = behind_host.map(|(_, path)| plain_paths(path)).unwrap_or_default();
        // It may be an address itself.
        let uris = [format!("file:{path}"), path.to_owned()];
        let of_file = uris.iter().filter(|_| is_uri).flat_map(|uri| file_places(uri)).collect();
        [of_file, plain_paths(path), behind_host].concat()
    };
    paths.flat_map(readings).collect()
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether a web address has a host between its marks.
fn has_host(text: &str) -> bool {
    let behind = text.split_once(':').map_or("", |(_, rest)| rest);
    let Some(authority) =
        behind.strip_prefix("//").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or(rest))
    else {
        return false;
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    !host.split(':').next().unwrap_or(host).is_empty()
}

/// A text without what marks it as an address: `<URL:address>`, as in letters, or `view-source:address`.
pub(super) fn unwrapped(text: &str) -> &str {
    let mut inner = text;
    loop {
        inner = inner.trim_matches(|one: char| one.is_whitespace() || matches!(one, '<' | '>'));
        let marks = ["url:", "view-source:"];
        let is_there =
            |mark: &&&str| inner.get(..mark.len()).is_some_and(|there| there.eq_ignore_ascii_case(mark));
        let Some(mark) = marks.iter().find(is_there) else { return inner };
        inner = &inner[mark.len()..];
    }
}

/// The readings of an address of any scheme but those of the web as the URL standard has it, which counts empty segments. None if
/// the text is no address.
fn standard_places(text: &str) -> Vec<String> {
    let Ok(url) = Url::parse(text) else { return vec![] };
    if WEB_SCHEMES.contains(&url.scheme()) {
        return vec![];
    }
    let before = &url[..Position::BeforePath];
    let of_path = |path: &str| match url.scheme() {
        "file" => file_places(&format!("file://{path}")),
        _ => plain_paths(path).into_iter().map(|path| format!("{before}{path}")).collect(),
    };
    [url.path(), &decoded(url.path())].into_iter().flat_map(of_path).collect()
}

/// All readings of a file URI in the forms `file:///path` and `/path`; none if the text is no file URI.
fn file_places(text: &str) -> Vec<String> {
    let Some(rest) = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).map(|_| &text[5..])
    else {
        return vec![];
    };
    let rest = rest.trim_start_matches(['\t', '\r', '\n', ' ']);
    // On some systems a backslash is part of a name.
    let slashes = rest.replace('\\', "/");
    let mut paths = vec![rest, &slashes];
    // A parser may read a host behind two slashes, or a path all the same.
    for path in [rest, &slashes] {
        let behind_host = path.strip_prefix("//").and_then(|rest| rest.split_once('/'));
        paths.extend(behind_host.map(|(_host, path)| path));
    }
    let mut readings: Vec<String> = Vec::new();
    for path in paths {
        for path in [path, path.split(['?', '#']).next().unwrap_or(path)] {
            for path in plain_paths(&format!("/{path}")) {
                if !readings.contains(&path) {
                    let drive = path[1..].split_once(':').filter(|(letter, _)| letter.len() == 1);
                    readings.extend(drive.map(|_| path[1..].to_owned()));
                    readings.extend([format!("file://{path}"), path]);
                }
            }
        }
    }
    readings
}

/// The readings of a web address as parsers of the URL standard have it, which ignore how it is written: with and without
/// the usual port and a last slash, always without user and fragment. For other parsers a backslash ends no host. The list
/// is empty if the text is no web address, and `None` if its host is longer than `host_bytes_max` and cannot be read in a
/// short time.
pub(super) fn web_addresses(text: &str, host_bytes_max: usize) -> Option<Vec<String>> {
    let mut addresses = standard_addresses(text, host_bytes_max)?;
    if text.contains('\\') {
        addresses.extend(standard_addresses(&text.replace('\\', "%5c"), host_bytes_max)?);
    }
    Some(addresses)
}

/// The longest host of a web address that is read if it has other characters than those of ASCII, or punycode, in bytes with
/// its port. The time grows with the square of its length.
pub(super) const HOST_BYTES_MAX: usize = 253;
/// Characters that end a host for some parsers.
const NEVER_IN_HOSTS: [char; 11] = ['"', '{', '}', '`', '\'', '^', ';', '|', '<', '>', ' '];
/// The schemes of web addresses. Only these ignore how many slashes there are, and in which direction.
pub(super) const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// The host of a web address as parsers of the URL standard find it, with its port.
pub(super) fn web_host(text: &str) -> Option<&str> {
    host_and_rest(text).map(|(host, _)| host)
}

/// The host of a web address with its port, and what follows.
fn host_and_rest(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    // These parsers ignore tabs and line ends, and blanks and control characters before the scheme.
    let scheme = scheme.trim_start_matches(|before: char| before <= ' ').chars();
    let scheme: String = scheme.filter(|of| !matches!(of, '\t' | '\r' | '\n')).take(6).collect();
    if !WEB_SCHEMES.iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        return None;
    }
    let rest = rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    let (authority, rest) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    Some((authority.rsplit_once('@').map_or(authority, |(_user, host)| host), rest))
}

/// Whether the host is read in a time that only grows with its length.
pub(super) fn is_plain_host(host: &str) -> bool {
    let is_punycode = |four: &[u8]| four.eq_ignore_ascii_case(b"xn--");
    host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%')
        && !host.as_bytes().windows(4).any(is_punycode)
}

/// Whether no parser takes this for a host: prose, for example, has blanks.
fn is_no_host(host: &str) -> bool {
    let host =
        host.rsplit_once(':').filter(|(_, port)| port_of(port).is_some()).map_or(host, |(host, _)| host);
    let left_out = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n');
    let is_forbidden = |byte: u8| byte <= b' ' || byte == 0x7f;
    percent_encoding::percent_decode_str(host).filter(|byte| !left_out(byte)).any(is_forbidden)
}

/// The number of a port as Python reads it, with blanks around it, a sign and underscores. Python passes on a number that is too
/// large, of which the C library takes the last 16 bits.
fn port_of(port: &str) -> Option<String> {
    let port = percent_encoding::percent_decode_str(port).decode_utf8().ok()?;
    let port = with_ascii_digits(text::folded(port.trim())).replace('_', "");
    let digits = port.strip_prefix('+').unwrap_or(&port);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = |digits: &str| {
        digits.bytes().fold(0u16, |port, digit| port.wrapping_mul(10).wrapping_add(u16::from(digit - b'0')))
    };
    is_number.then(|| port(digits).to_string())
}

fn standard_addresses(text: &str, host_bytes_max: usize) -> Option<Vec<String>> {
    let Some((host, written)) = host_and_rest(text) else { return Some(vec![]) };
    // For some parsers the host ends at a character that no host has, and the path begins with it.
    let mut addresses = match host.find(NEVER_IN_HOSTS).filter(|end| *end > 0) {
        Some(end) if end <= host_bytes_max => {
            taken_apart(text, &host[..end], &format!("/{}{written}", &host[end..]))
        }
        _ => vec![],
    };
    if !is_no_host(host) {
        addresses.extend(addresses_of(text, (host, written), host_bytes_max)?);
    }
    Some(addresses)
}

fn addresses_of(text: &str, (host, written): (&str, &str), host_bytes_max: usize) -> Option<Vec<String>> {
    if host.len() > host_bytes_max && !is_plain_host(host) {
        return None;
    }
    // The zone of an address, which the standard does not know.
    if let Some((before, zone)) = host.strip_prefix('[').and_then(|host| host.split_once('%'))
        && let Some((_zone, behind)) = zone.split_once(']')
    {
        let scheme = text.split(':').next().unwrap_or_default();
        return standard_addresses(&format!("{scheme}://[{before}]{behind}{written}"), host_bytes_max);
    }
    let Ok(url) = Url::parse(text) else { return Some(taken_apart(text, host, written)) };
    let Some(port) = url.port_or_known_default() else { return Some(vec![]) };
    let places: Vec<String> = hosts(&url)
        .into_iter()
        .map(|host| format!("{}://{host}", url.scheme()))
        .flat_map(|host| [url.port().is_none().then(|| host.clone()), Some(format!("{host}:{port}"))])
        .flatten()
        .collect();
    let rest = url[Position::BeforePath..Position::AfterQuery].trim_end_matches('?');
    let query = url.query().filter(|query| !query.is_empty());
    let query = query.map(|query| format!("?{}", decoded(query))).unwrap_or_default();
    // Servers ignore empty segments, some before they follow `..`, and decode what the parser has encoded.
    let written = written.split(['?', '#']).next().unwrap_or(written);
    let mut rests = vec![rest.to_owned()];
    for path in [url.path(), written].into_iter().flat_map(|path| plain_paths(&decoded(path))) {
        let plain = text::folded(&format!("{path}{query}")).into_owned();
        if !rests.contains(&plain) {
            rests.push(plain);
        }
    }
    rests.extend((rest == "/").then(String::new));
    let addresses = places.iter().flat_map(|place| rests.iter().map(move |rest| format!("{place}{rest}")));
    Some(addresses.collect())
}

/// The names of the host of an address, without the dot at the end: its punycode and its letters, the IPv4 address to which an
/// IPv6 address leads, and the usual names of this machine for each address of it.
fn hosts(url: &Url) -> Vec<String> {
    let Some(host) = url.host_str().map(|host| host.trim_end_matches('.')) else { return vec![] };
    // A rule may have the letters of the host, the text its punycode, or the other way round.
    let (letters, _) = idna::domain_to_unicode(host);
    let letters = Some(text::folded(&letters).into_owned()).filter(|letters| letters != host);
    let mapped = match url.host() {
        Some(Host::Ipv6(address)) => address.to_ipv4_mapped(),
        _ => None,
    };
    // All of these lead to this machine.
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let is_here = |address: Ipv4Addr| address.is_loopback() || address.is_unspecified();
            address.is_loopback() || address.is_unspecified() || mapped.is_some_and(is_here)
        }
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            // Debian's /etc/hosts has the others.
            let others = ["localhost.localdomain", "ip6-localhost", "ip6-loopback"];
            name.rsplit('.').next() == Some("localhost") || others.contains(&name)
        }
        None => false,
    };
    let mapped = mapped.map(|address| address.to_string());
    // A rule with a wildcard for the port is no address, and has one of these.
    let here =
        ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].into_iter().filter(|_| is_here).map(str::to_owned);
    let hosts: BTreeSet<String> =
        [Some(host.to_owned()), letters, mapped].into_iter().flatten().chain(here).collect();
    hosts.into_iter().collect()
}

/// The readings of an address whose host is not what the URL standard wants, such as one with `xn--` that is no punycode. Some
/// clients look it up all the same.
fn taken_apart(text: &str, host: &str, written: &str) -> Vec<String> {
    let scheme = text.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "https" | "wss" => "443",
        "ftp" => "21",
        _ => "80",
    };
    let (host, port) = match host.rsplit_once(':').map(|(host, port)| (host, port_of(port))) {
        Some((host, Some(port))) => (host, port),
        _ => (host, usual.to_owned()),
    };
    // Some clients take brackets for those of an address, whatever is in them.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.filter(|bare| !bare.contains(':')).unwrap_or(host);
    // These are dots for IDNA.
    let host = text::folded(host).replace(['\u{3002}', '\u{ff61}'], ".");
    let host = host.trim_end_matches('.');
    // With a port that the standard has, it may read the host.
    let standard = Url::parse(&format!("{scheme}://{host}/")).ok();
    let hosts = standard.as_ref().map(hosts).filter(|hosts| !hosts.is_empty());
    let hosts = hosts.unwrap_or_else(|| vec![host.to_owned()]);
    let path = written.split(['?', '#']).next().unwrap_or(written);
    let paths = plain_paths(path).into_iter().chain(plain_paths(&decoded(path))).chain([written.to_owned()]);
    let of_path = |path: String| {
        let of_host = |host: &String| {
            let without = (port == usual).then(|| format!("{scheme}://{host}{path}"));
            [Some(format!("{scheme}://{host}:{port}{path}")), without]
        };
        hosts.iter().flat_map(of_host).flatten().collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

/// The path without `.`, `..` and empty segments, as read where a backslash is part of a name, and where it ends one. A path of a
/// folder has a reading with a last slash, too, and one through the root or working folder that Linux shows of a process has one
/// without that.
fn plain_paths(path: &str) -> Vec<String> {
    let mut paths = vec![plain_path(path, &['/'])];
    if path.contains("/proc/") {
        // One may follow another, and `..` behind one does not leave it.
        let behind_root = path.rsplit_once("/root/").map(|(_, path)| plain_path(&format!("/{path}"), &['/']));
        let behind_cwd = path.rsplit_once("/cwd/").map(|(_, path)| plain_path(path, &['/']));
        paths.extend(behind_root.into_iter().chain(behind_cwd));
    }
    if path.contains('\\') {
        paths.push(plain_path(path, &['/', '\\']));
    }
    let is_of_folder = ["/", "/.", "/..", "\\"].iter().any(|end| path.ends_with(end));
    if is_of_folder {
        let with_slash: Vec<String> =
            paths.iter().map(|path| format!("{}/", path.trim_end_matches('/'))).collect();
        paths.extend(with_slash);
    }
    paths
}

fn plain_path(path: &str, separators: &[char]) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(separators) {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_absolute = path.starts_with(separators);
    let above = segments.iter().take_while(|segment| is_absolute && **segment == "..").count();
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", segments[above..].join("/"))
}
