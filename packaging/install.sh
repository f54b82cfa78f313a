#!/bin/sh
# Installs belljar from the files of its release into ~/.local/bin. packaging/package.py writes the release's address into it.
set -eu

release="${BELLJAR_RELEASE:-@RELEASE@}"
bin=$HOME/.local/bin

fail() {
    echo "belljar is not installed: $*" >&2
    exit 1
}

fetch() {
    if command -v curl >/dev/null; then curl -fsSL "$1"; else wget -qO- "$1"; fi || fail "$1 cannot be fetched"
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

main() {
    case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
    Linux-aarch64) target=aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) target=x86_64-apple-darwin ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) fail "there is no program for $(uname -s) on $(uname -m)" ;;
    esac
    archive=belljar-$target.tar.gz
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    fetch "$release/$archive" >"$folder/$archive"
    fetch "$release/SHA256SUMS" >"$folder/sums"
    [ "$(sha256 <"$folder/$archive")  $archive" = "$(grep "  $archive\$" "$folder/sums")" ] ||
        fail "$release/$archive has another checksum than SHA256SUMS beside it"
    tar -xzf "$folder/$archive" -C "$folder" belljar
    version=$("$folder/belljar" --version) || fail "the program does not start here; on Linux it needs glibc @GLIBC@ or newer"
    mkdir -p "$bin"
    # The old program may be running, so it is replaced and not overwritten.
    cp "$folder/belljar" "$bin/belljar.new"
    mv "$bin/belljar.new" "$bin/belljar"
    echo "installed $version as $bin/belljar"
    case :$PATH: in
    *":$bin:"*) ;;
    *) echo "Add it to PATH, in ~/.profile or what your shell reads: export PATH=\"\$HOME/.local/bin:\$PATH\"" ;;
    esac
}

# Nothing happens before the whole file has arrived.
main
