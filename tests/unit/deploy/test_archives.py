"""Files on their way into and out of containers."""

import io
import tarfile

from fenchel_deploy.containers.archives import pack, unpack


def test_files_and_their_folder_arrive_readable_by_their_owner_alone() -> None:
    packed = pack("kit", {"key.pem": b"secret", "ca.pem": b"public"}, owner_id=10012)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        entries = {entry.name: entry for entry in tar}
    assert {name: entry.mode for name, entry in entries.items()} == {
        "kit": 0o700,
        "kit/key.pem": 0o600,
        "kit/ca.pem": 0o600,
    }
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(10012, 10012)}


def test_only_the_files_asked_for_come_out_however_the_stream_is_cut() -> None:
    files = {"run.model/model.json": b"model", "run.run": b"key", "empty.json": b""}
    archive = pack("state", files, owner_id=10012)
    chunks = [archive[start : start + 100] for start in range(0, len(archive), 100)]
    assert dict(unpack(chunks, folder_suffix=".model")) == {"model.json": b"model"}
