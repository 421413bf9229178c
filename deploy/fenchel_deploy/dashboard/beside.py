"""A page beside a federation on this machine, as a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fenchel_common.errors import FederationFailed

ENDING_S: Final = 10.0


@contextmanager
def page_beside(folder: Path, *, kit: Path | None = None, of_party: bool = False) -> Iterator[str]:
    """Serves the page of a server's state folder, or of a party's, on a free port while the context lasts; yields its
    address.
    """
    whose = "--party" if of_party else "--state"
    command = [sys.executable, "-m", "fenchel_deploy", "dashboard", whose, str(folder), "--listen", "localhost:0"]
    command += ["--format", "json", *([] if kit is None else ["--kit", str(kit)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise FederationFailed("the dashboard did not start; its message is above")
            yield str(json.loads(line)["address"])
        finally:
            process.terminate()
            try:
                process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
