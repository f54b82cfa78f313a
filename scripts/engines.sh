#!/usr/bin/env bash
# Starts and stops the engines that the tests talk to, each on a private socket: rootful Podman, rootless Podman, Docker.
# Called by setup.sh: up, down, and machine (only the cgroup quirk below, which any engine here needs taken care of).
#
# What it never does: use, stop or reconfigure an engine service that the machine already runs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BELLJAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar}
test_user=belljar-test
docker_data=/var/lib/belljar-test-docker
env_file=$cache/engines.env
absent=()
# Ordinary users have no sbin in PATH, where dockerd is.
export PATH="$PATH:/usr/sbin:/sbin"
# Version managers put slow shims first in PATH, and any python3 does here.
python=$(command -v /usr/bin/python3 || command -v python3)

say() { printf 'engines: %s\n' "$*" >&2; }

# Privileged steps go through this: nothing for root, sudo where it asks no password, else they are not taken.
if [ "$(id -u)" = 0 ]; then
    can_root=yes
    as_root() { "$@"; }
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    can_root=yes
    as_root() { sudo -n "$@"; }
else
    can_root=no
    as_root() { return 1; }
fi
as_root_if_can() { if [ "$can_root" = yes ]; then as_root "$@"; else "$@"; fi; }

if [ "$can_root" = yes ]; then
    run=${BELLJAR_TEST_RUN:-/run/belljar-test}
else
    run=${BELLJAR_TEST_RUN:-${XDG_RUNTIME_DIR:-/tmp/belljar-test-$(id -u)}/belljar-test}
fi
rootful_sock=$run/podman/podman.sock
rootless_sock=$run/rootless/podman.sock
docker_sock=$run/docker/docker.sock
rootful_process="^podman system service .*unix://$rootful_sock\$"
rootless_process="^podman system service .*unix://$rootless_sock\$"
docker_process="^dockerd --host unix://$docker_sock "
# Its containerd and the shims of its containers, which a killed dockerd leaves behind.
docker_remains="^[^ ]*containerd.* $run/docker/exec/"

# A registry of images on loopback, from which the engines pull without TLS.
registry=$cache/registry/usr/bin/docker-registry
registry_dir=$run/registry
registries=CONTAINERS_REGISTRIES_CONF=$registry_dir/registries.conf
registry_process="^$registry serve $registry_dir/config.yml\$"

# The sockets are given to the invoking user below, so no privilege is needed to ask.
answers() { "$python" "$here/engine_api.py" ping "$1"; }

# --- Quirks of small build machines; each is taken care of only where it shows. ------------------------------------

# crun refuses a hybrid cgroup tree in which the v2 side has controllers. Attaching hugetlb to v1 takes it from there.
quirk_hybrid_cgroups() {
    local v2=/sys/fs/cgroup/unified/cgroup.controllers dir=/sys/fs/cgroup/hugetlb
    [ "$can_root" = yes ] && [ -r "$v2" ] && grep -qw hugetlb "$v2" || return 0
    mountpoint -q "$dir" && return 0
    as_root mkdir -p "$dir"
    as_root mount -t cgroup -o hugetlb cgroup "$dir" || say "cannot attach the hugetlb controller to cgroup v1"
}

