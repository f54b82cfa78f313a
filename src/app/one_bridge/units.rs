//! The unit files that have a service manager run `belljar serve`. It writes no file, and asks no service manager.

use std::ffi::OsStr;

use crate::cli::{Serve, ServiceManager};
use crate::config::Environment;

/// The head of a unit of systemd. The guardian and the keepers end what belljar leaves, so systemd must not end them first.
const SYSTEMD: &str = "\
# Save this as ~/.config/systemd/user/belljar.service, and run:
#   systemctl --user daemon-reload
#   systemctl --user enable --now belljar
# So that it also runs while you are not logged in:
#   loginctl enable-linger
# Of the variables of your shell it has PATH only. Add those that the entries of your servers refer to, as Environment= or
# EnvironmentFile=.
[Unit]
Description=belljar, one bridge for all MCP clients of a user

[Service]
";
const SYSTEMD_END: &str = "\
KillMode=process
SuccessExitStatus=143
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
";
const LAUNCHD: &str = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- Save this as ~/Library/LaunchAgents/belljar.plist, and run:
       launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/belljar.plist
     To end it for good:
       launchctl bootout gui/$(id -u)/belljar
     Of the variables of your shell it has PATH only. Add those that the entries of your servers refer to. -->
<plist version=\"1.0\">
<dict>
  <key>Label</key><string>belljar</string>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>10</integer>
";

/// The unit file for `belljar serve` with these options.
///
/// # Errors
/// The reason why it cannot be made.
pub(crate) fn unit(
    manager: ServiceManager,
    environment: &Environment,
    serve: &Serve,
) -> Result<String, &'static str> {
    let program = environment.executable.as_ref().and_then(|program| program.to_str());
    let program =
        program.ok_or("the system does not tell where this executable is, or its path is not UTF-8")?;
    let words = words(environment, serve)?;
    let path = environment.variable("PATH").and_then(OsStr::to_str).unwrap_or_default();
    Ok(match manager {
        ServiceManager::Systemd => {
            // The first word has no variables.
            let words: Vec<String> = words.iter().map(|word| quoted(&word.replace('$', "$$"))).collect();
            let (program, words, path) = (quoted(program), words.join(" "), quoted(&format!("PATH={path}")));
            format!("{SYSTEMD}ExecStart={program} {words}\nEnvironment={path}\n{SYSTEMD_END}")
        }
        ServiceManager::Launchd => {
            let words = std::iter::once(program).chain(words.iter().map(String::as_str));
            let words: String = words.map(|word| format!("    {}\n", string(word))).collect();
            let home = environment.home.as_ref().ok_or("no home folder is known")?;
            let log = string(&home.join("Library/Logs/belljar.log").display().to_string());
            format!(
                "{LAUNCHD}  <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
                 <key>EnvironmentVariables</key><dict><key>PATH</key>{}</dict>\n  \
                 <key>StandardErrorPath</key>{log}\n</dict>\n</plist>\n",
                string(path)
            )
        }
    })
}

/// The command and its options, with absolute paths.
fn words(environment: &Environment, serve: &Serve) -> Result<Vec<String>, &'static str> {
    let mut words = vec!["serve".to_owned()];
    let mut add = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
    if let Some(address) = serve.http {
        add("--http", &address.to_string());
    }
    for (option, file) in [("--tls-certificate", &serve.tls_certificate), ("--tls-key", &serve.tls_key)] {
        let Some(file) = file else { continue };
        let file = environment.cwd.clone().unwrap_or_default().join(file);
        add(option, file.to_str().ok_or("the path of a file for TLS is not UTF-8")?);
    }
    serve.allowed_hosts.iter().for_each(|host| add("--allow-host", host));
    serve.allowed_origins.iter().for_each(|origin| add("--allow-origin", origin));
    let oauth = &serve.oauth;
    for (option, value) in [
        ("--oauth-issuer", &oauth.issuer),
        ("--oauth-resource", &oauth.resource),
        ("--oauth-audience", &oauth.audience),
        ("--oauth-policy", &oauth.policy),
    ] {
        value.iter().for_each(|value| add(option, value));
    }
    oauth.scopes.iter().for_each(|scope| add("--oauth-scope", scope));
    if serve.behind_proxy {
        words.push("--behind-proxy".into());
    }
    Ok(words)
}

/// A word as systemd reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@[]$".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let escaped = word.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        '%' => "%%".into(),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c => c.into(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A text in a property list.
fn string(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<string>{text}</string>")
}
