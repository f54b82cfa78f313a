#!/usr/bin/env python3
"""Builds the program once and packs it for every channel: packages, archive, installer, image, bundle, registry entry.

All names, versions and addresses come from Cargo.toml.

usage: packaging/package.py OUT TARGET [--profile PROFILE]   what is built for this platform, on it
       packaging/package.py OUT image                        the container image with this program, for Docker to load
       packaging/package.py OUT common                       what is the same on all platforms, after them
       packaging/package.py OUT changes                      prints the changelog of this version
These publish images with Docker, which must be logged in at the registry, and print their references:
       packaging/package.py OUT sandbox                      builds the sandbox image for this processor and pushes it
       packaging/package.py OUT sandbox-list                 pushes the list of both
       packaging/package.py OUT bridge                       pushes the images of the bridge in OUT, and their list
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGING = REPOSITORY / "packaging"
# The older glibc of manylinux2014 has no renameat2.
GLIBC = "2.28"
IMAGE = "localhost/belljar:latest"
REGISTRY = "ghcr.io"
# The processors of images: in Docker's words, and in those of the system.
PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}
# Claude Code reads it from the repository, so it is committed with the version.
PLUGIN = PACKAGING / "claude-plugin/.claude-plugin/plugin.json"
# Names of npm for the system and the processor, and of Debian for the processor.
TARGETS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64", "amd64"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64", "arm64"),
    "x86_64-apple-darwin": ("darwin", "x64", None),
    "aarch64-apple-darwin": ("darwin", "arm64", None),
}


def output(*command: str) -> str:
    return subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def write(path: Path, content: str | bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def as_json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Project:
    """What Cargo.toml says."""

    def __init__(self) -> None:
        metadata = json.loads(output("cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"))
        package = next(package for package in metadata["packages"] if package["name"] == "belljar")
        self.version: str = package["version"]
        self.description: str = package["description"]
        self.license: str = package["license"]
        self.author: str = package["authors"][0]
        self.repository: str = package["repository"]
        self.release = f"{self.repository}/releases/download/v{self.version}"
        self.owner = self.repository.rstrip("/").split("/")[-2]
        # The name in the MCP registry, which npm's package and the README of PyPI's package repeat as a proof.
        self.registry_name = f"io.github.{self.owner}/belljar"

    def image(self, name: str, registry: str = REGISTRY) -> str:
        """The published name of an image."""
        return f"{registry}/{self.owner}/{name}:{self.version}"

    def full_version(self) -> str:
        """With the commit and its date, if the source is a checkout."""
        try:
            return f"{self.version} ({output('git', 'log', '-1', '--format=%h %cs')})"
        except (OSError, subprocess.CalledProcessError):
            return self.version


def build_wheel(project: Project, out: Path, profile: str, target: str) -> Path:
    """Builds the wheel, and returns the program in it."""
    command = ["maturin", "build", "--locked", "--profile", profile, "--target", target, "--out", str(out)]
    if TARGETS[target][0] == "linux":
        command += ["--zig", "--compatibility", f"manylinux_{GLIBC.replace('.', '_')}"]
    environment = os.environ | {"BELLJAR_VERSION": project.full_version()}
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        program = archive.read(f"belljar-{project.version}.data/scripts/belljar")
    return write(out / "belljar", program, 0o755)


def npm_pack(folder: Path, out: Path, package: dict[str, Any]) -> None:
    write(folder / "package.json", as_json(package))
    subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(out)], cwd=folder, check=True)
    shutil.rmtree(folder)


def npm_fields(project: Project) -> dict[str, Any]:
    repository = {"type": "git", "url": f"git+{project.repository}.git"}
    return {"version": project.version, "license": project.license, "repository": repository}


def pack_npm_platform(project: Project, out: Path, program: Path, target: str) -> None:
    system, processor, _ = TARGETS[target]
    folder = out / "npm-platform"
    write(folder / "belljar", program.read_bytes(), 0o755)
    package = {
        "name": f"@{project.owner}/belljar-{system}-{processor}",
        "description": f"The belljar program for {system}-{processor}",
        **npm_fields(project),
        "os": [system],
        "cpu": [processor],
        **({"libc": ["glibc"]} if system == "linux" else {}),
        "files": ["belljar"],
    }
    npm_pack(folder, out, package)


def pack_npm(project: Project, out: Path) -> None:
    folder = out / "npm"
    write(folder / "belljar.js", (PACKAGING / "belljar.js").read_bytes(), 0o755)
    write(folder / "README.md", (REPOSITORY / "README.md").read_bytes())
    platforms = [f"@{project.owner}/belljar-{system}-{processor}" for system, processor, _ in TARGETS.values()]
    package = {
        "name": "belljar",
        "description": project.description,
        **npm_fields(project),
        "mcpName": project.registry_name,
        "bin": {"belljar": "belljar.js"},
        "files": ["belljar.js"],
        "engines": {"node": ">=18"},
        "optionalDependencies": dict.fromkeys(platforms, project.version),
    }
    npm_pack(folder, out, package)


def pack_deb(project: Project, out: Path, program: Path, architecture: str) -> None:
    root = out / "deb"
    write(root / "usr/bin/belljar", program.read_bytes(), 0o755)
    man = root / "usr/share/man/man1"
    man.mkdir(parents=True)
    output(str(program), "man-pages", str(man))
    for page in man.iterdir():
        write(page.with_name(page.name + ".gz"), gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    for shell, path in (
        ("bash", "bash-completion/completions/belljar"),
        ("zsh", "zsh/vendor-completions/_belljar"),
        ("fish", "fish/vendor_completions.d/belljar.fish"),
    ):
        write(root / "usr/share" / path, output(str(program), "completions", shell) + "\n")
    documents = root / "usr/share/doc/belljar"
    changes = (REPOSITORY / "CHANGELOG.md").read_bytes()
    write(documents / "changelog.gz", gzip.compress(changes, mtime=0))
    licence = (REPOSITORY / "LICENSE-MIT").read_text()
    apache = "Apache-2.0: see /usr/share/common-licenses/Apache-2.0"
    write(documents / "copyright", f"belljar, {project.repository}\n\nMIT or Apache-2.0\n\n{licence}\n{apache}\n")
    write(root / "usr/share/belljar/apparmor", (REPOSITORY / "config/apparmor/belljar").read_bytes())
    for script in ("postinst", "postrm"):
        write(root / "DEBIAN" / script, (PACKAGING / "deb" / script).read_bytes(), 0o755)
    summary, _, details = project.description.partition(": ")
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    control = {
        "Package": "belljar",
        "Version": project.version,
        "Architecture": architecture,
        "Maintainer": project.author,
        "Installed-Size": size,
        "Depends": f"libc6 (>= {GLIBC})",
        "Recommends": "python3 (>= 3.11) | podman | docker.io",
        "Section": "devel",
        "Priority": "optional",
        "Homepage": project.repository,
        "Description": f"{summary}\n {details[:1].upper()}{details[1:]}",
    }
    write(root / "DEBIAN/control", "".join(f"{name}: {value}\n" for name, value in control.items()))
    name = f"belljar_{project.version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(out / name)], check=True)
    shutil.rmtree(root)


def pack_archive(out: Path, program: Path, target: str) -> None:
    """Packs what cargo binstall and the Homebrew formula take."""
    with tarfile.open(out / f"belljar-{target}.tar.gz", "w:gz") as archive:
        for path in (program, REPOSITORY / "LICENSE-MIT", REPOSITORY / "LICENSE-APACHE"):
            archive.add(path, path.name)


def pack_image(project: Project, out: Path, docker: Sequence[str] = ("docker",)) -> Path:
    """Builds the image of the bridge with the program in `out`; BASE_IMAGE in the environment is another base."""
    base = ["--build-arg", f"BASE_IMAGE={os.environ['BASE_IMAGE']}"] if "BASE_IMAGE" in os.environ else []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(out / "belljar", folder)
        build = [
            *docker,
            "build",
            "--quiet",
            "--network=none",
            *base,
            # By this the MCP registry knows that the image belongs to the entry.
            "--label",
            f"io.modelcontextprotocol.server.name={project.registry_name}",
            "--tag",
            IMAGE,
            "--file",
            str(PACKAGING / "bridge.Containerfile"),
            folder,
        ]
        subprocess.run(build, check=True)
    archive = out / f"belljar-image-{platform.machine()}.tar"
    subprocess.run([*docker, "save", "--output", str(archive), IMAGE], check=True)
    subprocess.run(["gzip", "--force", str(archive)], check=True)
    return archive.with_name(f"{archive.name}.gz")


def push(docker: Sequence[str], name: str, processor: str) -> str:
    """Pushes an image that Docker has, for one processor."""
    subprocess.run([*docker, "push", "--quiet", f"{name}-{processor}"], check=True, stdout=subprocess.DEVNULL)
    return f"{name}-{processor}"


def push_list(docker: Sequence[str], name: str, processors: Sequence[str]) -> str:
    """Pushes the list of the images for these processors, and returns its reference with the digest."""
    of_each = [f"{name}-{processor}" for processor in processors]
    # A registry of this machine has no TLS.
    insecure = ["--insecure"] if name.startswith("127.0.0.1:") else []
    subprocess.run([*docker, "manifest", "create", *insecure, name, *of_each], check=True, stdout=subprocess.DEVNULL)
    digest = output(*docker, "manifest", "push", "--purge", *insecure, name)
    return f"{name.rpartition(':')[0]}@{digest}"


def push_sandbox(
    project: Project,
    docker: Sequence[str] = ("docker",),
    registry: str = REGISTRY,
    context: Path = REPOSITORY,
) -> str:
    """Builds the sandbox image for this machine's processor, with the labels that `belljar image pull` asks for."""
    name = project.image("belljar-sandbox", registry)
    (base,) = re.findall(r"^ARG BASE_IMAGE=(.*)", (REPOSITORY / "Containerfile").read_text(), re.MULTILINE)
    labels = [f"--label=org.belljar.content=belljar-{project.version}", f"--label=org.belljar.base={base}"]
    processor = next(own for own, system in PROCESSORS.items() if system == platform.machine())
    tag = ["--tag", f"{name}-{processor}", "--file", str(context / "Containerfile"), str(context)]
    subprocess.run([*docker, "build", "--quiet", *labels, *tag], check=True, stdout=subprocess.DEVNULL)
    return push(docker, name, processor)


