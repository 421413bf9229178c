"""Certificates for Ray's TLS: one authority and one certificate for all nodes and clients of a machine's cluster."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def tls_environment(folder: Path, address: str) -> dict[str, str]:
    """Writes the certificates, and gives the environment with which Ray uses them."""
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ip)) for ip in {address, "127.0.0.1"}])
    written = {
        "RAY_TLS_CA_CERT": _certificate("authority", authority, authority).sign(authority, SHA256()),
        "RAY_TLS_SERVER_CERT": _certificate("node", key, authority)
        .add_extension(names, critical=False)
        .sign(authority, SHA256()),
    }
    content = {name: certificate.public_bytes(Encoding.PEM) for name, certificate in written.items()}
    content["RAY_TLS_SERVER_KEY"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, pem in content.items():
        (folder / name).write_bytes(pem)
    return {"RAY_USE_TLS": "1", **{name: str(folder / name) for name in content}}


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now, own = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    return (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=key is authority, path_length=None), critical=True)
    )
