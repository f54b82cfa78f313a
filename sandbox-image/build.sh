#!/usr/bin/env bash
# Builds the sandbox image once, keeps it as an archive in the cache, and loads it into every engine asked for.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: sandbox-image/build.sh [--engine podman|docker] [--rebuild] [ENDPOINT...]

ENDPOINT is `podman` (this user's, through its command line), `docker`, or `unix:///path/to.sock`.
Without one: podman, else docker, whichever is installed.

  --engine    build with this engine (default: podman if installed, else docker)
  --rebuild   build again although the content is the same, for a newer base image

Environment:
  BASE_IMAGE     base to build on; the default is pulled, and where no registry can be reached a base is made from the
                 distribution's packages with debootstrap
  SANDBOX_IMAGE  another name for the image, to try one beside that which sandboxes have
  BELLJAR_CACHE  where archives are kept (default: ${XDG_CACHE_HOME:-~/.cache}/belljar)
  PIP_INDEX_URL, PIP_DEFAULT_TIMEOUT   passed to pip in the build, not kept in the image
  PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE   the first that names a file is pip's certificate bundle in the build

To change the packages: edit requirements.in, then
  uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
      --only-binary :all: sandbox-image/requirements.in -o sandbox-image/requirements.lock
TEXT
}

image=${SANDBOX_IMAGE:-localhost/belljar-sandbox:latest}
local_base=localhost/belljar-base:latest
content_label=org.belljar.content
stage_label=org.belljar.stage=packages
default_base=docker.io/library/python:3.14-slim
context_files=(requirements.lock install-packages.sh install-languages.sh keep-one-copy.py finish-image.sh)

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${BELLJAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar}
# Version managers put slow shims first in PATH, and any python3 does here.
python=$(command -v /usr/bin/python3 || command -v python3 || true)

say() { printf 'sandbox-image: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

main() {
    local engine='' rebuild=no built_with='' endpoints=()
    while [ $# -gt 0 ]; do
        case $1 in
        --engine) engine=${2:?--engine needs a name}; shift ;;
        --rebuild) rebuild=yes ;;
        -h | --help) usage; exit 0 ;;
        podman | docker | unix://*) endpoints+=("$1") ;;
        *) usage >&2; exit 2 ;;
        esac
        shift
    done
    if [ -z "$engine" ]; then
        engine=$(command -v podman >/dev/null && echo podman || echo docker)
    fi
    command -v "$engine" >/dev/null || die "neither podman nor docker is installed (Debian, Ubuntu: apt-get install podman)"
    [ ${#endpoints[@]} -gt 0 ] || endpoints=("$engine")

    mkdir -p "$cache"
    # Two builds at a time would do the same work twice. (macOS has no flock, and there it does no harm.)
    exec 9>"$cache/image.lock"
    ! command -v flock >/dev/null || flock 9

    local key archive missing=() endpoint
    key=$(content_key)
    archive=$cache/sandbox-$key.tar
    if [ "$rebuild" = yes ]; then
        rm -f "$archive"
        missing=("${endpoints[@]}")
    else
        for endpoint in "${endpoints[@]}"; do
            [ "$(content_of "$endpoint")" = "$key" ] || missing+=("$endpoint")
        done
        [ ${#missing[@]} -gt 0 ] || exit 0
    fi
    if [ ! -s "$archive" ]; then
        if [ "$rebuild" = yes ] || [ "$(content_of "$engine")" != "$key" ]; then
            build "$engine" "$key"
            built_with=$engine
        fi
        keep "$engine" "$archive"
    fi
    load_all "${missing[@]}"
}

# What decides the image's content; the scripts around it do not.
content_key() {
    (
        cd "$repository"
        echo "${BASE_IMAGE:-$default_base} $(uname -m)"
        cat Containerfile "${context_files[@]/#/sandbox-image/}"
    ) | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16
}

content_of() {
    case $1 in
    unix://*) api label "${1#unix://}" "$image" "$content_label" || true ;;
    *) "$1" image inspect --format "{{index .Config.Labels \"$content_label\"}}" "$image" 2>/dev/null || true ;;
    esac
}

api() { "$python" "$repository/scripts/engine_api.py" "$@"; }

build() {
    local engine=$1 key=$2 base name context options=()
    base=$(find_base "$engine")
    context=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory is known now
    trap "rm -rf '$context'" EXIT
    mkdir "$context/sandbox-image"
    cp "$repository/Containerfile" "$context/"
    cp "${context_files[@]/#/$repository/sandbox-image/}" "$context/sandbox-image/"
    for name in "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}"; do
        if [ -f "$name" ]; then
            cp "$name" "$context/sandbox-image/ca-bundle.pem"
            break
        fi
    done
    for name in PIP_INDEX_URL PIP_DEFAULT_TIMEOUT HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
        [ -z "${!name:-}" ] || options+=(--build-arg "$name=${!name}")
    done
    case $engine in
    # Explicit limits: root without CAP_SYS_RESOURCE cannot set podman's own default.
    podman) options+=(--layers=false --ulimit nofile=1024:4096 --ulimit nproc=4096:4096) ;;
    # The classic builder is in every docker; buildx is a plugin that may be missing.
    docker) export DOCKER_BUILDKIT=0 ;;
    esac
    say "building $image with $engine on $base (about a minute)"
    # The host's network, for daemons that run without a bridge of their own.
    if ! "$engine" build --network=host --build-arg "BASE_IMAGE=$base" ${options[@]+"${options[@]}"} \
        --label "$content_label=$key" --label "org.belljar.base=$base" \
        --tag "$image" --file "$context/Containerfile" "$context" >"$cache/image-build.log" 2>&1; then
        tail -n 25 "$cache/image-build.log" >&2
        die "the build failed; the whole output is in $cache/image-build.log"
    fi
    # The stage, and the image that had the name until now.
    for name in "$stage_label" "$content_label"; do
        "$engine" image prune --force --filter "label=$name" >/dev/null 2>&1 || true
    done
}

