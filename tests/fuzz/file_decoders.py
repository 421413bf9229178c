"""Files that a person or a peer gives: keys, certificates, rosters, kits, configurations and shards."""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from fenchel_client.crypto.keyfile import private_key_from_bytes, private_key_to_bytes
from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, Certificate, Role, Roster
from fenchel_common.identity.kit import SETTINGS_FILE, KitSettings, read_settings
from fenchel_common.model import model_from_files
from fenchel_common.model.folder import RECORD_FILE, SUMS_FILE, WEIGHTS_FILE, files_of, sums_of
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.federation_file import EXAMPLE, Federation
from fuzz.decoder import BYTES_BY_INPUT_BYTE, Decoder
from fuzz.wire_decoders import federation
from support.keys import private_key
from support.models import small_model
from support.tablefiles import CLINIC, DECLARED

SEMICOLONS = b'id;a;b\n1;2.5;x\n2;3;"x"\n3;4;x\n'
CONFIG = """\
name = "trial"
algorithm = "hyfdca"
privacy = "paper"
acknowledge_row_leak = true
seed = 7

[key]
bits = 3072
kind = "standard"

[settings]
loss = "hinge"
lambda = 0.01
local = "paper"
participation = "fraction:0.5"

[round]
deadline_s = 60.0
quorum = 0.5

[stop]
gap = 1e-3
rounds = 100
"""
DEFLATE_RATIO = 1032
"""No deflated byte gives more bytes than this; a shard's file is compressed."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only where the system has it, and in a folder of our own
_FOLDER = tempfile.TemporaryDirectory(prefix="fenchel-fuzz-", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)


def _of_file(
    name: str, read: Callable[[Path], object], *seeds: bytes, file: str, bytes_by_input_byte: int = BYTES_BY_INPUT_BYTE
) -> Decoder:
    """The decoder of a file, which is written anew for each input."""
    path = Path(_FOLDER.name) / file

    def read_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return Decoder(name, read_bytes, seeds, bytes_by_input_byte=bytes_by_input_byte)


def _shards() -> tuple[bytes, ...]:
    dense = Shard(("a", "b"), ("age", "bmi"), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    sparse = Shard(("a", "b"), ("age", "bmi"), csr_array(np.array([[0.0, 2.0], [3.0, 0.0]])), None)
    encoded = []
    for shard in (dense, sparse):
        path = Path(_FOLDER.name) / "seed.npz"
        shard.save(path)
        encoded.append(path.read_bytes())
    loose = io.BytesIO()
    np.savez(loose, ids=np.array(["a"]), features=np.array(["age"]), X=np.array([[1.0]]))
    return (*encoded, loose.getvalue())


def _model(name: str) -> Decoder:
    """The decoder of one file of a model's folder, whose digests are right."""
    files = files_of(small_model(intercept="held"))
    del files[SUMS_FILE]

    def read(data: bytes) -> object:
        altered = files | {name: data}
        return model_from_files(altered | {SUMS_FILE: sums_of(altered)}, source="fuzz")

    return Decoder(f"model_from_files of {name}", read, (files[name],), bytes_by_input_byte=16 * DEFLATE_RATIO)


def _settings(path: Path) -> KitSettings:
    return read_settings(path.parent)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput("not a text") from None


def file_decoders() -> list[Decoder]:
    kits = federation()
    north = kits["north"]
    address = Address("localhost", 9092)
    settings = [
        KitSettings(Role.PARTY, "north", address).to_text().encode(),
        KitSettings(Role.SERVER, "server", address, listen=address).to_text().encode(),
    ]
    key = private_key_to_bytes(private_key(2048))
    config = RunConfig.from_mapping({"name": "trial"}).to_json().encode()
    return [
        Decoder("keyfile.private_key_from_bytes", private_key_from_bytes, (key,), (private_key_from_bytes,)),
        Decoder("Certificate.from_pem", Certificate.from_pem, (north.certificate_pem,)),
        Decoder("Certificate.from_der", Certificate.from_der, (north.certificate.der(), north.authority.der())),
        Decoder("Roster.from_bytes", Roster.from_bytes, (north.roster.to_bytes(),)),
        Decoder("Address.parse", lambda data: Address.parse(_text(data)), (b"fenchel.example.org:9092", b"[::1]:0")),
        Decoder("RunConfig.from_json", lambda data: RunConfig.from_json(_text(data)), (config,)),
        Decoder("Federation.parse", lambda data: Federation.parse(_text(data)), (EXAMPLE.encode(),)),
        _of_file("Federation.load", Federation.load, EXAMPLE.encode(), file="federation.toml"),
        _of_file("RunConfig.from_toml", RunConfig.from_toml, CONFIG.encode(), file="run.toml"),
        _of_file("kit.read_settings", _settings, *settings, file=SETTINGS_FILE),
        _of_file("Declaration.from_toml", Declaration.from_toml, DECLARED.encode(), file="declaration.toml"),
        _of_file("load_shard of a CSV file", load_shard, CLINIC.encode(), SEMICOLONS, file="fuzz.csv"),
        _model(RECORD_FILE),
        _model(WEIGHTS_FILE),
        _of_file("Shard.load", Shard.load, *_shards(), file="shard.npz", bytes_by_input_byte=16 * DEFLATE_RATIO),
    ]
