"""The ledgers of a real federation: what server and parties counted, and what `fenchel audit` says of it."""

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fenchel_client.ledger import read_party_ledger
from fenchel_client.statefolder import LEDGER
from fenchel_common.leakage import Ledger, Visibility
from fenchel_deploy.audit import SERVER, Audit, audit_of_party
from fenchel_deploy.cli import audit
from fenchel_deploy.demonstration import DemonstrationOptions
from fenchel_deploy.levels import compare
from fenchel_server.store import SqliteStore

OPTIONS = DemonstrationOptions(algorithm="fedavg", grid=(1, 2), rounds=2, parameters={"measure_every": 1})
PARTIES = ("hospital-1", "hospital-2")


@dataclass(frozen=True)
class SealedRun:
    directory: Path
    audit: Audit

    @property
    def server_state(self) -> Path:
        return self.directory / "server"

    def party_file(self, party: str) -> Path:
        (path,) = (self.directory / "clients" / party).glob(f"*{LEDGER}")
        return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SealedRun:
    directory = tmp_path_factory.mktemp("levels")
    told: list[str] = []
    audits = compare(["sealed"], OPTIONS, directory=directory, tell=told.append)
    assert told == ["sealed"]
    return SealedRun(directory / "sealed", audits["sealed"])


def fenchel_audit(*arguments: str) -> str:
    app = typer.Typer()
    audit.register(app)
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_what_the_server_counted_is_what_its_parties_counted(run: SealedRun) -> None:
    summed, seen = Ledger(), Ledger()
    for party in PARTIES:
        name, ledger = read_party_ledger(run.party_file(party))
        assert (name, ledger.parties) == (party, (party,))
        summed.add_all(ledger)
    with SqliteStore.inspect(run.server_state) as store:
        (record,) = store.runs()
        for text in (record.seen, *(committed.seen for committed in store.rounds(record.run))):
            assert Ledger.from_json(text).parties == PARTIES
            seen.add_all(Ledger.from_json(text))
    assert seen == summed


def test_in_a_sealed_run_where_rows_are_shared_the_server_reads_nothing_of_single_parties(run: SealedRun) -> None:
    account = run.audit.account(SERVER)
    assert Visibility.INDIVIDUAL not in account.received
    assert Visibility.INDIVIDUAL not in account.sent
    assert {"AveragingResult.vectors", "AveragingResult.products", "AveragingResult.figures"} <= set(
        account.received[Visibility.CIPHERTEXT]
    )


def test_a_party_counts_what_it_can_open_by_what_is_in_it(run: SealedRun) -> None:
    audited = audit_of_party(run.party_file(PARTIES[0]).parent, None)
    (account,) = audited.accounts
    assert account.opened[Visibility.AGGREGATE]["AveragingEntry.sums"] > 0
    assert account.received[Visibility.AGGREGATE]["AveragingEntry.sums"] > 0
    assert account.sent[Visibility.CIPHERTEXT]["AveragingResult.vectors"] > 0
    assert account == run.audit.account(PARTIES[0])


def test_a_partys_ledger_is_its_own_has_numbers_only_and_outlives_the_run(run: SealedRun) -> None:
    path = run.party_file(PARTIES[1])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(path.parent.glob("*.run"))
    content = json.loads(path.read_text())
    assert set(content) == {"run", "party", "seen"}
    assert all(isinstance(leaf, int) for leaf in _leaves(content["seen"]))


def test_audit_says_to_a_person_what_the_server_saw(run: SealedRun) -> None:
    shown = fenchel_audit(run.audit.run, "--state", str(run.server_state))
    assert "privacy sealed" in shown
    assert "No value of a single party or sample was readable to it" in shown
    assert "the sum of the losses of all samples" in " ".join(shown.replace("│", " ").split())
    assert all(f"what {party} could read" in shown for party in PARTIES)


def test_audit_of_a_party_says_what_its_data_became(run: SealedRun) -> None:
    state = str(run.party_file(PARTIES[0]).parent)
    shown = fenchel_audit("--state", state)
    assert f"what the data of {PARTIES[0]} became on the wire" in shown
    roles = json.loads(fenchel_audit("--state", state, "--format", "json"))["roles"]
    assert set(roles) == {PARTIES[0]}
    assert roles[PARTIES[0]]["sent"]["ciphertext"]["fields"]["AveragingResult.vectors"] > 0
    page = fenchel_audit("--state", state, "--format", "markdown")
    assert "| what | received | sent | mostly |" in page


def _leaves(value: Any) -> list[Any]:
    return [leaf for inner in value.values() for leaf in _leaves(inner)] if isinstance(value, dict) else [value]
