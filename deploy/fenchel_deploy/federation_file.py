"""`federation.toml`: the operator's description of a federation, from which it is provisioned."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from fenchel_common.errors import InvalidInput
from fenchel_common.identity.kit import Address, check_host
from fenchel_common.identity.roster import Party, check_members
from fenchel_common.ids import ClientId

EXAMPLE = """\
name = "hospitals"

[server]
address = "fenchel.example.org:9092"

[[party]]
name = "north"
key_holder = true

[[party]]
name = "south"
labels = false
"""


def _address(text: str) -> str:
    try:
        address = Address.parse(text)
    except InvalidInput as error:
        raise ValueError(str(error)) from error
    if address.port == 0 and not address.loopback:
        raise ValueError("port 0 is for this machine only; give the port that parties dial, such as 9092")
    return text


def _host(text: str) -> str:
    try:
        check_host(text)
    except InvalidInput as error:
        raise ValueError(str(error)) from error
    return text


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ServerEntry(_Section):
    """The `[server]` section."""

    address: Annotated[str, AfterValidator(_address)]
    """Where parties reach the server, as HOST:PORT."""
    name: str = "server"
    alternative_names: list[Annotated[str, AfterValidator(_host)]] = []
    """Further host names and IP addresses in the server's certificate, for tools that check them; Fenchel's own clients
    know the server by its key."""
    listen: Annotated[str | None, AfterValidator(lambda text: text if text is None else _address(text))] = None
    """Where the server listens, as HOST:PORT; by default on all interfaces, on the port of `address`."""


class PartyEntry(_Section):
    """One `[[party]]` section."""

    name: str
    key_holder: bool = False
    labels: bool = True
    blinder: bool = False
    """The party is a blinding party of the alignment; if none is marked, the first three parties are."""
    own_key: bool = False
    """The party makes its own key: its kit comes from `fenchel cert approve`, not from `fenchel provision`."""


class Federation(_Section):
    """The whole of `federation.toml`."""

    name: str
    server: ServerEntry
    party: Annotated[list[PartyEntry], Field(min_length=1)]
    release_model_to_server: bool = False
    validity_days: Annotated[int, Field(ge=1, le=3650)] = 365
    """How long certificates and the roster are valid."""
    clock_skew_minutes: Annotated[int, Field(ge=0, le=1440)] = 10
    """How far a party's clock may be behind the operator's: certificates are valid from that long ago."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads and checks a file; every complaint names the key and the cure."""
        try:
            return cls.parse(path.read_text(encoding="utf-8"), source=str(path))
        except FileNotFoundError as error:
            raise InvalidInput(f"{path} does not exist; write one such as:\n\n{EXAMPLE}") from error
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not a UTF-8 text file") from error
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error

    @classmethod
    def parse(cls, text: str, *, source: str = "federation.toml") -> Self:
        """Checks the text of a federation file, names and roles included."""
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{source} is not valid TOML: {error}") from error
        try:
            federation = cls.model_validate(values)
            check_members(federation.name, federation.server.name, federation.parties())
        except ValidationError as error:
            complaints = "; ".join(_complaint(detail) for detail in error.errors())
            raise InvalidInput(f"{source}: {complaints}") from error
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {error}") from error
        return federation

    def parties(self, keys: Mapping[str, str] = MappingProxyType({})) -> tuple[Party, ...]:
        """The parties as a roster names them, with the fingerprints of the keys in `keys`."""
        return tuple(
            Party(
                name=ClientId(entry.name),
                key_holder=entry.key_holder,
                labels=entry.labels,
                key_fingerprint=keys.get(entry.name),
                blinder=entry.blinder,
            )
            for entry in self.party
        )

    @property
    def address(self) -> Address:
        return Address.parse(self.server.address)

    @property
    def listen(self) -> Address | None:
        return None if self.server.listen is None else Address.parse(self.server.listen)

    def server_hosts(self) -> tuple[str, ...]:
        """Every host for which the server's certificate has to be valid."""
        this_machine = ("localhost", "127.0.0.1", "::1") if self.address.loopback else ()
        return tuple(dict.fromkeys((self.address.host, *this_machine, *self.server.alternative_names)))


_SECTIONS: dict[str, type[_Section]] = {"server": ServerEntry, "party": PartyEntry}


def _complaint(detail: ErrorDetails) -> str:
    """One of pydantic's findings in this project's words: the key first, then the cure."""
    key = ".".join(str(part) for part in detail["loc"])
    for index in (part for part in detail["loc"] if isinstance(part, int)):
        key = key.replace(f".{index}", f"[{index + 1}]")
    if detail["type"] == "missing":
        return f"{key} is missing; add it"
    if detail["type"] != "extra_forbidden":
        return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
    section = _SECTIONS.get(str(detail["loc"][0]), Federation) if len(detail["loc"]) > 1 else Federation
    known = sorted(section.model_fields)
    close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
    cure = f"did you mean {close[0]!r}?" if close else f"remove it, or use one of: {', '.join(known)}"
    return f"unknown key {key}; {cure}"