# Prints the name of a base image that ENGINE has.
find_base() {
    local engine=$1 wanted=${BASE_IMAGE:-$default_base} problem
    if [ -n "${BASE_IMAGE:-}" ] && has_image "$engine" "$wanted"; then
        echo "$wanted"
        return
    fi
    say "pulling $wanted"
    if problem=$(with_limit 600 "$engine" pull "$wanted" 2>&1); then
        echo "$wanted"
    elif [ -n "${BASE_IMAGE:-}" ]; then
        die "cannot pull BASE_IMAGE: $(printf '%s' "$problem" | tail -n 1)"
    elif has_image "$engine" "$wanted"; then
        echo "$wanted"
    else
        say "no registry can be reached; using a base made from distribution packages"
        has_image "$engine" "$local_base" || import_local_base "$engine"
        echo "$local_base"
    fi
}

has_image() { "$1" image inspect "$2" >/dev/null 2>&1; }

with_limit() {
    if command -v timeout >/dev/null; then timeout "$@"; else shift && "$@"; fi
}

import_local_base() {
    local engine=$1 archive
    archive=$cache/base-$(uname -m).tar.gz
    [ -s "$archive" ] || bootstrap "$archive"
    "$engine" import "$archive" "$local_base" >"$cache/base-import.log" 2>&1 ||
        die "$engine could not import $archive: $(tail -n 1 "$cache/base-import.log")"
}

bootstrap() {
    local archive=$1 root privilege=() suite mirror components
    command -v debootstrap >/dev/null || die "a local base needs debootstrap (Debian, Ubuntu: apt-get install debootstrap)"
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || die "a local base needs root, or sudo without a password, for debootstrap"
        privilege=(sudo -n)
    fi
    # The machine's own suite and mirror: what apt reaches, debootstrap reaches.
    # shellcheck disable=SC1091 # a file of the machine
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC2016 # apt's own placeholders
    mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$suite" '$1 == suite && $2 == "main" { print $3; exit }')
    [ -n "$mirror" ] || die "apt names no source for '$suite'; run apt-get update first"
    # Ubuntu keeps pip in universe; Debian has no component of that name.
    components=main
    if grep -qx 'ID=ubuntu' /etc/os-release; then
        components=main,universe
    fi
    root=$(mktemp -d "$cache/base.XXXXXX")
    say "making a base image from $suite packages (about a minute)"
    if ! "${privilege[@]}" debootstrap --variant=minbase --components="$components" \
        --include=python3,python3-pip,ca-certificates "$suite" "$root" "$mirror" >"$cache/base-build.log" 2>&1; then
        "${privilege[@]}" rm -rf --one-file-system "$root"
        tail -n 15 "$cache/base-build.log" >&2
        die "debootstrap failed; its output is in $cache/base-build.log"
    fi
    "${privilege[@]}" tar -C "$root" --numeric-owner --exclude='./var/cache/apt/archives/*.deb' \
        --exclude='./var/lib/apt/lists/*' -c . | gzip -1 >"$archive.new" || rm -f "$archive.new"
    "${privilege[@]}" rm -rf --one-file-system "$root"
    mv "$archive.new" "$archive" || die "the base image could not be written to $cache"
}

# One archive is kept: the older ones are of a content that no checkout here has any more.
keep() {
    local engine=$1 archive=$2
    rm -f "$cache"/sandbox-*.tar "$archive.new"
    "$engine" save --output "$archive.new" "$image" >/dev/null 2>&1 || die "$engine could not save $image"
    mv "$archive.new" "$archive"
}

# Reads main's archive, key and built_with.
load_all() {
    local endpoint job jobs=() failed=no
    for endpoint in "$@"; do
        [ "$endpoint" != "$built_with" ] || continue
        load "$endpoint" &
        jobs+=($!)
    done
    for job in ${jobs[@]+"${jobs[@]}"}; do
        wait "$job" || failed=yes
    done
    [ "$failed" = no ] || exit 1
}

load() {
    local endpoint=$1
    case $endpoint in
    unix://*) api load "${endpoint#unix://}" "$archive" ;;
    *) "$endpoint" load --quiet --input "$archive" >/dev/null ;;
    esac || die "loading into $endpoint failed"
    [ "$(content_of "$endpoint")" = "$key" ] || die "$endpoint took the archive but has another $image"
    # The image that had the name until now would stay on disk, untagged.
    case $endpoint in
    unix://*) api prune "${endpoint#unix://}" "$content_label" ;;
    *) "$endpoint" image prune --force --filter "label=$content_label" >/dev/null 2>&1 ;;
    esac || say "could not remove older images from $endpoint"
    say "loaded into $endpoint"
}

main "$@"
