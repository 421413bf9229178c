"""A real Prometheus that reads the metrics of processes, and its tool."""

import json
import queue
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

SCRAPES = 5
"""Once the test's own target was read so often, every target was read several times, and rates can be computed."""
WAIT_S = 60.0


def promtool(*words: str, given: str | None = None, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["promtool", *words], input=given, cwd=cwd, capture_output=True, text=True, check=False)


def scraped(address: str) -> str:
    """The metrics of a process as it serves them."""
    with urlopen(f"http://{address}/metrics", timeout=WAIT_S) as answer:
        return str(answer.read().decode())


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str, reads: "queue.Queue[None]") -> None:
        self._address = address
        self._reads = reads

    def wait_for_reads(self) -> None:
        """Returns when every target was read after the call of this method, often enough for rates."""
        while not self._reads.empty():
            self._reads.get()
        for _ in range(SCRAPES):
            self._reads.get(timeout=WAIT_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives now."""
        url = f"http://{self._address}/api/v1/query?{urlencode({'query': expression})}"
        with urlopen(url, timeout=WAIT_S) as answer:
            found = json.loads(answer.read())
        assert found["status"] == "success", found
        return list(found["data"]["result"])

    def values(self, expression: str, label: str) -> dict[str, float]:
        """The values of an expression by a label."""
        return {series["metric"].get(label, ""): float(series["value"][1]) for series in self.query(expression)}


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Sequence[str]], rules: Path) -> Iterator[Prometheus]:
    """Starts Prometheus in `folder` on the addresses of each job, and with them a target that tells when it is read."""
    reads: queue.Queue[None] = queue.Queue()
    with _target(reads) as own:
        jobs = [
            {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in {**targets, "test": [own]}.items()
        ]
        config = {"global": {"scrape_interval": "1s"}, "rule_files": [str(rules)], "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        with subprocess.Popen(
            [*command, "--web.listen-address=127.0.0.1:0"], cwd=folder, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stderr is not None
                address = _address_in(process.stderr)
                # Its log is read to the end, or it would block once the pipe is full.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield Prometheus(address, reads)
            finally:
                process.kill()


def _address_in(log: Iterator[str]) -> str:
    said = ""
    for line in log:
        said += line
        if "ready to receive web requests" in line:
            (address,) = re.findall(r'"Listening on" address=(\S+)', said)
            return str(address)
    raise AssertionError(f"Prometheus did not start:\n{said}")


@contextmanager
def _target(reads: "queue.Queue[None]") -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"read 1\n")
            reads.put(None)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
