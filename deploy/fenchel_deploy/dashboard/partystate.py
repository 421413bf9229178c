"""A party's own view, from its private state folder: its data on the wire, its work, its model and its releases.

The folder has nothing of other parties but their names, as far as the server told whom it waits for.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from fenchel_client.ledger import read_party_ledger
from fenchel_client.statefolder import LEDGER, RELEASE, RUN
from fenchel_common.errors import NoState
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.leakage import Direction, Visibility
from fenchel_common.model import Model, read_model
from fenchel_common.model.folder import SUFFIX as MODEL
from fenchel_common.privacy import Privacy
from fenchel_deploy.audit import CLASS_WORDS, party_account
from fenchel_deploy.dashboard.convergence import ROUND, written
from fenchel_deploy.dashboard.documents import (
    Axis,
    Chart,
    Column,
    Document,
    Fact,
    Facts,
    Form,
    Prose,
    Section,
    Series,
    Table,
    Value,
    with_items,
)
from fenchel_deploy.dashboard.rundocument import PLAINTEXT
from fenchel_deploy.dashboard.sightings import SLOTS, sight_tables
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.standing import NOW_FILE, is_at_work, read_standing
from fenchel_deploy.times import clock_time

MOST_WEIGHTS: Final = 40
"""The chart has the largest weights; the table behind the model has all, up to `MOST_ROWS`."""
MOST_ROWS: Final = 2000


class PartyState:
    """The folder of one party; for one thread at a time."""

    def __init__(self, directory: Path, *, kit: Path | None = None) -> None:
        if not directory.is_dir() or not (any(directory.glob(f"*{LEDGER}")) or (directory / NOW_FILE).exists()):
            raise NoState(f"{directory} has no state of a party; name the folder given to 'fenchel client --state'")
        self._directory = directory
        self._kit = None if kit is None else Kit.load(kit)

    def version(self) -> object:
        """Changes whenever a file of the folder does, and when the client has given no sign of life for too long."""
        files = [(path.name, path.stat().st_mtime_ns) for path in self._directory.iterdir() if path.name[0] != "."]
        return sorted(files), is_at_work(read_standing(self._directory))

    def document(self) -> Document:
        """The party's view as it is now, of the run that it worked on last."""
        now = read_standing(self._directory) or {}
        run = self._run(now)
        at_work = is_at_work(now)
        model = self._model(run)
        sections = (
            _doing(now, at_work=at_work),
            self._wire(run),
            _model_section(model),
            self._releases(run),
            self._kit_section(),
        )
        status, reason = _state_of(now, model, at_work=at_work)
        begins = now.get("begins") or {}
        cipher = f"; encryption: {key_in_words(begins['key_bits'], cipher=begins['cipher'])}" if begins else ""
        return Document(
            kind="party",
            name=run or "no run yet",
            title=str(now.get("party") or self._name(run) or "this party"),
            subtitle=f"{begins['name']}: {begins['algorithm']}, {begins['privacy']}{cipher}" if begins else "",
            status=status,
            reason=reason,
            live=at_work,
            sections=tuple(section for section in sections if section is not None),
            warning=PLAINTEXT if begins.get("privacy") == Privacy.PLAIN else "",
        )

    def _run(self, now: Mapping[str, Any]) -> RunId | None:
        if now.get("run"):
            return RunId(str(now["run"]))
        ledgers = sorted(self._directory.glob(f"*{LEDGER}"), key=lambda path: path.stat().st_mtime)
        return RunId(ledgers[-1].name.removesuffix(LEDGER)) if ledgers else None

    def _name(self, run: RunId | None) -> str | None:
        path = self._directory / f"{run}{LEDGER}"
        return read_party_ledger(path)[0] if path.exists() else None

    def _wire(self, run: RunId | None) -> Section | None:
        """What the party's data became on the wire: the form in which each value left, and what came back."""
        path = self._directory / f"{run}{LEDGER}"
        if not path.exists():
            return None
        party, ledger = read_party_ledger(path)
        account = party_account(ledger, party)
        (table,) = sight_tables([account])
        sent = {kind: fields.total() for kind, fields in account.sent.items()}
        readable = sum(
            count
            for sight, count in ledger.tally(party, Direction.UP).items()
            if sight.visibility is Visibility.INDIVIDUAL
        )
        words = "No value of a single sample, or of this party alone, left it in a form that the server can read."
        if readable:
            words = f"{readable:,} values of single samples, or of this party alone, left it readable to the server."
        return with_items(
            "wire",
            "My data on the wire",
            Prose("wire-in-words", (words,), leading=True),
            _sent(sent),
            replace(table, key="passed", title="Values that passed", folded=False),
        )

    def _model(self, run: RunId | None) -> Model | None:
        if run is None:
            return None
        path = self._directory / f"{run}{MODEL}"
        return read_model(path) if path.exists() else None

    def _releases(self, run: RunId | None) -> Section | None:
        """Weights that the server got, if the roster releases the model to it."""
        path = self._directory / f"{run}{RELEASE}"
        found = path.exists()
        text = (
            "The weights were released to the server, as the roster says."
            if found
            else "Nothing of the model was released to the server."
        )
        unfinished = (self._directory / f"{run}{RUN}").exists()
        if run is None or (unfinished and not found):
            text = "Nothing has been released to the server so far."
        facts = Facts("release", (Fact("released", path.stat().st_mtime, Form.TIME),)) if found else None
        return with_items("releases", "My releases", Prose("release-in-words", (text,)), facts)

    def _kit_section(self) -> Section | None:
        if self._kit is None:
            return None
        certificate, roster = self._kit.certificate.not_after, self._kit.roster.not_after
        facts = (
            Fact("my certificate is valid until", certificate.timestamp(), Form.TIME),
            Fact("the roster is valid until", roster.timestamp(), Form.TIME),
        )
        return with_items("kit", "My kit", Facts("kit-facts", facts))


