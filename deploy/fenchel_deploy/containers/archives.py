"""Files on their way into and out of containers, as the tar archives that the engine takes and gives."""

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def pack(folder: str, files: Mapping[str, bytes], *, owner_id: int) -> bytes:
    """An archive of a folder and the files in it, by name, that only one user can read."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        top = tarfile.TarInfo(folder)
        top.type, top.mode = tarfile.DIRTYPE, PRIVATE_FOLDER
        top.uid = top.gid = owner_id
        tar.addfile(top)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(content)
            entry.mode = PRIVATE_FILE
            entry.uid = entry.gid = owner_id
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def unpack(chunks: Iterable[bytes], *, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of an archive whose name ends so; nothing is written anywhere."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        for entry in tar:
            if entry.isfile() and entry.name.endswith(suffix):
                content = tar.extractfile(entry)
                assert content is not None
                yield PurePosixPath(entry.name).name, content.read()
