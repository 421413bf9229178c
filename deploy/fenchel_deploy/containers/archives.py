"""Files on their way into and out of containers, as the tar archives that the engine takes and gives."""

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

OWNER_ID = 10001
"""The user and the group that the image runs as."""
PRIVATE_MODE = 0o600


def pack(files: Mapping[str, bytes]) -> bytes:
    """An archive of files by name that only the image's user can read."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = PRIVATE_MODE
            entry.uid = entry.gid = OWNER_ID
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
