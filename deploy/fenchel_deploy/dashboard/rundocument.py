"""A run as a document: everything that the store knows of it, in the order in which people ask."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any

from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.dashboard.convergence import (
    calibration_table,
    certificate_facts,
    certificate_in_words,
    convergence_charts,
    score_facts,
)
from fenchel_deploy.dashboard.costs import KIND_NAMES, bytes_chart, latency_chart, party_costs, time_chart
from fenchel_deploy.dashboard.documents import (
    Code,
    Column,
    Document,
    Fact,
    Facts,
    Form,
    Prose,
    Section,
    Table,
    Value,
    with_items,
)
from fenchel_deploy.dashboard.history import RunHistory
from fenchel_deploy.dashboard.presence import holdings, members, participation_chart
from fenchel_deploy.dashboard.selection import selection_section
from fenchel_deploy.dashboard.sightings import (
    accounts_of,
    protection_table,
    seen_in_words,
    sight_chart,
    sight_tables,
)
from fenchel_deploy.folders import run_toml
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.runstatus import shown_reason, shown_status
from fenchel_server.rounds.ledger import Kind
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store import PartyRecord, RunRecord, RunStatus

PLAINTEXT = "PLAINTEXT: nothing in this run was encrypted."
SHOWN_DIGITS = 16
"""So many hexadecimal digits of a digest are shown, as elsewhere."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Until when the server's certificate and the roster in its kit are valid."""

    certificate: datetime
    roster: datetime


@dataclass(frozen=True, slots=True)
class RunView:
    """All that is known of a run at one moment; `served` says whether a server process uses the state folder."""

    record: RunRecord
    history: RunHistory
    layout: FederationLayout | None
    parties: Sequence[PartyRecord]
    served: bool
    queue: Sequence[RunRecord] = ()
    validity: Validity | None = None

    @property
    def config(self) -> RunConfig:
        return RunConfig.from_json(self.record.config)

    @property
    def live(self) -> bool:
        return self.served and self.record.status is RunStatus.RUNNING

    @property
    def outcome(self) -> RunOutcome | None:
        return None if self.record.outcome is None else RunOutcome.from_json(self.record.outcome)


def run_document(view: RunView) -> Document:
    """The run as it is now."""
    record, config = view.record, view.config
    sections = (
        _now(view),
        selection_section(config, view.outcome),
        _federation(view),
        _costs(view),
        _sights(view),
        _model(view),
        _provenance(view),
    )
    return Document(
        kind="run",
        name=record.run,
        title=record.name,
        subtitle=subtitle(view),
        status=shown_status(record, served=view.served),
        reason=shown_reason(record, view.parties, served=view.served, queue=view.queue),
        live=view.live or record.status is RunStatus.QUEUED,
        sections=tuple(section for section in sections if section is not None),
        warning=PLAINTEXT if config.privacy is Privacy.PLAIN else "",
    )


def subtitle(view: RunView) -> str:
    """The algorithm, the level and the cipher in a line."""
    config = view.config
    key = key_in_words(view.record.key_bits, cipher=config.cipher_in_use)
    return f"{_algorithm(config)}, {config.privacy}; encryption: {key}"


def _algorithm(config: RunConfig) -> str:
    local = getattr(config.algorithm_settings(), "local", None)
    return f"{config.algorithm} ({local})" if local else config.algorithm


def _now(view: RunView) -> Section | None:
    history, config = view.history, view.config
    limit = config.stop.rounds
    up, down = history.total_bytes()
    facts = [
        *certificate_facts(history, config),
        Fact("rounds", _rounds(view), Form.COUNT, f"of at most {limit:,}"),
        Fact("time", history.total_seconds(), Form.SECONDS, "set-up included"),
        Fact("traffic", up + down, Form.BYTES, "as handed to the transport"),
    ]
    return with_items(
        "result",
        "The result" if not view.live else "So far",
        Facts("headline", tuple(facts), leading=True),
        certificate_in_words(history, config),
        *convergence_charts(history, config),
    )


def _rounds(view: RunView) -> int:
    """The rounds of training; a closing round does not count, as it does not for the limit."""
    return sum(not closing for closing in view.history.closing)


def _federation(view: RunView) -> Section | None:
    undelivered = {} if view.outcome is None else view.outcome.undelivered
    validity = None
    if view.validity is not None:
        validity = Facts(
            "validity",
            (
                Fact("the server's certificate is valid until", view.validity.certificate.timestamp(), Form.TIME),
                Fact("the roster is valid until", view.validity.roster.timestamp(), Form.TIME),
            ),
        )
    return with_items(
        "federation",
        "The federation",
        members(view.history, view.layout, view.parties, view.record, undelivered, live=view.live),
        holdings(view.layout),
        participation_chart(view.history),
        validity,
    )


def _costs(view: RunView) -> Section | None:
    history = view.history
    return with_items(
        "costs",
        "What it costs",
        _still_reading(history),
        time_chart(history),
        bytes_chart(history),
        latency_chart(history),
        _total_costs(view),
        party_costs(history, view.outcome),
    )


