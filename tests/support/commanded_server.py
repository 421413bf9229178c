"""A server's process that a test commands: `python -m support.commanded_server KIT`.

It prints its port. Then it reads one command a line from its standard input and answers each with a line, all in JSON:
`{"phase": NAME, "sizes": {PARTY: BYTES}, "deadline_s": S}` opens a phase with tasks of these sizes, and is answered
by the sizes of the results and the reasons of the absences. It ends with its input.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_server.transport import GrpcTransport, TransportLimits, listen
from support.connections import phase

HANDSHAKE_S = 2.0
STOP_S = 20.0


@dataclass(frozen=True)
class Outcome:
    """The sizes of the results, and the reasons of the absences."""

    results: dict[str, int]
    absences: dict[str, str]


class Commanded:
    """The test's handle on the process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._phases = 0
        self.address = Address("localhost", int(self._line()))

    def gather(self, sizes: Mapping[str, int], *, deadline_s: float = STOP_S) -> Outcome:
        """Begins a phase and waits for its end."""
        self.begin(sizes, deadline_s=deadline_s)
        return self.end()

    def begin(self, sizes: Mapping[str, int], *, deadline_s: float = STOP_S) -> str:
        """Begins a phase, and returns its name."""
        assert self._process.stdin is not None
        self._phases += 1
        name = f"p{self._phases}"
        command = {"phase": name, "sizes": dict(sizes), "deadline_s": deadline_s}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return name

    def end(self) -> Outcome:
        """The outcome of the phase that was begun last."""
        return Outcome(**json.loads(self._line()))

    def status(self, field: str) -> int:
        """A number of /proc/PID/status; memory is in kB there."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])

    @property
    def memory_mb(self) -> float:
        return self.status("VmRSS") / 1024

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def commanded_server(kit: Path) -> Iterator[Commanded]:
    """A started process; its end is checked."""
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [sys.executable, "-m", "support.commanded_server", str(kit)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Commanded(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            status = process.wait(STOP_S)
        assert status == 0, "the server did not end well"


def obey(transport: GrpcTransport, line: str) -> str:
    command = json.loads(line)
    tasks = {ClientId(party): b"x" * size for party, size in command["sizes"].items()}
    gathered = transport.gather(phase(command["phase"]), tasks, deadline_s=command["deadline_s"])
    results = {client: len(result) for client, result in gathered.results.items()}
    absences = {client: absence.reason for client, absence in gathered.absences.items()}
    return json.dumps({"results": results, "absences": absences})


def main(kit: Path) -> None:
    limits = TransportLimits(handshake_s=HANDSHAKE_S)
    transport = listen(Kit.load(kit), address=Address("localhost", 0), limits=limits)
    sys.stdout.write(f"{transport.port}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(f"{obey(transport, line)}\n")
        sys.stdout.flush()
    transport.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
