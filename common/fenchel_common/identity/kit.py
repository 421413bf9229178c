"""A kit: the folder with the certificate and key of a party or of the server, and with the roster that it trusts."""

import ipaddress
import re
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fenchel_common.errors import InvalidInput, KeyFileError, KeyMismatch, KitIncomplete, MalformedCertificate
from fenchel_common.identity.certificates import Certificate, Role
from fenchel_common.identity.roster import Roster
from fenchel_common.ids import ClientId

CERTIFICATE_FILE = "cert.pem"
KEY_FILE = "key.pem"
AUTHORITY_FILE = "ca.pem"
ROSTER_FILE = "roster.json"
SIGNATURE_FILE = "roster.sig"
SETTINGS_FILE = "kit.toml"
KIT_FILES = (SETTINGS_FILE, CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE, ROSTER_FILE, SIGNATURE_FILE)

MAX_KIT_FILE_BYTES = 1024 * 1024
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address, and a port; port 0 stands for any free port of this machine."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `host:port`, `127.0.0.1:port` or `[::1]:port`."""
        host, colon, port = text.rpartition(":")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
            raise InvalidInput(f"the address {text!r} must be HOST:PORT, such as fenchel.example.org:9092")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise InvalidInput(f"the address {text!r} must put an IPv6 host in brackets, such as [::1]:9092")
        check_host(host)
        return cls(host=host, port=int(port))

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine, without asking a name service."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_host(host: str) -> None:
    """Refuses a text that is neither a host name nor an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # Digits and dots alone are an IP address written wrongly, which a certificate would carry as a name.
        if not _HOST.fullmatch(host) or re.fullmatch(r"[0-9.]+", host):
            raise InvalidInput(f"{host!r} is neither a host name (ASCII) nor an IP address") from None


@dataclass(frozen=True, slots=True)
class KitSettings:
    """The content of `kit.toml`: the owner of the kit, the server's address for parties, and where a server listens.

    Without `listen`, which only a server's kit can have, a server listens on all interfaces.
    """

    role: Role
    name: str
    server: Address
    listen: Address | None = None

    def to_text(self) -> str:
        """The file's text; no name or host has a character that TOML would need escaped."""
        listen = "" if self.listen is None else f'listen = "{self.listen}"\n'
        return f'role = "{self.role.value}"\nname = "{self.name}"\nserver = "{self.server}"\n{listen}'


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit that `load` has read and verified; make one with `load` only."""

    directory: Path
    settings: KitSettings
    certificate: Certificate
    authority: Certificate
    roster: Roster
    key_pem: bytes = field(repr=False)

    @classmethod
    def load(cls, directory: Path, *, now: datetime | None = None) -> Self:
        """Reads a kit and verifies it: certificate, key, roster, role and name must agree and be valid now."""
        settings = read_settings(directory)
        authority = read_certificate(directory, AUTHORITY_FILE)
        certificate = read_certificate(directory, CERTIFICATE_FILE)
        certificate.verify(authority, role=settings.role, now=now)
        if certificate.common_name != settings.name:
            raise MalformedCertificate(
                f"{directory / CERTIFICATE_FILE}: the certificate is of {certificate.common_name!r},"
                f" but {SETTINGS_FILE} names {settings.name!r}; use the files of one kit"
            )
        roster = read_roster(directory, authority)
        roster.check_time(now)
        roster.check_key(certificate)
        key_pem = read_key(directory)
        if parse_key(key_pem, directory / KEY_FILE).public_key() != certificate.public_key():
            raise KeyMismatch(
                f"{directory / KEY_FILE} is not the key of {CERTIFICATE_FILE}; use the files of one kit,"
                " or the key that `fenchel cert request` made with the request that was approved"
            )
        return cls(
            directory=directory,
            settings=settings,
            certificate=certificate,
            authority=authority,
            roster=roster,
            key_pem=key_pem,
        )

    def verify(self, *, now: datetime | None = None) -> None:
        """Refuses a kit whose certificate or roster is not valid now, or whose roster names another key."""
        self.certificate.verify(self.authority, role=self.role, now=now)
        self.roster.check_time(now)
        self.roster.check_key(self.certificate)

    @property
    def role(self) -> Role:
        return self.settings.role

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def server_address(self) -> Address:
        return self.settings.server

    @property
    def client_id(self) -> ClientId:
        """The party's name, as the id of its client; refuses the kit of a server."""
        if self.role is not Role.PARTY:
            raise InvalidInput(f"{self.directory} is the kit of a {self.role.value}; use the kit of a party")
        return ClientId(self.name)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.pem()

    @property
    def authority_pem(self) -> bytes:
        return self.authority.pem()

    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The P-256 key of the certificate."""
        return parse_key(self.key_pem, self.directory / KEY_FILE)


def read_settings(directory: Path) -> KitSettings:
    """Reads and checks `kit.toml`."""
    path = directory / SETTINGS_FILE
    try:
        settings = tomllib.loads(_read(path).decode())
    except (ValueError, RecursionError) as error:
        raise KitIncomplete(f"{path} is not a TOML file: {error}") from error
    required = {"role", "name", "server"}
    if unknown := sorted(settings.keys() - required - {"listen"}):
        raise KitIncomplete(f"{path}: unknown key {unknown[0]!r}; use {', '.join(sorted(required))}, or listen")
    for key in sorted(required | settings.keys()):
        if not isinstance(settings.get(key), str):
            raise KitIncomplete(f"{path}: {key!r} is missing or not a text")
    if settings["role"] not in (Role.PARTY.value, Role.SERVER.value):
        raise KitIncomplete(f"{path}: role is {settings['role']!r}; it must be 'party' or 'server'")
    role = Role(settings["role"])
    if "listen" in settings and role is not Role.SERVER:
        raise KitIncomplete(f"{path}: a party listens nowhere; remove 'listen'")
    addresses: dict[str, Address] = {}
    for key in sorted({"server", "listen"} & settings.keys()):
        try:
            addresses[key] = Address.parse(settings[key])
        except InvalidInput as error:
            raise KitIncomplete(f"{path}: {key}: {error}") from error
    return KitSettings(role, settings["name"], addresses["server"], addresses.get("listen"))


def read_certificate(directory: Path, file_name: str) -> Certificate:
    """Reads one certificate file of a kit; the caller must verify the certificate."""
    path = directory / file_name
    try:
        return Certificate.from_pem(_read(path))
    except MalformedCertificate as error:
        raise MalformedCertificate(f"{path}: {error}") from error


def read_roster(directory: Path, authority: Certificate) -> Roster:
    """The roster in a kit's folder, with its signature verified; ignores the time."""
    return Roster.verified(_read(directory / ROSTER_FILE), _read(directory / SIGNATURE_FILE), authority)


def read_key(directory: Path) -> bytes:
    """Reads the private key file; refuses a file that others than its owner may read."""
    path = directory / KEY_FILE
    key_pem = _read(path)
    if path.stat().st_mode & 0o077:
        raise KeyFileError(f"{path} can be read by others; run `chmod 600 {path}`")
    return key_pem


def parse_key(key_pem: bytes, path: Path) -> ec.EllipticCurvePrivateKey:
    """A P-256 private key from its PEM form; `path` is for the error message only."""
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError):
        # Without the cause: a parser's message may quote the key.
        raise KeyFileError(f"{path} is not an unencrypted PEM private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise KeyFileError(f"{path} is not a P-256 key; make one with `fenchel cert request`")
    return key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_KIT_FILE_BYTES + 1)
    except FileNotFoundError as error:
        cure = (
            "put the key that `fenchel cert request` made there"
            if path.name == KEY_FILE
            else "get the whole kit from the operator"
        )
        raise KitIncomplete(f"{path} is missing; {cure}") from error
    except OSError as error:
        raise KitIncomplete(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_KIT_FILE_BYTES:
        raise KitIncomplete(f"{path} is larger than {MAX_KIT_FILE_BYTES} bytes, which no file of a kit is")
    return content