def _state_of(now: Mapping[str, Any], model: Model | None, *, at_work: bool) -> tuple[str, str]:
    if not at_work:
        if model is not None:
            return "completed", "this party's part of the model is below"
        return ("stopped", "the client has ended") if now.get("ended") else ("interrupted", "no client is at work here")
    if now.get("working"):
        return "running", f"working: {now['phase']}, {_part(now['round'])}"
    if now.get("waits"):
        names = ", ".join(f"{name} (not connected since {clock_time(since)})" for name, since in now["waits"].items())
        return "running", f"waiting for {names}"
    return "running", "waiting for the next task"


def _part(round_id: int | None) -> str:
    return f"round {round_id}" if round_id else "the set-up"


def _doing(now: Mapping[str, Any], *, at_work: bool) -> Section | None:
    if not now:
        return None
    gaps = [(int(round_id), float(gap)) for round_id, gap in now.get("gaps", ()) if float(gap) > 0]
    begins = now.get("begins") or {}
    facts = [Fact("round", now["round"], Form.COUNT)] if now.get("round") is not None else []
    if gaps:
        goal = begins.get("gap_target")
        facts.insert(0, Fact("duality gap", gaps[-1][1], Form.SMALL, f"goal {written(goal)}" if goal else ""))
    seconds = now.get("seconds") or {}
    names = {"encrypt": "encrypting", "decrypt": "decrypting", "parties": "other work", "wait": "waiting"}
    facts += [Fact(name, float(seconds[kind]), Form.SECONDS) for kind, name in names.items() if kind in seconds]
    chart = None
    if gaps:
        rounds, values = zip(*gaps, strict=True)
        chart = Chart(
            "gap",
            "The duality gap, as this party saw it",
            "lines",
            ROUND,
            Axis("duality gap P − D, no unit", Form.SMALL, log=True),
            tuple(rounds),
            (Series("duality gap", tuple(values)),),
            goal=begins.get("gap_target"),
        )
    title = "What I do now" if at_work else "What I did last"
    return with_items("now", title, Facts("headline", tuple(facts), leading=True) if facts else None, chart)


def _sent(sent: Mapping[Visibility, int]) -> Chart | None:
    whole = sum(sent.values())
    if not whole:
        return None
    kinds = [kind for kind in Visibility if sent.get(kind)]
    return Chart(
        "sent",
        "In which form values left",
        "stack",
        Axis("direction", Form.TEXT),
        Axis("share of the values that this party sent", Form.SHARE),
        ("sent to the server",),
        tuple(Series(CLASS_WORDS[kind], (sent[kind] / whole,)) for kind in kinds),
        slots=tuple(SLOTS[kind] for kind in kinds),
    )


def _model_section(model: Model | None) -> Section | None:
    if model is None:
        return None
    record = model.record
    certificate = record.certificate
    facts = [
        Fact("loss", record.loss),
        Fact("regularisation λ", record.lambda_, Form.FIGURE),
        Fact("features of mine", len(record.features), Form.COUNT, f"of {record.all_features:,}"),
        Fact("samples of mine", record.provenance.own_samples, Form.COUNT, f"of {record.provenance.samples:,}"),
        Fact("duality gap", certificate.gap, Form.SMALL),
    ]
    return with_items("model", "My model", Facts("model-card", tuple(facts)), _weights_chart(model), _weights(model))


def _weights(model: Model) -> Table:
    """All weights, the largest first; with several classes a column for each."""
    columns = [
        Column("feature"),
        *(Column(name, Form.FIGURE) for name in _classes(model)),
        Column("shift", Form.FIGURE),
        Column("scale", Form.FIGURE),
    ]
    weights = model.weights.reshape(len(model.names), -1)
    rows: list[tuple[Value, ...]] = [
        (feature.name, *map(float, weights[place]), feature.shift, feature.scale)
        for place in _largest(model)[:MOST_ROWS]
        for feature in (model.record.features[place],)
    ]
    if model.intercept is not None:
        rows.insert(0, ("(intercept)", *map(float, np.atleast_1d(model.intercept)), None, None))
    caption = "The largest first. A value counts as (value − shift) ÷ scale, times its weight."
    return Table("weights", "The weights", tuple(columns), tuple(rows), caption)


def _weights_chart(model: Model) -> Chart | None:
    """The largest weights of a model of two classes or of numbers."""
    if model.weights.ndim != 1 or not len(model.weights):
        return None
    places = _largest(model)[:MOST_WEIGHTS]
    return Chart(
        "largest-weights",
        "The largest weights",
        "bars",
        Axis("weight, no unit", Form.FIGURE),
        Axis("feature", Form.TEXT),
        tuple(model.names[place] for place in places),
        (Series("weight", tuple(float(model.weights[place]) for place in places)),),
    )


def _classes(model: Model) -> tuple[str, ...]:
    return tuple(model.record.classes) if model.weights.ndim == 2 else ("weight",)


def _largest(model: Model) -> list[int]:
    sizes = np.abs(model.weights).reshape(len(model.names), -1).max(axis=1, initial=0.0)
    return [int(place) for place in np.argsort(-sizes, kind="stable")]