def push_bridge(project: Project, out: Path, docker: Sequence[str] = ("docker",), registry: str = REGISTRY) -> str:
    """Pushes those images of the bridge that are in `out`."""
    name = project.image("belljar", registry)
    archives = {processor: out / f"belljar-image-{system}.tar.gz" for processor, system in PROCESSORS.items()}
    there = {processor: archive for processor, archive in archives.items() if archive.exists()}
    for processor, archive in there.items():
        with gzip.open(archive) as file:
            subprocess.run([*docker, "load"], check=True, input=file.read(), stdout=subprocess.DEVNULL)
        subprocess.run([*docker, "tag", IMAGE, f"{name}-{processor}"], check=True)
        push(docker, name, processor)
    return push_list(docker, name, list(there))


def pack_bundle(project: Project, out: Path, program: Path, target: str) -> Path:
    """Packs the bundle for Claude Desktop."""
    name, address = project.author.rstrip(">").split(" <")
    manifest = {
        "manifest_version": "0.3",
        "name": "belljar",
        "version": project.version,
        "description": project.description,
        "author": {"name": name, "email": address, "url": project.repository},
        "repository": {"type": "git", "url": project.repository},
        "license": project.license,
        "server": {
            "type": "binary",
            "entry_point": "server/belljar",
            "mcp_config": {"command": "${__dirname}/server/belljar", "args": [], "env": {}},
        },
        "tools": [{"name": "run_python", "description": "Runs Python code in the sandbox."}],
        "compatibility": {"platforms": [TARGETS[target][0]]},
    }
    path = out / f"belljar-{target}.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("manifest.json", as_json(manifest))
        bundle.write(program, "server/belljar")
    return path


