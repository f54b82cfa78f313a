#!/bin/sh
# Makes a virtual environment for sandboxes without a container engine. CONTEXT, a folder below OUT, has the same files as
# for install-packages.sh. PYTHON is the interpreter, and GUEST the place where a sandbox has OUT. BEGUN is an environment of
# the same interpreter: if it has the same requirements.lock, OUT shares its files.
# It runs with the user's rights, so nothing that is installed is executed here: pip is that of another environment.
# usage: make-environment.sh CONTEXT OUT PYTHON GUEST [BEGUN]
set -eu
umask 022
exec </dev/null >&2
context=$1
out=$2
python=$3
guest=$4
begun=${5:-}
share=$out/share/belljar

if [ -s "$context/ca-bundle.pem" ]; then
    export PIP_CERT="$context/ca-bundle.pem"
fi
# What pip has downloaded stays in the user's own cache; how the user has configured pip is not for this.
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
export TMPDIR="$context"

version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$python" -I -m venv "$context/tool" >"$context/venv.log" 2>&1; then
    cat "$context/venv.log"
    if grep -q ensurepip "$context/venv.log"; then
        echo "make-environment: $python cannot make virtual environments; install what it lacks with \`sudo apt-get install python3-venv\` (or your distribution's way)"
    fi
    exit 1
fi
tool=$context/tool/bin/python
site=lib/python$version/site-packages
if [ -n "$begun" ] && cmp -s "$begun/share/belljar/requirements.lock" "$context/requirements.lock"; then
    cp -al "$begun/bin" "$begun/lib" "$begun/lib64" "$begun/share" "$begun/pyvenv.cfg" "$out/"
    # Others are written anew.
    rm -rf "$out/share/belljar"
else
    begun=
    mkdir -p "$out/bin" "$out/$site"
    ln -s lib "$out/lib64"
    for name in python python3 "python$version"; do
        ln -s "$python" "$out/bin/$name"
    done
    printf 'home = %s\ninclude-system-site-packages = false\nversion = %s\n' "${python%/*}" "$version" >"$out/pyvenv.cfg"
fi
mkdir -p "$share"
cp "$context/requirements.lock" "$share/"

install() {
    "$tool" -I -m pip install --quiet --no-warn-script-location --no-compile --no-deps --only-binary=:all: \
        --require-hashes --ignore-installed --prefix "$out" -r "$1"
}

sed -n 's/^\([^ #]*==[^\\]*\).*$/\1/p' "$context/requirements.lock" >"$context/have.txt"
if [ -s "$context/with.txt" ]; then
    "$tool" -I -m pip install --quiet --dry-run --ignore-installed --only-binary=:all: --report "$context/report.json" \
        --constraint "$context/have.txt" -r "$context/with.txt"
    "$python" -I "$context/lock-packages.py" "$context/report.json" "$context/requirements.lock" >"$share/with.lock"
elif [ -s "$context/with.lock" ]; then
    cp "$context/with.lock" "$share/with.lock"
fi
if [ -z "$begun" ]; then
    install "$share/requirements.lock"
fi
if [ -s "$share/with.lock" ]; then
    install "$share/with.lock"
fi

# Never imported by user code, a third of the size.
find "$out" -depth -type d \( -path '*/pandas/tests' -o -path '*/scipy/*/tests' -o -path '*/sklearn/*tests' \
    -o -path '*/pyarrow/tests' -o -path '*/pyarrow/include' \) -exec rm -rf {} +

# Scripts and tracebacks name the final path.
"$python" -I - "$out/bin" "$tool" "$guest/bin/python" <<'PYTHON'
import pathlib, sys
folder, here, there = sys.argv[1:]
for script in pathlib.Path(folder).iterdir():
    text = b"" if script.is_symlink() else script.read_bytes()
    if here.encode() in text:
        script.write_bytes(text.replace(here.encode(), there.encode()))
PYTHON
# What is shared is compiled.
set --
for entry in "$out/$site"/*; do
    if [ -z "$begun" ] || [ ! -e "$begun/$site/${entry##*/}" ]; then
        set -- "$@" "$entry"
    fi
done
if [ $# -gt 0 ]; then
    "$python" -I -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$out" -p "$guest" "$@" ||
        echo "some files are not valid for this python and stay uncompiled"
fi

rm -rf "$context"
{ du -sk "$out" | cut -f1 && date -u +%Y-%m-%dT%H:%M:%SZ; } >"$share/made"
# Code has another user than the one who makes this.
chmod -R u+rwX,go+rX,go-w "$out"
