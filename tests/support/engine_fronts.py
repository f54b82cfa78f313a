"""Stands in front of an engine's Unix socket: an SSH server, TLS for clients with a certificate, or TCP.

usage: engine_fronts.py ssh FOLDER | engine_fronts.py tls FOLDER SOCKET | engine_fronts.py tcp SOCKET

Writes keys or certificates into FOLDER and prints the port on 127.0.0.1. It ends with its stdin. Each line there is a
command for the connections over TCP or TLS:
  cut          ends those that there are
  hold         passes no more bytes of those that there are, which stay open
  random SEED  ends each new one after a random time below half a second
  refuse       ends each new one at once
  wait         waits until three were ended at once
  calm         lets new ones be
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import random
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import asyncssh
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

CHUNK = 65536


class Forwarding(asyncssh.SSHServer):
    """Lets whoever has the key reach any Unix socket, and nothing else."""

    def unix_connection_requested(self, dest_path: str) -> bool:
        return bool(dest_path)


async def serve_ssh(folder: Path) -> int:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(folder / "key")
    (folder / "key").chmod(0o600)
    host = asyncssh.generate_private_key("ssh-ed25519")
    authorized = asyncssh.import_authorized_keys(key.export_public_key().decode())
    server = await asyncssh.create_server(
        Forwarding, "127.0.0.1", 0, server_host_keys=[host], authorized_client_keys=authorized
    )
    port: int = server.get_port()
    known = host.export_public_key().decode().strip()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}\n")
    return port


def certify(folder: Path) -> None:
    """Makes an authority, and certificates for the engine and its client."""
    begin, end = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2020, 2100))
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])

    def write(name: str, key: ec.EllipticCurvePrivateKey, is_authority: bool) -> None:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(
            authority,
            authority if is_authority else subject,
            key.public_key(),
            x509.random_serial_number(),
            begin,
            end,
        ).add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        if not is_authority:
            place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
            builder = builder.add_extension(place, critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def make_key(name: str) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.pem").write_bytes(key.private_bytes(*form))
        return key

    write("ca", authority_key, True)
    write("cert", make_key("key"), False)
    write("engine", make_key("engine-key"), False)


class Connections:
    """Those over TCP or TLS."""

    def __init__(self) -> None:
        self.writers: set[asyncio.StreamWriter] = set()
        self.held: set[asyncio.StreamWriter] = set()
        # How long new ones last, in seconds.
        self.lasting: Callable[[], float] | None = None
        self.refused = asyncio.Semaphore(0)

    async def obey(self, words: list[str]) -> None:
        match words:
            case ["cut"]:
                for writer in self.writers:
                    writer.transport.abort()
            case ["hold"]:
                self.held |= self.writers
            case ["random", seed]:
                chance = random.Random(int(seed))
                self.lasting = lambda: chance.random() / 2
            case ["refuse"]:
                self.lasting = lambda: 0.0
            case ["wait"]:
                for _ in range(3):
                    await self.refused.acquire()
            case ["calm"]:
                self.lasting = None

    async def forward(self, socket: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lasting = None if self.lasting is None else self.lasting()
        if lasting == 0:
            writer.transport.abort()
            self.refused.release()
            return
        engine_reader, engine_writer = await asyncio.open_unix_connection(socket)
        pair = {writer, engine_writer}
        self.writers |= pair
        try:
            async with asyncio.timeout(lasting):
                await asyncio.gather(self.copy(reader, engine_writer), self.copy(engine_reader, writer))
        except TimeoutError:
            pass
        finally:
            for end in pair:
                end.transport.abort()
            self.writers -= pair

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                if writer in self.held:
                    await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, NotImplementedError):
            writer.close()


CONNECTIONS = Connections()


async def serve_tls(folder: Path, socket: str) -> int:
    certify(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "engine.pem", folder / "engine-key.pem")

    return await serve_tcp(socket, context)


async def serve_tcp(socket: str, context: ssl.SSLContext | None = None) -> int:
    server = await asyncio.start_server(partial(CONNECTIONS.forward, socket), "127.0.0.1", 0, ssl=context)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def main() -> None:
    match sys.argv[1:]:
        case ["ssh", folder]:
            port = await serve_ssh(Path(folder))
        case ["tls", folder, socket]:
            port = await serve_tls(Path(folder), socket)
        case ["tcp", socket]:
            port = await serve_tcp(socket)
        case _:
            sys.exit(__doc__)
    print(port, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await CONNECTIONS.obey(line.split())
        print("done", flush=True)


asyncio.run(main())