def _still_reading(history: RunHistory) -> Prose | None:
    """Says so while costs and sights of parties are those of a part of the rounds."""
    if history.detailed >= history.next_round:
        return None
    text = (
        f"The details of {history.detailed:,} of {history.next_round:,} rounds have been read so far; the rest follows."
    )
    return Prose("still-reading", (text,))


def _total_costs(view: RunView) -> Table | None:
    """The seconds of the whole run by kind, beside those of a usual round; only an ended run has them."""
    outcome = view.outcome
    if outcome is None:
        return None
    rows: list[tuple[Value, ...]] = [
        (KIND_NAMES[Kind(kind)] if kind in set(Kind) else kind, spent, outcome.round_seconds.get(kind))
        for kind, spent in outcome.seconds.items()
    ]
    columns = (Column("kind"), Column("whole run", Form.SECONDS), Column("a usual round", Form.SECONDS))
    caption = "The usual round is the median of the rounds with the most frequent number of round trips."
    return Table("total-costs", "Seconds of the whole run", columns, tuple(rows), caption)


def _sights(view: RunView) -> Section | None:
    ledger = view.history.ledger(json.loads(view.record.seen))
    if not ledger.parties:
        return with_items("sights", "What each role saw", protection_table(view.config))
    accounts = accounts_of(ledger)
    return with_items(
        "sights",
        "What each role saw",
        _still_reading(view.history),
        seen_in_words(accounts[0]),
        sight_chart(accounts),
        protection_table(view.config),
        *sight_tables(accounts),
    )


def _lambda(view: RunView) -> float:
    """The λ of the model: in a run with a path, the one that was taken."""
    path = () if view.outcome is None else view.outcome.path
    return next((row.lambda_ for row in path if row.taken), view.config.algorithm_settings().lambda_)


def _model(view: RunView) -> Section | None:
    """The model card: what was trained, on what, how well it does, and what it must not be taken for."""
    config, layout = view.config, view.layout
    settings = config.algorithm_settings()
    facts = [
        Fact("loss", settings.loss),
        Fact("regularisation λ", _lambda(view), Form.FIGURE),
        Fact("algorithm", _algorithm(config)),
    ]
    if layout is not None:
        labelled = sum(client in layout.label_holders for client in layout.clients)
        facts += [
            Fact("training samples", layout.sample_count, Form.COUNT),
            Fact("features", len(layout.features), Form.COUNT),
            Fact("parties", len(layout.clients), Form.COUNT, f"{labelled} with labels"),
        ]
    if config.features is not None:
        facts.append(Fact("features are scaled", config.features.scale, Form.TEXT, "over all holders"))
    facts.append(Fact("measured on", "training samples", Form.TEXT, "not on samples that training has not seen"))
    outcome = view.outcome
    if outcome is not None:
        delivered = "all parties" if not outcome.undelivered else "all but " + ", ".join(outcome.undelivered)
        facts.append(Fact("delivered to", delivered))
        released = "no" if outcome.release is None else "yes" if outcome.release.whole else outcome.release.reason
        facts.append(Fact("released to the server", released))
    return with_items(
        "model",
        "The model card",
        Facts("model-card", tuple(facts)),
        score_facts(view.history),
        calibration_table(view.history),
    )


def _provenance(view: RunView) -> Section | None:
    record, config = view.record, view.config
    digest = hashlib.sha256(record.config.encode()).hexdigest()
    facts = [
        Fact("run", record.run),
        Fact("cipher", config.cipher_in_use or "none"),
        Fact("key", "none" if record.key_bits is None else f"{record.key_bits} bits, {config.key.kind}"),
        Fact("fingerprint of the key", _short(record.key_fingerprint)),
        Fact("width of slots", config.precision if config.precision == "auto" else f"{config.precision} bits"),
        Fact("alignment of samples", config.alignment),
        Fact("SHA-256 of the configuration", _short(digest)),
        Fact("queued", record.created, Form.TIME),
        Fact("last change", record.updated, Form.TIME),
        Fact("times taken up by a server", record.attempt, Form.COUNT),
        Fact("Fenchel", version("fenchel")),
    ]
    return with_items(
        "provenance",
        "Where it comes from",
        Facts("provenance", tuple(facts)),
        Code("command", "To run it again", "fenchel server --kit KIT --state STATE --run run.toml"),
        Code("config", "run.toml", run_toml(config)),
    )


def _short(digest: str | None) -> str:
    return "none" if digest is None else f"{digest[:SHOWN_DIGITS]}…"


def run_entry(record: RunRecord, *, served: bool) -> dict[str, Any]:
    """The run as a line of a list."""
    config = RunConfig.from_json(record.config)
    return {
        "run": record.run,
        "name": record.name,
        "status": shown_status(record, served=served),
        "algorithm": _algorithm(config),
        "privacy": str(config.privacy),
        "created": record.created,
    }
