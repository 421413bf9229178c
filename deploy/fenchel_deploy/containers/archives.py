"""The tar archives in which the Docker engine takes files into containers and gives files out of them."""

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def pack(folder: str, files: Mapping[str, bytes], *, owner_id: int) -> bytes:
    """An archive of a folder with these files, by name; only the user `owner_id` can read them."""
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


def unpack(chunks: Iterable[bytes], *, folder_suffix: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file in a folder whose name ends with `folder_suffix`; nothing is written to disk."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        for entry in tar:
            if entry.isfile() and PurePosixPath(entry.name).parent.name.endswith(folder_suffix):
                content = tar.extractfile(entry)
                assert content is not None
                yield PurePosixPath(entry.name).name, content.read()
