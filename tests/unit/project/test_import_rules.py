"""Who may import whom, and that the generated code is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
APART = "Server and client never import each other, and common imports neither"
NO_DECRYPTION = "Nothing that can decrypt is reachable from the server"
NO_CYCLE = "No cycle between the packages and modules of a package"
CONTRACT_MODULE = "The round driver and the algorithms meet in the contract module alone"
FAMILIES = "The families of algorithms {} do not import each other"
NO_TRANSPORT = "Only what puts a process together knows what carries its messages"
NO_PROTOBUF = "Protobuf classes stop at wire and transport"
IMPORT_ALL_OF_THE_SERVER = """
import importlib, pkgutil, sys
import fenchel_common, fenchel_server
for package in (fenchel_common, fenchel_server):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print("\\n".join(sys.modules))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def test_nothing_that_can_decrypt_is_loaded_by_the_server() -> None:
    result = run("-W", "error", "-c", IMPORT_ALL_OF_THE_SERVER)
    assert result.returncode == 0, result.stderr
    loaded = {name.split(".")[0] for name in result.stdout.split()}
    assert "fenchel_server" in loaded
    assert not loaded & {"phe", "fenchel_client", "fenchel_deploy"}


@pytest.mark.parametrize("module", ["fenchel_client.party", "fenchel_client.session", "fenchel_server.app"])
def test_neither_a_party_nor_a_session_nor_the_server_is_loaded_with_grpc(module: str) -> None:
    result = run("-c", f"import sys, {module}; print('grpc' in sys.modules)")
    assert result.stdout.split() == ["False"], result.stderr


def test_the_import_contracts_are_kept() -> None:
    result = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("package", "statement", "contract"),
    [
        ("common/fenchel_common", "import fenchel_server", APART),
        ("common/fenchel_common", "import phe", NO_DECRYPTION),
        ("server/fenchel_server", "from fenchel_client.crypto import keys", APART),
        ("client/fenchel_client", "import fenchel_server", APART),
        ("server/fenchel_server", "import fenchel_deploy", APART),
        ("common/fenchel_common/crypto", "import fenchel_common.wire.setup", NO_CYCLE),
        ("server/fenchel_server/store", "import fenchel_server.rounds.driver", NO_CYCLE),
        ("client/fenchel_client/crypto", "import fenchel_client.party", NO_CYCLE),
        ("deploy/fenchel_deploy/inprocess", "import fenchel_deploy.attacks", NO_CYCLE),
        ("server/fenchel_server/rounds", "import fenchel_server.algorithms.hyfdca.server", CONTRACT_MODULE),
        ("server/fenchel_server/algorithms", "import fenchel_server.rounds.driver", CONTRACT_MODULE),
        (
            "common/fenchel_common/algorithms/corrective",
            "import fenchel_common.algorithms.hyfdca.settings",
            FAMILIES.format("in common"),
        ),
        (
            "server/fenchel_server/algorithms/hyfdca",
            "import fenchel_server.algorithms.averaging.rails",
            FAMILIES.format("of the server"),
        ),
        (
            "client/fenchel_client/algorithms/averaging",
            "from fenchel_client.algorithms.corrective import client",
            FAMILIES.format("of the client"),
        ),
        ("client/fenchel_client", "from fenchel_client.transport import link", NO_TRANSPORT),
        ("client/fenchel_client/algorithms", "from fenchel_common.wire import status", NO_TRANSPORT),
        ("server/fenchel_server/rounds", "import grpc", NO_TRANSPORT),
        ("server/fenchel_server", "from fenchel_server.transport import mailbox", NO_TRANSPORT),
        ("server/fenchel_server/algorithms", "from fenchel.v1 import hyfdca_pb2", NO_PROTOBUF),
        ("client/fenchel_client/crypto", "from google.protobuf.message import Message", NO_PROTOBUF),
        ("common/fenchel_common", "import fenchel.v1.vectors_pb2", NO_PROTOBUF),
        ("deploy/fenchel_deploy", "from fenchel.v1 import setup_pb2", NO_PROTOBUF),
    ],
)
def test_the_import_contracts_would_catch_a_breach(package: str, statement: str, contract: str, tmp_path: Path) -> None:
    """The same contracts over a copy of the tree in which one module breaks a rule."""
    for folder in ("common", "server", "client", "deploy"):
        for source in (ROOT / folder).rglob("*.py"):
            copy = tmp_path / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    (tmp_path / package / "breach.py").write_text(f"{statement}\n")
    paths = ":".join(str(tmp_path / folder) for folder in ("common", "server", "client", "deploy"))
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout


def test_the_generated_code_is_fresh() -> None:
    result = run("proto/generate.py", "--check")
    assert result.returncode == 0, result.stderr