# Root without CAP_SYS_RESOURCE cannot raise limits, and the engine's defaults are higher than what it has.
# Prints the environment for the service; CONTAINERS_CONF is read by the service, not by its clients.
quirk_no_sys_resource() {
    local effective
    effective=$(as_root sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    (( (16#$effective >> 24) & 1 )) && return 0
    printf '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]\n' |
        as_root tee "$run/podman/containers.conf" >/dev/null
    echo "CONTAINERS_CONF=$run/podman/containers.conf"
}

# --- Starting and stopping -----------------------------------------------------------------------------------------

# Runs a command as a daemon that outlives this script and holds none of its descriptors (a pipe kept open would hang
# whoever reads our output). usage: daemon LOG COMMAND...
daemon() {
    local log=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    setsid --fork bash -c 'log=$1; shift; exec "$@" </dev/null >>"$log" 2>&1 9>&-' daemon "$log" "$@" \
        </dev/null >/dev/null 2>&1 9>&-
}

as_root_daemon() {
    local log=$1
    shift
    if [ "$(id -u)" = 0 ]; then
        daemon "$log" "$@"
    else
        as_root touch "$log"
        as_root chown "$(id -u)" "$log"
        daemon "$log" sudo -n "$@"
    fi
}

# usage: wait_for SOCKET LOG
wait_for() {
    local tries=0
    until [ -S "$1" ] && give_to_caller "$1" && answers "$1"; do
        tries=$((tries + 1))
        if [ "$tries" -ge 150 ]; then
            return 1
        fi
        sleep 0.1
    done
}

give_to_caller() {
    [ "$(id -u)" = 0 ] || [ -O "$1" ] || as_root chown "$(id -u)" "$1"
}

# The end of a service's log, as a reason for the list of what is absent.
reason_from() {
    local text
    text=$(as_root_if_can tail -n 3 "$1" 2>/dev/null | tr -c 'a-zA-Z0-9 .,:/_=()\n-' ' ' | tr '\n' ' ' | cut -c1-300) || true
    printf '%s' "${text:-no answer and nothing in $1}"
}

# Ends every process whose command line matches. By pattern, not by pid file: rootless podman starts itself again under
# another number, and after a restart of the machine an old number is somebody else's. usage: stop NAME PATTERN
stop() {
    local name=$1 pattern=$2 tries=0 pid
    pgrep -f -- "$pattern" >/dev/null || return 0
    for pid in $(pgrep -f -- "$pattern"); do
        as_root_if_can kill "$pid" 2>/dev/null || true
    done
    while pgrep -f -- "$pattern" >/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" = 100 ]; then
            for pid in $(pgrep -f -- "$pattern"); do
                as_root_if_can kill -KILL "$pid" 2>/dev/null || true
            done
        elif [ "$tries" -gt 120 ]; then
            say "$name does not end"
            return 0
        fi
        sleep 0.1
    done
    say "$name stopped"
}

registry_up() {
    if [ ! -x "$registry" ]; then
        absent+=("registry: docker-registry is not in $cache/registry")
        return
    fi
    as_root_if_can install -d -m 0755 -o "$(id -u)" "$registry_dir"
    # The engines read it once, so the port stays the same.
    if [ ! -e "$registry_dir/port" ]; then
        "$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])' >"$registry_dir/port"
    fi
    local address
    address=127.0.0.1:$(cat "$registry_dir/port")
    printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$address" >"$registry_dir/registries.conf"
    printf '{version: 0.1, storage: {filesystem: {rootdirectory: %s}}, http: {addr: "%s"}}\n' \
        "$registry_dir/images" "$address" >"$registry_dir/config.yml"
    pgrep -f -- "$registry_process" >/dev/null || daemon "$registry_dir/log" "$registry" serve "$registry_dir/config.yml"
}

rootful_up() {
    if [ "$can_root" = no ]; then
        absent+=("podman-rootful: needs root or sudo without a password")
        return
    fi
    if ! command -v podman >/dev/null; then
        absent+=("podman-rootful: podman is not installed")
        return
    fi
    answers "$rootful_sock" && return
    stop podman-rootful "$rootful_process"
    as_root rm -f "$rootful_sock"
    local environment
    environment=$(quirk_no_sys_resource)
    # shellcheck disable=SC2086 # one assignment or none
    # Podman leaves a file named `oom` in its folder when a container runs out of memory.
    (cd "$run/podman" && as_root_daemon "$run/podman/log" env "$registries" $environment podman system service --time=0 "unix://$rootful_sock")
    wait_for "$rootful_sock" || absent+=("podman-rootful: $(reason_from "$run/podman/log")")
}

# Root is not an ordinary user: it gets one made for this. Anybody else is one already.
rootless_up() {
    if ! command -v podman >/dev/null; then
        absent+=("podman-rootless: podman is not installed")
        return
    fi
    if ! command -v newuidmap >/dev/null; then
        absent+=("podman-rootless: newuidmap is not installed (Debian: uidmap)")
        return
    fi
    answers "$rootless_sock" && return
    if [ "$(id -u)" != 0 ]; then
        if ! grep -q "^$(id -un):" /etc/subuid; then
            absent+=("podman-rootless: $(id -un) has no range in /etc/subuid")
            return
        fi
        stop podman-rootless "$rootless_process"
        rm -f "$rootless_sock"
        daemon "$run/rootless/log" env "$registries" podman system service --time=0 "unix://$rootless_sock"
        wait_for "$rootless_sock" || absent+=("podman-rootless: $(reason_from "$run/rootless/log")")
        return
    fi
    if ! getent passwd "$test_user" >/dev/null; then
        absent+=("podman-rootless: there is no user $test_user, run setup.sh test")
        return
    fi
    stop podman-rootless "$rootless_process"
    local home
    home=$(getent passwd "$test_user" | cut -d: -f6)
    rm -f "$rootless_sock"
    # Podman joins the namespace of the process named there, whoever has that number by now. Without that process its
    # containers have ended as well, and Podman starts only if it does not take them for running: as after a reboot.
    if ! pause_is_ours; then
        rm -rf "$run/rootless/xdg"
    fi
    install -d -m 0700 -o "$test_user" -g "$(id -g "$test_user")" "$run/rootless" "$run/rootless/xdg"
    (
        cd /
        daemon "$run/rootless/log" setpriv --reuid "$test_user" --regid "$(id -g "$test_user")" --init-groups \
            env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" \
            XDG_RUNTIME_DIR="$run/rootless/xdg" "$registries" podman system service --time=0 "unix://$rootless_sock"
    )
    wait_for "$rootless_sock" || absent+=("podman-rootless: $(reason_from "$run/rootless/log")")
}

pause_is_ours() {
    local pid
    pid=$(cat "$run/rootless/xdg/libpod/tmp/pause.pid" 2>/dev/null) || return 1
    [ -n "$pid" ] && [ "$(stat -c %U "/proc/$pid" 2>/dev/null)" = "$test_user" ]
}

docker_up() {
    if [ "$can_root" = no ]; then
        if [ -S /var/run/docker.sock ] && answers /var/run/docker.sock; then
            docker_sock=/var/run/docker.sock
        else
            absent+=("docker: needs root, sudo without a password, or access to a running docker")
        fi
        return
    fi
    if ! command -v dockerd >/dev/null; then
        absent+=("docker: dockerd is not installed")
        return
    fi
    answers "$docker_sock" && return
    docker_runtimes | as_root tee "$run/docker/daemon.json" >/dev/null
    stop docker "$docker_process"
    if ! clear_docker_remains; then
        absent+=("docker: remains of a killed dockerd in $run/docker/exec cannot be removed")
        return
    fi
    # Own namespaces in containerd: where a system-wide one runs, dockerd uses it, and would share "moby" with the other.
    as_root_daemon "$run/docker/log" dockerd --host "unix://$docker_sock" --iptables=false --ip6tables=false \
        --bridge=none --data-root "$docker_data" --exec-root "$run/docker/exec" \
        --pidfile "$run/docker/dockerd.pid" --config-file "$run/docker/daemon.json" \
        --containerd-namespace belljar-test --containerd-plugins-namespace belljar-test-plugins
    wait_for "$docker_sock" || absent+=("docker: $(reason_from "$run/docker/log")")
}

# gVisor as one more OCI runtime, which only those containers have that ask for it. It needs neither a network, which
# sandboxes have not, nor hardware for virtual machines.
docker_runtimes() {
    local program
    if program=$(command -v runsc); then
        printf '{"runtimes": {"runsc": {"path": "%s", "runtimeArgs": ["--platform=ptrace", "--network=none"]}}}\n' "$program"
    else
        echo '{}'
    fi
}

# A killed dockerd leaves processes, mounts, and pid files that may name somebody else by now; it trusts the latter.
clear_docker_remains() {
    local mounted
    stop "docker's remains" "$docker_remains"
    while read -r mounted; do
        as_root umount --lazy "$mounted"
    done < <(awk -v a="$run/docker/" -v b="$docker_data/" 'index($2 "/", a) == 1 || index($2 "/", b) == 1 { print $2 }' \
        /proc/self/mounts | sort -r)
    as_root rm -rf --one-file-system "$run/docker/exec" "$run/docker/dockerd.pid" "$docker_sock"
}

up() {
    mkdir -p "$cache"
    if [ "$can_root" = yes ]; then
        as_root install -d -m 0755 "$run" "$run/podman" "$run/docker"
        [ "$(id -u)" = 0 ] || as_root install -d -m 0700 -o "$(id -u)" "$run/rootless"
    else
        mkdir -p "$run/rootless"
    fi
    # Two test runs may start together; the second waits and then finds everything up.
    exec 9>"$cache/engines.lock"
    flock 9
    quirk_hybrid_cgroups
    registry_up
    rootful_up
    rootless_up
    docker_up
    write_env
}

write_env() {
    local joined='' one
    for one in ${absent[@]+"${absent[@]}"}; do
        joined+="${joined:+; }$one"
    done
    {
        case $joined in *podman-rootful:*) ;; *) echo "BELLJAR_TEST_PODMAN_ROOTFUL=unix://$rootful_sock" ;; esac
        case $joined in *podman-rootless:*) ;; *) echo "BELLJAR_TEST_PODMAN_ROOTLESS=unix://$rootless_sock" ;; esac
        case $joined in *docker:*) ;; *) echo "BELLJAR_TEST_DOCKER=unix://$docker_sock" ;; esac
        case $joined in *registry:*) ;; *)
            echo "BELLJAR_TEST_REGISTRY=127.0.0.1:$(cat "$registry_dir/port")"
            echo "BELLJAR_TEST_REGISTRY_DIR=$registry_dir/images"
            ;;
        esac
        ! grep -qs '"runsc"' "$run/docker/daemon.json" || echo "BELLJAR_TEST_RUNSC=docker"
        [ -z "$joined" ] || echo "BELLJAR_TEST_ABSENT=\"$joined\""
    } >"$env_file.new"
    mv "$env_file.new" "$env_file"
    [ -z "$joined" ] || say "absent: $joined"
}

down() {
    stop registry "$registry_process"
    stop podman-rootful "$rootful_process"
    stop podman-rootless "$rootless_process"
    if [ "$(id -u)" = 0 ] && pause_is_ours; then
        kill "$(cat "$run/rootless/xdg/libpod/tmp/pause.pid")"
    fi
    if [ "$can_root" = yes ]; then
        stop docker "$docker_process"
        clear_docker_remains || say "some of docker's remains are still in $run/docker"
    fi
    rm -f "$env_file"
}

case ${1:-} in
up) up ;;
down) down ;;
machine) quirk_hybrid_cgroups ;;
*)
    echo "usage: engines.sh up | down | machine" >&2
    exit 2
    ;;
esac
