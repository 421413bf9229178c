"""What a run costs: seconds and bytes a round by kind, how fast each party answers, and the costs of each party."""

from collections.abc import Mapping

import numpy as np

from fenchel_deploy.dashboard.convergence import ROUND
from fenchel_deploy.dashboard.documents import Axis, Chart, Column, Form, Series, Table, Value
from fenchel_deploy.dashboard.history import PartySums, RunHistory
from fenchel_deploy.dashboard.thinning import buckets_of, means
from fenchel_server.rounds.ledger import Kind
from fenchel_server.rounds.outcome import RunOutcome

KIND_NAMES: Mapping[Kind, str] = {
    Kind.ENCRYPT: "encrypt",
    Kind.DECRYPT: "decrypt",
    Kind.PARTIES: "parties compute",
    Kind.SERIALISE: "serialise",
    Kind.WIRE: "wire",
    Kind.WAIT: "wait for parties that never answered",
    Kind.COMPUTE: "server computes",
    Kind.STORE: "store",
    Kind.CLIENTS: "wait until enough are connected",
    Kind.OTHER: "other",
}
"""For people; the order is that of the bars, and the place of a kind the number of its colour."""
QUANTILES = {"least": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "most": 1.0}
PARTY_COLUMNS = (
    Column("party"),
    Column("encrypt", Form.SECONDS),
    Column("decrypt", Form.SECONDS),
    Column("compute", Form.SECONDS),
    Column("serialise", Form.SECONDS),
    Column("wire", Form.SECONDS),
    Column("wait", Form.SECONDS),
    Column("processor", Form.SECONDS),
    Column("sent", Form.BYTES),
    Column("received", Form.BYTES),
    Column("memory", Form.MIB),
)


def time_chart(history: RunHistory) -> Chart | None:
    """Seconds a round, by kind."""
    if not history.rounds:
        return None
    pieces = buckets_of(len(history.rounds))
    kinds = [kind for kind in KIND_NAMES if any(history.seconds[kind])]
    slots = list(KIND_NAMES)
    return Chart(
        "time",
        "Time a round, by kind",
        "stack",
        ROUND,
        Axis("seconds a round", Form.SECONDS),
        _rounds(history, pieces),
        tuple(Series(KIND_NAMES[kind], tuple(means(np.array(history.seconds[kind]), pieces))) for kind in kinds),
        caption="Work is that of the last party to answer in each phase; the parts add up to the wall-clock time."
        + _thinned(len(history.rounds), pieces),
        slots=tuple(slots.index(kind) for kind in kinds),
    )


def bytes_chart(history: RunHistory) -> Chart | None:
    """Bytes a round, by kind, of the rounds that have been read in detail."""
    count = len(history.ciphertext_up)
    if not count:
        return None
    pieces = buckets_of(count)
    up, down = np.array(history.bytes_up[:count], float), np.array(history.bytes_down[:count], float)
    sealed_up, sealed_down = np.array(history.ciphertext_up, float), np.array(history.ciphertext_down, float)
    parts = {
        "ciphertext to the server": sealed_up,
        "other to the server": up - sealed_up,
        "ciphertext to the parties": sealed_down,
        "other to the parties": down - sealed_down,
    }
    return Chart(
        "bytes",
        "Bytes a round, by kind",
        "stack",
        ROUND,
        Axis("bytes a round", Form.BYTES),
        _rounds(history, pieces),
        tuple(Series(name, tuple(means(values, pieces))) for name, values in parts.items() if values.any()),
        caption="As they are handed to the transport, all parties together. TLS encrypts all of them once more."
        + _thinned(count, pieces),
        slots=tuple(slot for slot, values in enumerate(parts.values()) if values.any()),
    )


def latency_chart(history: RunHistory) -> Chart | None:
    """How long each party takes between the tasks of a round and its results."""
    latency = history.latency()
    answered = np.asarray(np.isfinite(latency).any(axis=0), dtype=bool)
    names = [name for name in history.names if answered[history.parties[name]]]
    if not names:
        return None
    columns = latency[:, [history.parties[name] for name in names]]
    found = np.nanquantile(columns, list(QUANTILES.values()), axis=0)
    return Chart(
        "latency",
        "How fast each party answers",
        "ranges",
        Axis("seconds a round", Form.SECONDS),
        Axis("party", Form.TEXT),
        tuple(names),
        tuple(Series(name, tuple(map(float, row))) for name, row in zip(QUANTILES, found, strict=True)),
        caption="From the tasks of a round to its results: work and wire. The dot is the median round; the bar goes "
        "from 5 % to 95 % of the rounds, the line to the extremes.",
    )


def party_costs(history: RunHistory, outcome: RunOutcome | None) -> Table | None:
    """The costs of each party: of the whole run if it has ended, or else of the rounds read in detail."""
    rows: list[tuple[Value, ...]]
    if outcome is not None and outcome.clients_detail:
        rows = [
            (
                name,
                one.encrypt_s,
                one.decrypt_s,
                one.compute_s,
                one.serialise_s,
                one.wire_s,
                one.wait_s,
                one.cpu_seconds,
                one.bytes_up,
                one.bytes_down,
                one.rss_mib,
            )
            for name, one in outcome.clients_detail.items()
        ]
    else:
        rows = [(name, *_sums(history.sums[name])) for name in history.names if name in history.sums]
    caption = "Seconds are of the server's clock, beside those that a party reports of its own work."
    return Table("party-costs", "What each party spent", PARTY_COLUMNS, tuple(rows), caption) if rows else None


def _sums(spent: PartySums) -> tuple[Value, ...]:
    names = ("encrypt_s", "decrypt_s", "compute_s", "serialise_s", "wire_s", "wait_s", "cpu_seconds")
    seconds = tuple(float(spent.sums[name]) for name in names)
    traffic = (int(spent.sums["bytes_up"]), int(spent.sums["bytes_down"]))
    return (*seconds, *traffic, spent.peak_memory_bytes / 2**20)


def _rounds(history: RunHistory, pieces: list[slice]) -> tuple[Value, ...]:
    """The first round of each piece."""
    return tuple(history.rounds[piece.start] for piece in pieces)


def _thinned(count: int, pieces: list[slice]) -> str:
    if count == len(pieces):
        return ""
    return f" Each bar is the mean of about {count / len(pieces):.1f} rounds, from the one named on."
