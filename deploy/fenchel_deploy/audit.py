"""Accounts of a run's leakage: the values that the server and each party saw, and their form, from the ledgers.

Ciphertext that a party received counts as its content, because every party has the run's key. Ciphertext that a party
sent counts as ciphertext, because this is the form in which the party's data left it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fenchel_client.ledger import read_party_ledger
from fenchel_client.statefolder import LEDGER
from fenchel_common.errors import InvalidInput, UnknownRun
from fenchel_common.leakage import Direction, Ledger, Sight, Tally, Visibility
from fenchel_common.runconfig import RunConfig
from fenchel_common.wire.counting import meaning_of
from fenchel_server.rounds.outcome import outcome_of_record
from fenchel_server.store import SqliteStore
from fenchel_server.store.statedir import DATABASE_NAME

SERVER = "server"
CLASS_WORDS: Final = {
    Visibility.INDIVIDUAL: "readable, of one party or one sample",
    Visibility.AGGREGATE: "readable, of all together: the model, sums",
    Visibility.PSEUDONYM: "stand-ins for samples, without names",
    Visibility.CIPHERTEXT: "encrypted, and the server has no key",
    Visibility.PUBLIC: "settings, names and sizes that all know",
    Visibility.TRANSPORT: "bookkeeping",
}
"""For people: what the values of a class are."""

Fields = Counter[str]
"""Values by the field that they were in."""
Classes = Mapping[Visibility, Fields]


@dataclass(frozen=True, slots=True)
class Account:
    """The values that one role received and sent. `opened` is the part of `received` that came as ciphertext."""

    role: str
    received: Classes
    sent: Classes
    opened: Classes

    def seen(self, visibility: Visibility) -> int:
        """The number of values of a class that the role received and sent."""
        return sum(classes.get(visibility, Fields()).total() for classes in (self.received, self.sent))


@dataclass(frozen=True, slots=True)
class Audit:
    """The accounts of a run, the server's first. `about` has facts about the run, by name."""

    run: str
    accounts: tuple[Account, ...]
    about: Mapping[str, str]

    def account(self, role: str) -> Account:
        return next(account for account in self.accounts if account.role == role)


def server_account(ledger: Ledger) -> Account:
    """The server's account: it has seen all that every party sent and received, and can open none of it."""
    return Account(
        role=SERVER,
        received=_classes(_on_the_wire(_of_all(ledger, Direction.UP))),
        sent=_classes(_on_the_wire(_of_all(ledger, Direction.DOWN))),
        opened={},
    )


def party_account(ledger: Ledger, party: str) -> Account:
    """A party's account; the party can read everything that it received."""
    received = next((ledger.tally(name, Direction.DOWN) for name in ledger.parties if name == party), Tally())
    sent = next((ledger.tally(name, Direction.UP) for name in ledger.parties if name == party), Tally())
    encrypted = Tally({sight: count for sight, count in received.items() if sight.visibility is not sight.content})
    return Account(
        role=party,
        received=_classes(_opened(received)),
        sent=_classes(_on_the_wire(sent)),
        opened=_classes(_opened(encrypted)),
    )


def audit_of_server(state: Path, run: str | None) -> Audit:
    """The accounts of the server and of every party, from a server's state folder."""
    with SqliteStore.inspect(state) as store:
        record = store.find(run or _only([record.run for record in store.runs()], state))
        rounds = store.rounds(record.run)
    ledger = Ledger.from_json(record.seen)
    for committed in rounds:
        ledger.add_all(Ledger.from_json(committed.seen))
    if not ledger.parties:
        raise InvalidInput(
            f"run {record.run} has no ledger: nothing has crossed the wire in it, or it is older than ledgers"
        )
    config, outcome = RunConfig.from_json(record.config), outcome_of_record(record, rounds)
    about = {
        "algorithm": config.algorithm,
        "privacy": config.privacy,
        "cipher": config.cipher if config.privacy.encrypts_samples else "none",
        "status": record.status.value,
        "rounds": str(0 if outcome is None else outcome.rounds),
    }
    accounts = (server_account(ledger), *(party_account(ledger, party) for party in ledger.parties))
    return Audit(record.run, accounts, about)


def audit_of_party(state: Path, run: str | None) -> Audit:
    """The account of one party, from its state folder."""
    known = sorted(path.name.removesuffix(LEDGER) for path in state.glob(f"*{LEDGER}"))
    name = run or _only(known, state)
    if name not in known:
        raise UnknownRun(f"{state} has no ledger of run {name}; it has {', '.join(known) or 'none at all'}")
    party, ledger = read_party_ledger(state / f"{name}{LEDGER}")
    return Audit(name, (party_account(ledger, party),), {"party": party})


def audit_of(state: Path, run: str | None) -> Audit:
    """The accounts of a run, from the state folder of a server or of a party."""
    if (state / DATABASE_NAME).exists():
        return audit_of_server(state, run)
    if any(state.glob(f"*{LEDGER}")):
        return audit_of_party(state, run)
    raise InvalidInput(
        f"{state} has neither the state of a server nor a party's ledgers; name the folder that was given to "
        "'fenchel server --state' or 'fenchel client --state'"
    )


def words_for(field: str) -> str:
    """The meaning of a field's values, for people; the field's name if the proto files do not explain it."""
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
