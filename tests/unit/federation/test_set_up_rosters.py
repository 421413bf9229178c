"""The set-up of a run and the rosters of its parties: replaced certificates, and rosters that change between runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fenchel_client.concessions import Concession
from fenchel_client.consent import TRUST_KIT, Consent
from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.party import Party
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import KEY_MAKE
from fenchel_common.wire.ceremony import introductions_from_bytes, introductions_to_bytes
from fenchel_deploy.inprocess.parties import asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_deploy.provision import provision
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.setup import FederationSetup
from support.kits import federation_of, hand_over, make_federation
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(40, 4), grid=(1, 2))
HOLDER, OTHER = (ClientId(name) for name in SHARDS)
CONFIG = RunConfig.from_mapping(
    {"name": "test", "settings": {"lambda": 0.1}, "key": {"bits": 2048}, "alignment": "hmac"}
)
Tamper = Callable[[str, bytes], bytes]


class Federation:
    """Parties with kits in folders of their own, which the operator's changes reach when a test hands them over."""

    def __init__(self, directory: Path, *, approved: str = TRUST_KIT) -> None:
        self.out, self._directory = directory / "out", directory
        make_federation(self.out, tuple(SHARDS))
        for name in SHARDS:
            self.give(name)
        consent = Consent(approved, accepts=frozenset(Concession))
        self.parties = {
            ClientId(name): Party(
                Kit.load(self.folder(name)), shard, state=directory / f"state-{name}", consent=consent
            )
            for name, shard in SHARDS.items()
        }

    def folder(self, name: str) -> Path:
        return self._directory / name

    def give(self, name: str) -> None:
        hand_over(self.out / name, self.folder(name))

    def replace(self, *names: str) -> None:
        provision(federation_of(tuple(SHARDS)), self.out, replace=names)

    def set_up(self, *, to_party: Tamper = lambda _, body: body) -> SetupDone:
        setup = FederationSetup(CONFIG, Kit.load(self.out / "server").roster, attempt=1)

        def answer(phase: str, client: ClientId, body: bytes) -> bytes:
            return asked(self.parties[client], RunId("run"), 0, phase, to_party(phase, body))

        return run_phases(setup.begin(), setup, answer)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_a_server_that_relays_a_replaced_certificate_gets_no_key_for_it(federation: Federation) -> None:
    old = Kit.load(federation.folder(OTHER))
    federation.replace(OTHER)
    federation.give(HOLDER)
    federation.give(OTHER)
    replayed = introduce(old, fresh_key().public_key(), run=RunId("run"), terms=CONFIG.digest())

    def choose_the_old_one(phase: str, body: bytes) -> bytes:
        if phase != KEY_MAKE:
            return body
        return introductions_to_bytes([introductions_from_bytes(body)[0], replayed])

    with pytest.raises(Refusal, match=f"the certificate of '{OTHER}' was replaced") as caught:
        federation.set_up(to_party=choose_the_old_one)
    assert caught.value.public_reason == "the relayed introductions are not those of this roster, run and configuration"


@pytest.mark.parametrize("replaced", SHARDS)
def test_running_parties_take_up_new_keys_with_the_next_set_up(federation: Federation, replaced: str) -> None:
    federation.set_up()
    federation.replace(replaced)
    for name in SHARDS:
        federation.give(name)
    assert federation.set_up().record.key_bits == 2048


def test_a_run_in_which_one_party_has_an_old_roster_is_not_set_up(federation: Federation) -> None:
    federation.replace("server")
    federation.give(HOLDER)
    with pytest.raises(Refusal, match="every party needs the roster of the last `fenchel provision`"):
        federation.set_up()


def test_a_party_whose_own_key_was_replaced_takes_part_in_nothing(federation: Federation) -> None:
    federation.replace(OTHER)
    hand_over(federation.out / OTHER, federation.folder(OTHER), files=("roster.json", "roster.sig"))
    with pytest.raises(Refusal, match=f"the certificate of '{OTHER}' was replaced") as caught:
        federation.set_up()
    assert caught.value.public_reason == "its certificate or its roster is not valid any more"


def test_a_fingerprint_approves_one_roster_and_none_that_comes_after_it(tmp_path: Path) -> None:
    approved = Kit.load(make_federation(tmp_path / "out", tuple(SHARDS))[HOLDER]).roster.fingerprint()
    federation = Federation(tmp_path, approved=approved)
    federation.set_up()
    federation.replace(OTHER)
    for name in SHARDS:
        federation.give(name)
    with pytest.raises(Refusal, match="--approve-roster"):
        federation.set_up()
