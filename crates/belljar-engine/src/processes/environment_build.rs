//! Builds virtual environments: pip installs into a folder, and a sandbox tests the environment before it gets its
//! name.
//!
//! Installed code is executed only in a sandbox.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use belljar_guard::Keeper;
use futures_util::future::{BoxFuture, ready};
use nix::fcntl::FlockArg;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use super::super::error::EngineError;
use super::super::images::{ImageBuild, ImageInfo, ImageProgress, ImageStore, OnProgress};
use super::super::interface::StartedSandbox;
use super::super::spec::SandboxSpec;
use super::environment::{Environment, Environments, Record, is_noexec, lock, missing, noexec};
use super::plan::ENVIRONMENT_FOLDER;
use super::python::Python;
use super::start::{OWN_PROGRAM, Packages, start};
use crate::recipe::{BuildFiles, OWN_IMAGE};

/// The name of the build's folder inside the environment's folder.
const CONTEXT: &str = ".build";
/// The folder of matplotlib's list of fonts in an environment. To generate the list is the slow part of the first plot.
const FONTS: &str = "share/belljar/matplotlib";
/// Longest line of a build, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// The file in which the script has written the environment's size in KiB, and the time, each on one line.
const MADE: &str = "share/belljar/made";
/// The largest output that is read of the sandbox that tests an environment, in bytes.
const SAID_BYTES_MAX: usize = 16 << 20;
/// The memory of the sandbox that tests an environment, in bytes.
const TRIAL_MEMORY_BYTES: u64 = 1 << 30;
const TRIAL_OPEN_FILES_MAX: u64 = 1024;
const TRIAL_PROCESSES_MAX: u64 = 256;
/// The longest time of the test: matplotlib reads every font of the machine.
const TRIAL: Duration = Duration::from_secs(120);
/// The last output of code that was executed to its end.
const COMPLETE: &str = "complete";
/// Code that shows that sandboxes work on this machine.
const BEFORE_CODE: &str = "print('complete')";
/// Code that imports the packages that every environment has, and prints the name and text of each list of fonts.
const TRIAL_CODE: &str = "\
import os, sys
os.environ['MPLCONFIGDIR'] = '/tmp/matplotlib'
import numpy, pandas, matplotlib.font_manager
for name in os.listdir('/tmp/matplotlib'):
    if name.endswith('.json'):
        print(name, open('/tmp/matplotlib/' + name).read().replace('\\n', ' '))
print('complete')";
const ACTION: &str = "build the environment";

impl ImageStore for Environments {
    fn place(&self) -> &str {
        self.dir.to_str().unwrap_or("the user's data folder")
    }

    fn kind(&self) -> BoxFuture<'_, Result<String, EngineError>> {
        Box::pin(ready(Ok("virtual environments (no container engine)".to_owned())))
    }

    fn base(&self) -> BoxFuture<'_, Result<Option<String>, EngineError>> {
        Box::pin(async { Ok(Some(Python::find().await?.real().program)) })
    }

    fn image<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<String, EngineError>> {
        let references = self.references();
        let found = names.iter().find(|name| references.contains(name)).cloned();
        Box::pin(ready(found.ok_or_else(|| EngineError::ImageMissing { names: names.to_vec() })))
    }

    fn about_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<ImageInfo>, EngineError>> {
        Box::pin(ready(self.about(name)))
    }

    fn images_with<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<String>, EngineError>> {
        let has = |reference: &String| {
            self.about(reference)
                .is_ok_and(|about| about.is_some_and(|about| about.labels.contains_key(label)))
        };
        self.sweep();
        Box::pin(ready(Ok(self.references().into_iter().filter(has).collect())))
    }

    fn remove_image<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(ready(self.remove(name)))
    }

    fn build<'a>(
        &'a self,
        build: ImageBuild,
        on_progress: &'a mut OnProgress<'a>,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.make(build, on_progress))
    }

    fn lock_of<'a>(&'a self, name: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        Box::pin(async move {
            let Some(environment) = self.open(name).await? else { return Err(missing(name)) };
            let bytes = fs::read(environment.dir.join(BuildFiles::ENVIRONMENT_LOCK)).map_err(refused)?;
            if bytes.len() > bytes_max {
                return Err(refused(format!("its lock is larger than {bytes_max} bytes")));
            }
            Ok(bytes)
        })
    }
}