def server_json(project: Project, bundles: list[Path]) -> dict[str, Any]:
    """The entry of the MCP registry."""
    stdio = {"transport": {"type": "stdio"}}
    version = {"version": project.version}
    packages = [
        {"registryType": "pypi", "identifier": "belljar", **version, "runtimeHint": "uvx", **stdio},
        {"registryType": "npm", "identifier": "belljar", **version, "runtimeHint": "npx", **stdio},
        {"registryType": "oci", "identifier": project.image("belljar"), "runtimeHint": "docker", **stdio},
    ]
    for bundle in bundles:
        address = f"{project.release}/{bundle.name}"
        packages.append(
            {"registryType": "mcpb", "identifier": address, **version, "fileSha256": sha256(bundle), **stdio}
        )
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": project.registry_name,
        "title": "belljar",
        "description": project.description,
        "repository": {"url": project.repository, "source": "github"},
        **version,
        "packages": packages,
    }


def plugin(project: Project) -> str:
    """The manifest of the plugin for Claude Code, with the version."""
    return re.sub(r'"version": "[^"]*"', f'"version": "{project.version}"', PLUGIN.read_text(), count=1)


def installer(project: Project) -> str:
    """The shell installer of this release."""
    text = (PACKAGING / "install.sh").read_text()
    return text.replace("@RELEASE@", project.release).replace("@GLIBC@", GLIBC)


