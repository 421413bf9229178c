"""Whole runs in this process, one of each family of messages: both sides count, and count the same."""

import shutil
from pathlib import Path

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import Consent
from fenchel_client.ledger import read_party_ledger
from fenchel_client.party import Party
from fenchel_client.statefolder import LEDGER
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.leakage import Direction, Ledger, Tally, Visibility
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.counting import UNREADABLE
from fenchel_server.federationrun import FederationRun
from fenchel_server.rounds.counted import CountedTransport
from fenchel_server.rounds.driver import Driver
from fenchel_server.rounds.measured import MeasuredTransport
from fenchel_server.store import MemoryStore
from fenchel_server.store.base import WITH_MODEL
from support.inprocess import InProcessTransport
from support.kits import make_federation
from support.records import RUN
from support.tables import named_shards, small_dataset

RUNS: dict[str, tuple[str, dict[str, object]]] = {
    "averaging": ("fedavg", {"measure_every": 1}),
    "surveying": ("scaffpd", {"measure_every": 1, "loss": "logistic"}),
    "corrective": ("hyfdca", {"local": "corrective"}),
    "hyfdca": ("hyfdca", {"local": "paper", "h": 0.5}),
}
LISTED_BY_THE_PROFILE = {
    "surveying": {"AveragingResult.reported"},
    "corrective": set[str](),
    "hyfdca": set[str](),
}
"""What the server reads of single parties at every level: of SCAFF-PD the losses and accuracies, which are reported."""
SAMPLES, FEATURES = 40, 4


def config_of(family: str, *, privacy: str = "plain", cipher: str = "paillier") -> RunConfig:
    algorithm, settings = RUNS[family]
    return RunConfig.from_mapping(
        {
            "name": family,
            "algorithm": algorithm,
            "settings": settings,
            "privacy": privacy,
            "cipher": cipher,
            "benchmark": privacy == "plain",
            "key": {"bits": 2048},
            "stop": {"rounds": 2},
        }
    )


def run(directory: Path, config: RunConfig) -> tuple[Ledger, Ledger]:
    """What the server counted, and what the parties counted together."""
    shards = named_shards(small_dataset(SAMPLES, FEATURES), grid=(2, 1))
    kits = {name: Kit.load(path) for name, path in make_federation(directory / "kits", tuple(shards)).items()}
    roster = kits["server"].roster
    consent = Consent(approved_roster=roster.fingerprint(), accepts=frozenset(Concession))
    parties = {
        name: Party(kits[name], shard, state=directory / name, consent=consent) for name, shard in shards.items()
    }
    transport = InProcessTransport({ClientId(name): party.handle for name, party in parties.items()})
    counted = CountedTransport(MeasuredTransport(transport), config.algorithm_settings())
    store = MemoryStore()
    store.create_run(RUN, name=config.name, config=config.to_json())
    parts = FederationRun(config, roster, certificate=LastCertificate)
    ending = Driver(RUN, parts, store=store, transport=counted).drive()
    assert ending.status in WITH_MODEL, ending.reason
    server, together = Ledger.from_json(store.run(RUN).seen), Ledger()
    for committed in store.rounds(RUN):
        server.add_all(Ledger.from_json(committed.seen))
    for name in parties:
        together.add_all(read_party_ledger(directory / name / f"{RUN}{LEDGER}")[1])
    return server, together


@pytest.mark.parametrize("family", RUNS)
def test_server_and_parties_count_the_same_and_can_read_every_message(family: str, tmp_path: Path) -> None:
    server, together = run(tmp_path, config_of(family))
    assert server == together
    fields = {sight.field for party in server.parties for way in Direction for sight in server.tally(party, way)}
    assert UNREADABLE not in fields
    assert {"AlignmentPiece.elements", "ClientLayout.rows"} <= fields


@pytest.mark.parametrize("cipher", ["paillier", "masks"])
@pytest.mark.parametrize("family", LISTED_BY_THE_PROFILE)
def test_in_a_sealed_run_the_server_reads_of_single_parties_only_what_the_profile_lists(
    family: str, cipher: str, tmp_path: Path
) -> None:
    server, together = run(tmp_path, config_of(family, privacy="sealed", cipher=cipher))
    assert server == together
    seen = Tally()
    for party in server.parties:
        for way in Direction:
            seen.update(server.tally(party, way))
    assert {sight.field for sight in seen if sight.visibility is Visibility.INDIVIDUAL} == LISTED_BY_THE_PROFILE[family]
    assert any(sight.content is Visibility.INDIVIDUAL for sight in seen if sight.visibility is Visibility.CIPHERTEXT)


def test_masked_values_count_as_ciphertext_and_as_many_as_with_paillier(tmp_path: Path) -> None:
    def ciphertexts(cipher: str) -> dict[str, int]:
        server, _ = run(tmp_path / cipher, config_of("hyfdca", privacy="sealed", cipher=cipher))
        counts: dict[str, int] = {}
        for party in server.parties:
            for way in Direction:
                for sight, values in server.tally(party, way).items():
                    if sight.visibility is Visibility.CIPHERTEXT:
                        counts[sight.field] = counts.get(sight.field, 0) + values
        return counts

    paillier, masks = ciphertexts("paillier"), ciphertexts("masks")
    by_vector = {field for field in paillier if field.startswith("Hyfdca")}
    assert len(by_vector) > 3
    assert {field: masks[field] for field in by_vector} == {field: paillier[field] for field in by_vector}


def test_in_a_plain_run_the_server_reads_what_each_party_found(tmp_path: Path) -> None:
    server, _ = run(tmp_path, config_of("averaging"))
    for party in server.parties:
        shown = {sight.field: sight.visibility for sight in server.tally(party, Direction.UP)}
        assert shown["AveragingResult.vectors"] is Visibility.INDIVIDUAL


def test_a_party_that_restarts_goes_on_counting_where_it_was(tmp_path: Path) -> None:
    run(tmp_path, config_of("averaging"))
    path = tmp_path / "p1" / f"{RUN}{LEDGER}"
    once = read_party_ledger(path)[1]
    for model in tmp_path.glob("p*/*.model"):
        shutil.rmtree(model)  # so that the parties take part in a run of this name again
    run(tmp_path, config_of("averaging"))
    twice = Ledger()
    twice.add_all(once)
    twice.add_all(once)
    assert read_party_ledger(path)[1] == twice
