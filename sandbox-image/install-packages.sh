#!/bin/sh
# Runs in the Containerfile's first stage: installs wheels below OUT, as a tree to be copied over the root. CONTEXT has any
# of requirements.lock (the data-science set), with.txt (packages asked for, which are locked now) and with.lock (those
# that were locked before).
# usage: install-packages.sh CONTEXT OUT
set -eu
context=$1
out=$2
share=$out/usr/local/share/belljar

# The host's bundle is here when the host has one of its own; it is used by this stage and not copied on.
if [ -s "$context/ca-bundle.pem" ]; then
    export PIP_CERT="$context/ca-bundle.pem"
fi
# Distributions mark their python as theirs; in an image that serves one purpose nothing else owns it.
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# Of this stage only: what is looked at to be locked is not downloaded twice.
export PIP_CACHE_DIR=/tmp/pip

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "install-packages: the base image has no python3 of version 3.11 or later" >&2
    exit 1
}
mkdir -p "$share"

# What the base has in another version is removed at the end, by keep-one-copy.py: a distribution's package (Debian 13's
# pip brings one) could not be removed by pip.
install() {
    python3 -m pip install --quiet --no-warn-script-location --no-compile --no-deps --only-binary=:all: --require-hashes \
        --ignore-installed --root "$out" -r "$1"
}

if [ -s "$context/requirements.lock" ] || [ -s "$context/with.txt" ] || [ -s "$context/with.lock" ]; then
    python3 -m pip --version >/dev/null || {
        echo "install-packages: the base image has no pip" >&2
        exit 1
    }
fi
if [ -s "$context/requirements.lock" ]; then
    install "$context/requirements.lock"
fi
if [ -s "$context/with.txt" ]; then
    # What is there stays as it is: a package that does not go with it is an error, and no half of an upgrade.
    python3 -m pip freeze | grep '^[A-Za-z0-9._-]*==' >/tmp/have.txt || true
    if [ -s "$context/requirements.lock" ]; then
        sed -n 's/^\([^ #]*==[^\\]*\).*$/\1/p' "$context/requirements.lock" >>/tmp/have.txt
    fi
    python3 -m pip install --quiet --dry-run --only-binary=:all: --report /tmp/report.json --constraint /tmp/have.txt \
        -r "$context/with.txt"
    python3 "$context/lock-packages.py" /tmp/report.json "$context/requirements.lock" >"$share/with.lock"
elif [ -s "$context/with.lock" ]; then
    cp "$context/with.lock" "$share/with.lock"
fi
if [ -s "$share/with.lock" ]; then
    install "$share/with.lock"
fi

# Never imported by user code, a third of the size.
find "$out" -depth -type d \( -path '*/pandas/tests' -o -path '*/scipy/*/tests' -o -path '*/sklearn/*tests' \
    -o -path '*/pyarrow/tests' -o -path '*/pyarrow/include' \) -exec rm -rf {} +

# The root is read-only at run time, so bytecode is made now. Unchecked: image layers do not keep exact mtimes.
# -s and -p make tracebacks name the final path.
if [ -d "$out/usr/local/lib" ]; then
    python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$out" -p / "$out/usr/local/lib" ||
        echo "some files are not valid for this python and stay uncompiled" >&2
fi

(cd "$out" && find . -type d -name '*.dist-info') >"$share/installed.txt"
cp "$context/install-languages.sh" "$context/keep-one-copy.py" "$context/finish-image.sh" "$share/"
