"""Files on their way into and out of containers."""

import io
import tarfile

from fenchel_deploy.containers.archives import OWNER_ID, pack, unpack


def test_files_arrive_readable_by_the_images_user_alone() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack({"key.pem": b"secret", "ca.pem": b"public"}))) as tar:
        entries = tar.getmembers()
    assert {entry.name for entry in entries} == {"key.pem", "ca.pem"}
    assert {(entry.mode, entry.uid, entry.gid) for entry in entries} == {(0o600, OWNER_ID, OWNER_ID)}


def test_only_the_files_asked_for_come_out_however_the_stream_is_cut() -> None:
    archive = pack({"state/run.model.npz": b"model", "state/run.run": b"key", "empty.npz": b""})
    chunks = [archive[start : start + 100] for start in range(0, len(archive), 100)]
    assert dict(unpack(chunks, suffix=".model.npz")) == {"run.model.npz": b"model"}
