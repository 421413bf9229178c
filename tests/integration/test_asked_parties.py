"""Server process and sessions over requests and replies, which another engine carries and may lose."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.party import Party
from fenchel_client.session import EndKind, Session, SessionEnd
from fenchel_client.transport.answering import Reception
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.ids import ClientId
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_server.app import serve
from fenchel_server.transport.asking import AskingTransport
from support.kits import make_federation
from support.tables import named_shards, small_dataset

WAIT_S = 60.0
SHARDS = named_shards(small_dataset(40, 4), grid=(1, 2))
CONFIG = RunConfig.from_mapping(
    {
        "name": "asked",
        "settings": {"lambda": 0.5, "local": "corrective"},
        "key": {"bits": 2048},
        "alignment": "hmac",
        "round": {"quorum": 1.0},
        "stop": {"gap": 1e-3, "rounds": 50},
    }
)


class Engine:
    """Carries each request to its party; every `loses`-th reply is lost on its way back."""

    def __init__(self, *, loses: int = 0) -> None:
        self.receptions = {name: Reception() for name in SHARDS}
        self._loses = loses
        self._lock = threading.Lock()
        self.asked = 0

    def __call__(self, client: ClientId, request: Sequence[bytes], *, timeout_s: float) -> Sequence[bytes] | None:
        del timeout_s
        reply = self.receptions[client].answer(request)
        with self._lock:
            self.asked += 1
            lost = self._loses and self.asked % self._loses == 0
        return None if lost else reply


def run_over(engine: Engine, directory: Path) -> dict[str, bytes]:
    """The weights of each party's model after a run over the engine."""
    kits = {name: Kit.load(folder) for name, folder in make_federation(directory / "kits", tuple(SHARDS)).items()}
    events: list[Mapping[str, object]] = []

    def listen(kit: LiveKit, *, address: Address) -> AskingTransport:
        del address
        return AskingTransport(kit, engine)

    def session_of(name: str) -> Session:
        kit = kits[name]
        consent = Consent(kit.roster.fingerprint(), accepts=frozenset(Concession))
        party = Party(kit, SHARDS[name], state=directory / name, consent=consent)
        return Session(kit, party.handle, dial=engine.receptions[name].dial, idle=party.idle, limit=party.task_limit)

    with ThreadPoolExecutor(len(SHARDS)) as threads:
        ends = [threads.submit(session_of(name).run) for name in SHARDS]
        statuses = serve(
            kits["server"],
            directory / "state",
            configs=[CONFIG],
            address=Address("localhost", 0),
            listen=listen,
            stay=False,
            announce=events.append,
        )
        assert [end.result(WAIT_S) for end in ends] == 2 * [SessionEnd(EndKind.DISMISSED, "all runs are over")]
    assert statuses == {"completed"}
    (ended,) = [event for event in events if event["event"] == "ended"]
    return {
        name: np.asarray(read_model(directory / name / f"{ended['run']}.model").weights).tobytes() for name in SHARDS
    }


def test_a_run_over_requests_and_replies_ends_with_a_model_at_every_party(tmp_path: Path) -> None:
    assert len(run_over(Engine(), tmp_path)) == len(SHARDS)


def test_lost_replies_change_no_bit_of_the_model(tmp_path: Path) -> None:
    whole, lossy = Engine(), Engine(loses=5)
    assert run_over(lossy, tmp_path / "lossy") == run_over(whole, tmp_path / "whole")
    assert lossy.asked > whole.asked
