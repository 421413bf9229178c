"""Who takes part: the parties now, the rounds in which each took part or was left out, and who holds what."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_deploy.dashboard.convergence import ROUND
from fenchel_deploy.dashboard.documents import (
    Axis,
    Cell,
    Chart,
    Column,
    Fact,
    Form,
    Holdings,
    Member,
    Members,
    Series,
    Table,
    Value,
)
from fenchel_deploy.dashboard.history import Presence, RunHistory
from fenchel_deploy.dashboard.thinning import buckets_of
from fenchel_server.store import PartyRecord, RunRecord

MOST_CELLS = 4096
"""A federation whose holdings overlap in more pieces than this is not drawn: nobody could tell them apart."""
MOST_REASONS = 5
"""A table names at most so many different reasons of a party."""


def members(
    history: RunHistory,
    layout: FederationLayout | None,
    parties: Sequence[PartyRecord],
    record: RunRecord,
    undelivered: Mapping[ClientId, str],
    *,
    live: bool,
) -> Members | None:
    """The parties; while the run is under way with what each does, afterwards with what became of each."""
    now = {one.party: one for one in parties} if live else {}
    known = list(layout.clients) if layout is not None else []
    names = list(dict.fromkeys([*known, *sorted(now), *history.names]))
    taken = history.presence()
    found = [
        _member(ClientId(name), history, taken, layout, now.get(ClientId(name)), record, undelivered) for name in names
    ]
    title = "The parties now" if live else "The parties"
    return Members("members", title, tuple(found)) if found else None


def _member(
    name: ClientId,
    history: RunHistory,
    taken: NDArray[np.uint8],
    layout: FederationLayout | None,
    now: PartyRecord | None,
    record: RunRecord,
    undelivered: Mapping[ClientId, str],
) -> Member:
    facts = []
    if layout is not None and name in layout.client_features:
        facts.append(Fact("samples", layout.samples_of(name), Form.COUNT))
        facts.append(Fact("features", len(layout.client_features[name]), Form.COUNT))
    if (position := history.parties.get(name)) is not None and len(taken):
        part = int((taken[:, position] == Presence.TOOK_PART).sum())
        facts.append(Fact("rounds", part, Form.COUNT, f"of {len(taken)}"))
    if now is None:
        doing = f"did not get the model: {undelivered[name]}" if name in undelivered else ""
        return Member(name, "unknown", doing, None, tuple(facts))
    if not now.connected:
        return Member(name, "absent", f"absent: {now.reason}", now.since, tuple(facts))
    if now.phase is not None and now.run == record.run:
        part_of = f"of round {now.round_id}" if now.round_id else "of the set-up"
        return Member(name, "working", f"working: {now.phase} {part_of}", now.since, tuple(facts))
    return Member(name, "here", "waiting for its next task", now.since, tuple(facts))


def participation_chart(history: RunHistory) -> Chart | None:
    """Parties × rounds; a cell of several rounds shows an absence if there was one in any of them."""
    taken = history.presence()
    if not taken.size:
        return None
    pieces = buckets_of(len(taken))
    names = history.names
    least = np.minimum.reduceat(taken, [piece.start for piece in pieces], axis=0)
    series = tuple(Series(name, tuple(map(int, least[:, history.parties[name]]))) for name in names)
    each = len(taken) / len(pieces)
    thinned = f" Each column stands for {each:.1f} rounds on average." if each > 1 else ""
    return Chart(
        "participation",
        "Who took part",
        "map",
        ROUND,
        Axis("party", Form.TEXT),
        tuple(history.rounds[piece.start] for piece in pieces),
        series,
        caption="Each row is a party, each column a round." + thinned,
        notes=_reasons_by_cell(history, pieces),
        table=_participation_table(history, names),
    )


def _reasons_by_cell(history: RunHistory, pieces: Sequence[slice]) -> dict[str, str]:
    """For each cell with an absence, named by party and column, the first reason."""
    column_of = {
        history.rounds[position]: number
        for number, piece in enumerate(pieces)
        for position in range(piece.start, piece.stop)
    }
    found: dict[str, str] = {}
    for round_id, party, reason in history.reasons:
        found.setdefault(f"{party}/{column_of[round_id]}", reason)
    return found


def _participation_table(history: RunHistory, names: Sequence[str]) -> Table:
    taken = history.presence()
    reasons: dict[str, dict[str, list[int]]] = {}
    for round_id, party, reason in history.reasons:
        reasons.setdefault(party, {}).setdefault(reason, []).append(round_id)
    columns = (
        Column("party"),
        Column("took part", Form.COUNT),
        Column("not asked", Form.COUNT),
        Column("left out", Form.COUNT),
        Column("reasons, with the first rounds"),
    )
    counts = {kind: (taken == kind).sum(axis=0) for kind in Presence}
    rows: list[tuple[Value, ...]] = [
        (
            name,
            *(int(counts[kind][history.parties[name]]) for kind in reversed(Presence)),
            _in_words(reasons.get(name, {})),
        )
        for name in names
    ]
    return Table("participation-table", "Rounds of each party", columns, tuple(rows))


def _in_words(reasons: Mapping[str, Sequence[int]]) -> str:
    parts = []
    for reason, rounds in list(reasons.items())[:MOST_REASONS]:
        shown = ", ".join(map(str, rounds[:3])) + (", …" if len(rounds) > 3 else "")
        parts.append(f"{reason} ({'round' if len(rounds) == 1 else 'rounds'} {shown})")
    return "; ".join(parts) or "–"


def holdings(layout: FederationLayout | None) -> Holdings | None:
    """Who holds which part of the table of all; a part that nobody holds is left empty."""
    if layout is None:
        return None
    samples = _cohorts((block.holders, block.size) for block in layout.blocks)
    features = _cohorts((block.holders, len(block.features)) for block in layout.feature_blocks)
    cells = [
        Cell(rows, first_row, columns, first_column, tuple(one for one in row_holders if one in column_holders))
        for row_holders, (first_row, rows) in samples.items()
        for column_holders, (first_column, columns) in features.items()
        if set(row_holders) & set(column_holders)
    ]
    if len(cells) > MOST_CELLS:
        return None
    table = Table(
        "holdings-table",
        "Who holds what",
        (Column("held by"), Column("samples", Form.COUNT), Column("features", Form.COUNT)),
        tuple((", ".join(cell.holders), cell.samples, cell.features) for cell in cells),
    )
    return Holdings(
        "holdings",
        "The table that nobody has",
        layout.sample_count,
        len(layout.features),
        tuple(cells),
        "Rows are samples, columns are features, in proportion. The server knows them by pseudonyms alone.",
        table,
    )


def _cohorts(pieces: Iterable[tuple[tuple[ClientId, ...], int]]) -> dict[tuple[ClientId, ...], tuple[int, int]]:
    """For each set of holders where its samples or features begin, and how many they are."""
    sizes: dict[tuple[ClientId, ...], int] = {}
    for holders, size in pieces:
        sizes[holders] = sizes.get(holders, 0) + size
    found: dict[tuple[ClientId, ...], tuple[int, int]] = {}
    first = 0
    for holders, size in sizes.items():
        found[holders] = (first, size)
        first += size
    return found
