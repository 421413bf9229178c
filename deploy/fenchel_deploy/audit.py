"""Accounts of a run's leakage: for each role what it saw, in which form, from the ledgers that the run left behind.

Of what a party got, ciphertext counts by what is in it, because every party holds the run's key. What a party sent
counts in the form in which it left, because that is what all others see of the party's data.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fenchel_client.ledger import read_party_ledger
from fenchel_client.statefolder import LEDGER
from fenchel_common.errors import InvalidInput, UnknownRun
from fenchel_common.ids import RunId
from fenchel_common.leakage import Direction, Ledger, Sight, Tally, Visibility
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.counting import meaning_of
from fenchel_server.store import SqliteStore
from fenchel_server.store.statedir import DATABASE_NAME

SERVER = "server"

Fields = Counter[str]
"""Values by the field that they were in."""
Classes = Mapping[Visibility, Fields]


@dataclass(frozen=True, slots=True)
class Account:
    """What one role got and gave. `opened` is the part of `received` that came as ciphertext and that it can read."""

    role: str
    received: Classes
    sent: Classes
    opened: Classes

    def seen(self, visibility: Visibility) -> int:
        """How many values of a class it has seen, either way."""
        return sum(held.get(visibility, Fields()).total() for held in (self.received, self.sent))


@dataclass(frozen=True, slots=True)
class Audit:
    """The accounts of a run, the server's first. `about` says what is known of the run, in words."""

    run: str
    accounts: tuple[Account, ...]
    about: Mapping[str, str]

    def account(self, role: str) -> Account:
        return next(held for held in self.accounts if held.role == role)


def server_account(ledger: Ledger) -> Account:
    """The server has seen what every party sent and what it sent to every party, and can open none of it."""
    return Account(
        role=SERVER,
        received=_classes(_on_the_wire(_of_all(ledger, Direction.UP))),
        sent=_classes(_on_the_wire(_of_all(ledger, Direction.DOWN))),
        opened={},
    )


def party_account(ledger: Ledger, party: str) -> Account:
    """A party has sent its results, and can read what it got."""
    got = next((ledger.tally(held, Direction.DOWN) for held in ledger.parties if held == party), Tally())
    gave = next((ledger.tally(held, Direction.UP) for held in ledger.parties if held == party), Tally())
    closed = Tally({sight: count for sight, count in got.items() if sight.visibility is not sight.content})
    return Account(
        role=party,
        received=_classes(_opened(got)),
        sent=_classes(_on_the_wire(gave)),
        opened=_classes(_opened(closed)),
    )


def audit_of_server(state: Path, run: str | None) -> Audit:
    """From a server's state folder: the server, and every party as far as the server took part in what it saw."""
    with SqliteStore.inspect(state) as store:
        name = RunId(run or _only([record.run for record in store.runs()], state))
        record, rounds = store.run(name), store.rounds(name)
    ledger = Ledger.from_json(record.seen)
    for held in rounds:
        ledger.add_all(Ledger.from_json(held.seen))
    if not ledger.parties:
        raise InvalidInput(f"run {name} has no ledger: nothing has crossed the wire in it, or it is older than ledgers")
    config = RunConfig.from_json(record.config)
    about = {
        "algorithm": config.algorithm,
        "privacy": config.privacy,
        "status": record.status.value,
        "rounds": str(max(len(rounds) - 1, 0)),
    }
    accounts = (server_account(ledger), *(party_account(ledger, party) for party in ledger.parties))
    return Audit(name, accounts, about)


def audit_of_party(state: Path, run: str | None) -> Audit:
    """From a party's state folder: that party alone."""
    known = sorted(path.name.removesuffix(LEDGER) for path in state.glob(f"*{LEDGER}"))
    name = run or _only(known, state)
    if name not in known:
        raise UnknownRun(f"{state} has no ledger of run {name}; it has {', '.join(known) or 'none at all'}")
    party, ledger = read_party_ledger(state / f"{name}{LEDGER}")
    return Audit(name, (party_account(ledger, party),), {"party": party})


def audit_of(state: Path, run: str | None) -> Audit:
    """From the state folder of a server or of a party, whichever it is."""
    if (state / DATABASE_NAME).exists():
        return audit_of_server(state, run)
    if any(state.glob(f"*{LEDGER}")):
        return audit_of_party(state, run)
    raise InvalidInput(
        f"{state} holds neither the state of a server nor a party's ledgers; name the folder that was given to "
        "'fenchel server --state' or 'fenchel client --state'"
    )


def words_for(field: str) -> str:
    """What a field holds, for a person; its technical name where the contract has no words for it."""
    return meaning_of(field) or field


def _only(known: Sequence[str], state: Path) -> str:
    if len(known) == 1:
        return known[0]
    raise InvalidInput(f"RUN: say which; {state} has {', '.join(known) or 'no run'}")


def _of_all(ledger: Ledger, direction: Direction) -> Tally:
    whole = Tally()
    for party in ledger.parties:
        whole.update(ledger.tally(party, direction))
    return whole


def _on_the_wire(tally: Tally) -> Iterable[tuple[Visibility, str, int]]:
    return ((sight.visibility, sight.field, count) for sight, count in tally.items())


def _opened(tally: Tally) -> Iterable[tuple[Visibility, str, int]]:
    return ((_readable(sight), sight.field, count) for sight, count in tally.items())


def _readable(sight: Sight) -> Visibility:
    return sight.content if sight.visibility is Visibility.CIPHERTEXT else sight.visibility


def _classes(values: Iterable[tuple[Visibility, str, int]]) -> Classes:
    classes: dict[Visibility, Fields] = {}
    for visibility, field, count in values:
        classes.setdefault(visibility, Fields())[field] += count
    return classes
