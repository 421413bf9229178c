"""A server's process for tests of memory: `python -m support.memory_server KIT up|down BODY_BYTES`.

Prints its port. Then it has `north` hand in a long result (up), or sends it a long task (down), three times over, and
prints as JSON by how many bytes the peak memory of each side has grown since just before.
"""

import json
import sys
from pathlib import Path

from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_server.transport import GrpcTransport, listen
from support.connections import phase
from support.party import peak_memory_bytes

DEADLINE_S = 60.0
TRANSFERS = 3
NORTH = ClientId("north")


def ask(transport: GrpcTransport, name: str, body: bytes) -> bytes:
    gathered = transport.gather(phase(name), {NORTH: body}, deadline_s=DEADLINE_S)
    if gathered.absences:
        raise SystemExit(str(gathered.absences))
    return gathered.results[NORTH]


def transfer(transport: GrpcTransport, direction: str, size: int, number: int) -> int:
    """Moves one body and returns how many bytes of it arrived."""
    if direction == "up":
        return len(ask(transport, f"blob_{number}", str(size).encode()))
    return int(ask(transport, f"size_{number}", b"x" * size))


def main(kit: Path, direction: str, size: int) -> None:
    transport = listen(Kit.load(kit), address=Address("localhost", 0))
    sys.stdout.write(f"{transport.port}\n")
    sys.stdout.flush()
    client_before = int(ask(transport, "memory_before", b""))
    server_before = peak_memory_bytes()
    for number in range(TRANSFERS):
        if transfer(transport, direction, size, number) != size:
            raise SystemExit("a body came through with another size")
    growth = {
        "server": peak_memory_bytes() - server_before,
        "client": int(ask(transport, "memory_after", b"")) - client_before,
    }
    transport.dismiss("over")
    transport.stop()
    sys.stdout.write(json.dumps(growth))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
