"""The folder of a model: model.json, weights.npz, and SHA256SUMS, which `sha256sum --check` reads too.

The sums tell a damaged or altered file from one that was written so. They are no signature: whoever can write to the
folder can make them anew.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from fenchel_common.data.shard import arrays_in, float_array
from fenchel_common.errors import InvalidInput
from fenchel_common.model.record import Model, ModelRecord

SUFFIX: Final = ".model"
RECORD_FILE: Final = "model.json"
WEIGHTS_FILE: Final = "weights.npz"
SUMS_FILE: Final = "SHA256SUMS"
FILES: Final = (RECORD_FILE, WEIGHTS_FILE, SUMS_FILE)
MAX_FILE_BYTES: Final = 1 << 30
OLD_SUFFIX: Final = ".npz"


def write_model(folder: Path, model: Model) -> None:
    """Writes or replaces the folder, which is never visible half-written; only its owner can read it.

    A power cut after the call does not undo it. If the process is killed while it replaces an older folder, there may
    be none; the caller keeps what it needs to write it again until the call has returned.
    """
    fresh, old = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    for name, content in files_of(model).items():
        with os.fdopen(os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    _sync(fresh)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def read_model(folder: Path) -> Model:
    """The model in the folder; `InvalidInput` for a folder that is incomplete, altered, or of another version."""
    if folder.suffix == OLD_SUFFIX and folder.is_file():
        raise InvalidInput(
            f"{folder}: is a model of an older Fenchel, which wrote one file with the weights alone; train it anew, or "
            "read it with numpy.load"
        )
    return model_from_files({name: _content(folder / name) for name in FILES}, source=str(folder))


def find_model(path: Path) -> Model:
    """The model that a path means: its folder, or a folder that has exactly one, such as a party's private folder."""
    if not path.exists():
        raise InvalidInput(f"{path}: there is no such folder")
    if not path.is_dir() or (path / RECORD_FILE).exists():
        return read_model(path)
    found = sorted(path.glob(f"*{SUFFIX}"))
    if len(found) != 1:
        several = f"has {len(found)} models: {', '.join(one.name for one in found)}; name one"
        raise InvalidInput(f"{path}: {several if found else f'has no model: no folder *{SUFFIX}'}")
    return read_model(found[0])


def files_of(model: Model) -> dict[str, bytes]:
    """The content of each file of the model's folder."""
    files = {RECORD_FILE: _record_text(model.record).encode(), WEIGHTS_FILE: _weights_bytes(model)}
    return files | {SUMS_FILE: sums_of(files)}


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """The content of SHA256SUMS for these files."""
    return "".join(_sum_line(name, content) + "\n" for name, content in files.items()).encode()


def model_from_files(files: Mapping[str, bytes], *, source: str) -> Model:
    """Reads back what `files_of` gave; `source` names the folder in messages."""
    sums = files[SUMS_FILE].decode("ascii", "replace").splitlines()
    for name in (RECORD_FILE, WEIGHTS_FILE):
        if _sum_line(name, files[name]) not in sums:
            raise InvalidInput(
                f"{source}: {name} is not what was written: its SHA-256 is not the one in {SUMS_FILE}; it was altered "
                "or damaged, so take a copy from before"
            )
    try:
        values = json.loads(files[RECORD_FILE])
    except (ValueError, RecursionError):
        raise InvalidInput(f"{source}: {RECORD_FILE} is not JSON") from None
    record = ModelRecord.from_mapping(values, source=f"{source}/{RECORD_FILE}")
    arrays = arrays_in(io.BytesIO(files[WEIGHTS_FILE]), source=f"{source}/{WEIGHTS_FILE}")
    try:
        if "weights" not in arrays:
            raise InvalidInput("weights: are missing")
        numbers = {name: float_array(array, name).reshape(array.shape) for name, array in arrays.items()}
        return Model(record, numbers["weights"], numbers.get("intercept"))
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None


def _sum_line(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def _record_text(record: ModelRecord) -> str:
    """model.json, with a line for each feature."""
    values: dict[str, Any] = record.to_mapping()
    features = values.pop("features")
    lines = ",\n".join(f"    {json.dumps(feature, allow_nan=False)}" for feature in features)
    head = json.dumps(values, allow_nan=False, indent=2).removesuffix("\n}")
    return f'{head},\n  "features": [\n{lines}\n  ]\n}}\n'


def _weights_bytes(model: Model) -> bytes:
    content = io.BytesIO()
    arrays = {"weights": model.weights} | ({} if model.intercept is None else {"intercept": model.intercept})
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}; a model has {', '.join(FILES)}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"{path}: has more than {MAX_FILE_BYTES} bytes")
    return content


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
