#!/bin/sh
# Runs in the image's last stage: installs the languages that LANGUAGES names, from the distribution's packages.
set -eu
here=/usr/local/share/belljar
packages=
for language in ${LANGUAGES:-}; do
    case $language in
    c) packages="$packages gcc libc6-dev" ;;
    c++) packages="$packages g++ libc6-dev" ;;
    javascript) packages="$packages nodejs" ;;
    ruby) packages="$packages ruby" ;;
    php) packages="$packages php-cli" ;;
    *)
        echo "install-languages: there is no language '$language'" >&2
        exit 1
        ;;
    esac
done
rm -f "$here/install-languages.sh"
[ -n "$packages" ] || exit 0
command -v apt-get >/dev/null || {
    echo "install-languages: the base image has no apt-get; languages can be added to one of Debian or Ubuntu, such as docker.io/library/python:3.14-slim" >&2
    exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# shellcheck disable=SC2086 # words
apt-get -q install --yes --no-install-recommends $packages
rm -rf /usr/share/doc /usr/share/man /usr/share/locale
