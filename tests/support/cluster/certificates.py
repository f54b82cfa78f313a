"""An authority and the server's certificate by it."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BEGIN, END = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2020, 2100))


def write(folder: Path) -> str:
    """Writes `server.crt` and `server.key`, and returns the authority's certificate as PEM."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("stand-in authority")
    authority = _builder(issuer, issuer, authority_key).add_extension(x509.BasicConstraints(True, None), True)
    addresses = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    )
    server = _builder(issuer, _name("stand-in"), key).add_extension(addresses, False)
    signed = server.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "server.crt").write_bytes(signed)
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    pem = authority.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return pem.decode()


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), BEGIN, END)
    return builder.add_extension(identifier, False)
