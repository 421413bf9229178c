"""What each role saw of a run: the leakage ledger by class, for one run and beside that of others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from fenchel_common.algorithms.settings import Profile
from fenchel_common.leakage import Ledger, Visibility
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.audit import CLASS_WORDS, SERVER, Account, party_account, server_account, words_for
from fenchel_deploy.dashboard.documents import Axis, Chart, Column, Form, Prose, Series, Table, Value

MOST_ROLES = 12
"""With more parties than this, they are shown together."""
TOP_FIELDS = 3
TOGETHER = "all parties together"
SLOTS: Final = {
    Visibility.INDIVIDUAL: 1,
    Visibility.AGGREGATE: 4,
    Visibility.PSEUDONYM: 3,
    Visibility.CIPHERTEXT: 0,
    Visibility.PUBLIC: 6,
    Visibility.TRANSPORT: 9,
}
"""The number of the colour of each class: warm if it can be read, blue if it cannot, grey if all know it."""


def accounts_of(ledger: Ledger) -> list[Account]:
    """The accounts of the server and of every party; with many parties one account for all of them."""
    found = [party_account(ledger, party) for party in ledger.parties]
    if len(found) > MOST_ROLES:
        found = [
            Account(
                TOGETHER,
                *(_summed([getattr(one, way) for one in found]) for way in ("received", "sent", "opened")),
            )
        ]
    return [server_account(ledger), *found]


def _summed(many: Sequence[Mapping[Visibility, Counter[str]]]) -> Mapping[Visibility, Counter[str]]:
    whole: dict[Visibility, Counter[str]] = {}
    for one in many:
        for kind, fields in one.items():
            whole.setdefault(kind, Counter()).update(fields)
    return whole


def seen_in_words(account: Account) -> Prose:
    """The most important thing that the ledger says of the server."""
    individual = account.seen(Visibility.INDIVIDUAL)
    text = "No value of a single party or of a single sample was readable to the server."
    if individual:
        text = f"{individual:,} values of single parties or single samples were readable to the server."
    return Prose("seen-in-words", (text,), leading=True)


def sight_chart(accounts: Sequence[Account]) -> Chart | None:
    """For each role, the share of the values that it saw that are of each class."""
    return _shares("sights", "Values that each role saw, by class", {one.role: _seen(one) for one in accounts}, "role")


def level_chart(ledgers: Mapping[str, Ledger]) -> Chart | None:
    """For each run, the share of the values that its server saw that are of each class."""
    seen = {run: _seen(server_account(ledger)) for run, ledger in ledgers.items() if ledger.parties}
    return _shares("levels", "Values that each server saw, by class", seen, "run")


def _seen(account: Account) -> Counter[Visibility]:
    """The values by class: of the server all that passed, of a party what it received, as it could read it."""
    if account.role == SERVER:
        return Counter({kind: account.seen(kind) for kind in Visibility})
    return Counter({kind: fields.total() for kind, fields in account.received.items()})


def _shares(key: str, title: str, seen: Mapping[str, Counter[Visibility]], across: str) -> Chart | None:
    seen = {name: counts for name, counts in seen.items() if counts.total()}
    if not seen:
        return None
    kinds = [kind for kind in Visibility if any(counts[kind] for counts in seen.values())]
    counted = Table(
        f"{key}-table",
        title,
        (Column("class"), *(Column(name, Form.COUNT) for name in seen)),
        tuple((CLASS_WORDS[kind], *(counts[kind] for counts in seen.values())) for kind in kinds),
    )
    return Chart(
        key,
        title,
        "stack",
        Axis(across, Form.TEXT),
        Axis("share of the values that it saw", Form.SHARE),
        tuple(seen),
        tuple(
            Series(CLASS_WORDS[kind], tuple(counts[kind] / counts.total() for counts in seen.values()))
            for kind in kinds
        ),
        caption="Every field of every message declares what its values are; these are the values that passed, counted. "
        "What a party received encrypted counts as what it could read.",
        slots=tuple(SLOTS[kind] for kind in kinds),
        table=counted,
    )


def sight_tables(accounts: Sequence[Account]) -> list[Table]:
    """For each role, the values that it received and sent by class, and which they mostly were."""
    return [_sight_table(account) for account in accounts]


def _sight_table(account: Account) -> Table:
    columns = (
        Column("class"),
        Column("received", Form.COUNT),
        Column("sent", Form.COUNT),
        Column("mostly"),
    )
    rows: list[tuple[Value, ...]] = [
        (CLASS_WORDS[kind], _total(account.received, kind), _total(account.sent, kind), _mostly(account, kind))
        for kind in Visibility
        if account.seen(kind)
    ]
    caption = (
        "Vectors count in whole blocks, empty slots included."
        if account.role == SERVER
        else "Received: what could be read. Sent: in which form it left."
    )
    folded = account.role != SERVER
    return Table(f"sight-{account.role}", f"Values that passed: {account.role}", columns, tuple(rows), caption, folded)


def _total(classes: Mapping[Visibility, Counter[str]], kind: Visibility) -> int:
    return classes[kind].total() if kind in classes else 0


def _mostly(account: Account, kind: Visibility) -> str:
    if kind in (Visibility.PUBLIC, Visibility.TRANSPORT):
        return "–"
    fields: Counter[str] = Counter()
    for classes in (account.received, account.sent):
        for field, count in classes.get(kind, Counter()).items():
            fields[words_for(field)] += count
    return "; ".join(f"{words} ({count:,})" for words, count in fields.most_common(TOP_FIELDS))


def protection_table(config: RunConfig) -> Table:
    """For each kind of value, the form in which it reaches the server: in this run, and at the other levels."""
    own, profile = Privacy(config.privacy), config.algorithm_settings().profile
    others = [level for level in profile.privacy if level is not own]
    forms = [_forms(profile, level) for level in (own, *others)]
    return Table(
        "protection",
        "In which form values reach the server",
        (Column("what"), Column(f"{own}, this run"), *(Column(level) for level in others)),
        tuple((what, *(form[what] for form in forms)) for what in forms[0]),
        "Columns are levels of privacy. The model is the same at each of them." if others else "",
    )


def _forms(profile: Profile, level: Privacy) -> dict[str, str]:
    return {
        "rows, labels, sample ids": "never",
        "which rows parties share": "as pseudonyms",
        "feature names": "as pseudonyms",
        **dict.fromkeys(profile.encrypted, "ciphertext" if level.encrypts_samples else "in clear"),
        **dict.fromkeys(profile.sealed, "ciphertext" if level.encrypts_features else "in clear, each round"),
        **profile.visible,
    }