def formula(project: Project, out: Path) -> str:
    """The formula for Homebrew, with those archives that are in `out`."""
    lines = [
        "class Belljar < Formula",
        f"  desc {json.dumps(project.description.rstrip('.'))}",
        f'  homepage "{project.repository}"',
        f'  version "{project.version}"',
        f"  license any_of: {json.dumps(project.license.split(' OR '))}",
    ]
    for target, (system, processor, _) in TARGETS.items():
        archive = out / f"belljar-{target}.tar.gz"
        if archive.exists():
            lines += [
                f"  on_{'macos' if system == 'darwin' else system} do",
                f"    on_{'intel' if processor == 'x64' else 'arm'} do",
                f'      url "{project.release}/{archive.name}"',
                f'      sha256 "{sha256(archive)}"',
                "    end",
                "  end",
            ]
    return "\n".join(lines) + (PACKAGING / "formula-end.rb").read_text()


def bill_of_materials() -> dict[str, Any]:
    """The crates that are linked into the program on any platform, in the format CycloneDX 1.6."""
    platforms = [f"--filter-platform={target}" for target in TARGETS]
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1", *platforms))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock}

    def linked(identity: str) -> list[str]:
        """The direct dependencies; those for builds and tests have another kind than null."""
        dependencies = nodes[identity]["deps"]
        return [one["pkg"] for one in dependencies if any(kind["kind"] is None for kind in one["dep_kinds"])]

    def reference(identity: str) -> str:
        return f"pkg:cargo/{packages[identity]['name']}@{packages[identity]['version']}"

    def component(identity: str) -> dict[str, Any]:
        package = packages[identity]
        described = {"bom-ref": reference(identity), "name": package["name"], "version": package["version"]}
        described |= {"type": "library", "purl": reference(identity)}
        if package["license"]:
            # Older crates separate alternatives by a slash, which SPDX does not know.
            described["licenses"] = [{"expression": re.sub(" ?/ ?", " OR ", package["license"])}]
        if checksum := checksums[package["name"], package["version"]]:
            described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return described

    (root,) = (identity for identity, package in packages.items() if package["name"] == "belljar")
    found, waiting = {root}, [root]
    while waiting:
        new = set(linked(waiting.pop())) - found
        found |= new
        waiting += new
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {"component": component(root) | {"type": "application"}},
        "components": [component(identity) for identity in sorted(found - {root}, key=reference)],
        "dependencies": [
            {"ref": reference(identity), "dependsOn": sorted({reference(one) for one in linked(identity)})}
            for identity in sorted(found, key=reference)
        ],
    }


def sums(out: Path) -> str:
    """What SHA256SUMS says of the release's files; the program alone, `belljar`, is none of them."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(out.glob("belljar[-_]*")))


def changes(changelog: str, version: str) -> str:
    """The section of a version."""
    return next(section for section in changelog.split("\n## ") if section.startswith(f"[{version}]"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("target", choices=[*TARGETS, "image", "common", "changes", "sandbox", "sandbox-list", "bridge"])
    parser.add_argument("--profile", default="release")
    arguments = parser.parse_args()
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    project = Project()
    if arguments.target == "changes":
        print(changes((REPOSITORY / "CHANGELOG.md").read_text(), project.version))
        return
    if arguments.target == "image":
        pack_image(project, out)
        return
    if arguments.target == "sandbox":
        print(push_sandbox(project))
        return
    if arguments.target == "sandbox-list":
        print(push_list(("docker",), project.image("belljar-sandbox"), list(PROCESSORS)))
        return
    if arguments.target == "bridge":
        print(push_bridge(project, out))
        return
    if arguments.target == "common":
        subprocess.run(["maturin", "sdist", "--out", str(out)], cwd=REPOSITORY, check=True)
        pack_npm(project, out)
        write(out / "server.json", as_json(server_json(project, sorted(out.glob("*.mcpb")))))
        write(PLUGIN, plugin(project))
        write(out / "install.sh", installer(project), 0o755)
        write(out / "belljar.rb", formula(project, out))
        write(out / f"belljar-{project.version}.cdx.json", as_json(bill_of_materials()))
        write(out / "SHA256SUMS", sums(out))
        return
    program = build_wheel(project, out, arguments.profile, arguments.target)
    pack_npm_platform(project, out, program, arguments.target)
    architecture = TARGETS[arguments.target][2]
    if architecture is not None:
        pack_deb(project, out, program, architecture)
    pack_archive(out, program, arguments.target)
    pack_bundle(project, out, program, arguments.target)


if __name__ == "__main__":
    main()
