"""A certificate authority of one test, and a certificate that it issued for 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _issue(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey) -> bytes:
    now, is_authority = datetime.datetime.now(datetime.UTC), subject == issuer
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=10))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([here]), critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def make(directory: Path) -> tuple[Path, Path]:
    """Returns the authority's certificate, and a file with the server's certificate and key."""
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (directory / "authority.pem").write_bytes(_issue("authority", "authority", authority, authority))
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "server.pem").write_bytes(_issue("server", "authority", server, authority) + key)
    return directory / "authority.pem", directory / "server.pem"