impl Environments {
    async fn make(&self, build: ImageBuild, on_progress: &mut OnProgress<'_>) -> Result<(), EngineError> {
        let name = Self::name_of(&build.name).ok_or_else(|| missing(&build.name))?;
        if self.dir.as_os_str().is_empty() {
            return Err(refused("no home folder is known to keep it in; set HOME"));
        }
        let python = Python::find().await?.real();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|error| self.failed(&error))?;
        if is_noexec(&self.dir) {
            return Err(noexec(&self.dir));
        }
        self.sweep();
        // Whether sandboxes work on this machine is checked before any download.
        in_sandbox(Packages::Machine(python.clone()), BEFORE_CODE).await?;
        // The folder is removed with this value unless it is kept, or by the next sweep if this process is killed.
        let folder = tempfile::Builder::new().prefix(&format!("{name}.")).tempdir_in(&self.dir);
        let folder = folder.map_err(|error| self.failed(&error))?;
        let dir = folder.path();
        let alone = Arc::new(lock(dir, FlockArg::LockExclusiveNonblock).map_err(refused)?);
        write_files(&dir.join(CONTEXT), &build.files).map_err(|error| self.failed(&error))?;
        // The default environment is held until the new one has shared its files. If it cannot be used, the build does
        // without it.
        let begun = self.open(OWN_IMAGE).await.ok().flatten().filter(|begun| begun.python == python);
        run_script(dir, begun.as_ref(), &python, &build.arguments, on_progress).await?;
        drop(begun);
        // Code in a sandbox can have another user than the builder, and must be able to read this folder. On the
        // machine, other users cannot enter the parent folder.
        let open = Permissions::from_mode(0o755);
        fs::set_permissions(dir, open).map_err(|error| self.failed(&error))?;
        let tried = Environment {
            dir: dir.to_owned(),
            reference: build.name,
            python: python.clone(),
            _in_use: Arc::clone(&alone),
        };
        let said = in_sandbox(Packages::Environment(tried), TRIAL_CODE).await?;
        write_fonts(&dir.join(FONTS), &said).map_err(|error| self.failed(&error))?;
        let made = fs::read_to_string(dir.join(MADE)).map_err(|error| self.failed(&error))?;
        let (kib, created) = made.trim().split_once('\n').unwrap_or_default();
        let bytes = kib.parse::<u64>().unwrap_or_default() * 1024;
        let labels = build.labels.into_iter().collect();
        let record = Record { python, labels, bytes, created: created.to_owned() };
        self.give_name(&name, dir, &record).map_err(|error| self.failed(&error))?;
        drop(folder.keep());
        drop(alone);
        self.sweep();
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> EngineError {
        refused(format!("{}: {error}", self.dir.display()))
    }
}

fn refused(message: impl std::fmt::Display) -> EngineError {
    EngineError::Refused { action: ACTION, message: message.to_string() }
}

fn write_files(context: &Path, files: &BuildFiles) -> io::Result<()> {
    fs::create_dir(context)?;
    files.of_environment().into_iter().try_for_each(|(name, bytes)| fs::write(context.join(name), bytes))
}

/// Runs the build script below a keeper, so that pip ends with this process.
async fn run_script(
    folder: &Path,
    begun: Option<&Environment>,
    python: &Python,
    variables: &HashMap<String, String>,
    on_progress: &mut OnProgress<'_>,
) -> Result<(), EngineError> {
    let keeper = Keeper::new(OWN_PROGRAM.into()).ok_or_else(|| refused("it takes Linux"))?;
    let context = folder.join(CONTEXT);
    let (mut command, _) = keeper.command(Path::new("/bin/sh"));
    command.arg(context.join(BuildFiles::SCRIPT)).arg(&context).arg(folder);
    command.args([&python.program, ENVIRONMENT_FOLDER]).args(begun.map(|begun| &begun.dir));
    command.env_clear().envs(variables).env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Command::from(command).spawn().map_err(refused)?;
    if let Some(stderr) = child.stderr.take() {
        let mut said = BufReader::new(stderr);
        let mut line = Vec::new();
        while (&mut said).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(refused)? > 0 {
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                on_progress(ImageProgress::Line(text.trim_end()));
            }
            line.clear();
        }
    }
    let status = child.wait().await.map_err(refused)?;
    if status.success() { Ok(()) } else { Err(refused(format!("its script failed ({status})"))) }
}

/// Runs code in a sandbox with these packages, which shows that they work there. Returns the output.
async fn in_sandbox(packages: Packages, code: &str) -> Result<String, EngineError> {
    let spec = SandboxSpec {
        images: vec![],
        variables: vec![("TZ".to_owned(), "UTC".to_owned())],
        command: ["python3", "-I", "-c", code].map(str::to_owned).to_vec(),
        oci_runtime: None,
        user: None,
        memory_bytes: TRIAL_MEMORY_BYTES,
        pids_max: TRIAL_PROCESSES_MAX,
        cpu: None,
        open_files_max: TRIAL_OPEN_FILES_MAX,
        folders: vec![],
        labels: HashMap::new(),
        request: TRIAL,
        reconnection: Duration::ZERO,
    };
    let run = async {
        let StartedSandbox { instance, mut streams, .. } = start(&spec, packages).await?;
        let mut said = Vec::new();
        while let Some(bytes) = streams.output.next().await
            && said.len() < SAID_BYTES_MAX
        {
            said.extend_from_slice(&bytes);
        }
        let errors = streams.output.stderr();
        drop(streams);
        instance.close().await?;
        let said = String::from_utf8_lossy(&said);
        said.trim_end().strip_suffix(COMPLETE).map(str::to_owned).ok_or_else(|| {
            let why = errors.lines().last().unwrap_or("the sandbox has ended without a word");
            refused(format!("ERROR: the packages do not work in a sandbox: {why}"))
        })
    };
    let late = EngineError::Timeout { action: "try the packages in a sandbox", after: TRIAL };
    tokio::time::timeout(TRIAL, run).await.unwrap_or(Err(late))
}

/// Stores the lists of fonts; each line has the name and the text of one.
fn write_fonts(folder: &Path, lines: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let lists = lines.lines().filter_map(|line| line.split_once(' '));
    // The name comes from code of packages, so it is checked.
    let is_plain = |name: &str| {
        name.ends_with(".json")
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    lists.filter(|(name, _)| is_plain(name)).try_for_each(|(name, text)| fs::write(folder.join(name), text))
}
