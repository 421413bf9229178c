"""A model card in Markdown: what a model is for, what it was made of in totals, how good it is, what was protected.

It has no weight, no mean or scale of a feature, and nothing of single samples.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fenchel_common.model.joining import lacking
from fenchel_common.model.record import Kind, Model, ModelRecord

NOT_STATED: Final = (
    "*Not stated.* Whoever hands this model on writes here what it is for, for whom, and for what it must not be used "
    "(`fenchel export --intended-use`)."
)
KINDS: Final[Mapping[Kind, str]] = {
    "number": "numbers",
    "category": "values of categories",
    "other": "other values of categories",
    "missing": "missing cells",
}
LEVELS: Final = {
    "sealed": "The server that ran the training saw ciphertext, pseudonyms, and totals over the whole federation: the "
    "objective, its dual, the gap, and how well the model predicts.",
    "paper": "Dual variables and inner products were encrypted. The server saw each party's contribution to the model "
    "in clear in each round, from which rows may follow.",
    "plain": "Nothing was encrypted: the server saw everything. The run was for measuring.",
}
TASKS: Final = {
    "binary": "one of two classes",
    "classes": "one of several classes, by a score for each",
    "regression": "a number",
}


def model_card(model: Model, *, intended_use: str | None = None, measured: Mapping[str, Any] | None = None) -> str:
    """The text of the card; `measured` are the figures of rows that `fenchel predict --format json` printed."""
    record = model.record
    sections = {
        "Intended use": [intended_use or NOT_STATED],
        "What it predicts": _task(record),
        "Data": _data(record),
        "How good it is": [*_certificate(record), *_trained(record), *_measured(measured)],
        "What was protected": _protection(record),
        "Limits": _limits(model),
        "Where it is from": _origin(record),
    }
    parts = [f"# Model card: {_text(record.name)}"]
    parts += [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items()]
    return "\n\n".join(parts) + "\n"


def _task(record: ModelRecord) -> list[str]:
    named = f": {', '.join(map(_text, record.classes))}" if record.classes else ""
    linear = "with" if record.intercept != "none" else "without"
    return [
        f"A linear model, {linear} an intercept, that predicts {TASKS[record.task]}{named}.",
        f"It minimises the mean of the loss `{record.loss}` and λ/2·‖w‖² with λ = {record.lambda_:g}.",
    ]


def _data(record: ModelRecord) -> list[str]:
    kinds = Counter(one.kind for one in record.features)
    described = ", ".join(f"{count} of {KINDS[kind]}" for kind, count in kinds.items())
    prepared = record.provenance.configuration.get("features")
    lines = [
        f"- {record.provenance.samples} samples of {len(record.parties)} parties.",
        f"- {record.all_features} features; {len(record.features)} of them are in the parts at hand: {described}.",
    ]
    if prepared:
        missing = {"mean": "filled in with the mean", "refuse": "refused"}[prepared["missing"]]
        lines.append(
            f"- Features are scaled by `{prepared['scale']}` over all their holders; missing cells are {missing}."
        )
    if record.unit_rows:
        lines.append("- Whole rows are divided by their length.")
    if record.standardised:
        lines.append("- Numbers to predict were standardised over all parties.")
    return lines


def _certificate(record: ModelRecord) -> list[str]:
    found = record.certificate
    if found.primal is None or found.gap is None or found.dual is None:
        return ["- There is no certificate: nothing proves how far the model is from the optimum."]
    text = (
        f"- Certificate: the objective is {found.primal:.9f}, and at least {found.dual:.9f} for any model; the gap of "
        f"{found.gap:.3g} bounds the distance to the optimum over all samples and features of the run. It says how "
        "well the problem was solved, and nothing about new samples."
    )
    return [text]


def _trained(record: ModelRecord) -> list[str]:
    found = record.figures
    if found is None:
        return []
    named = {} if found.accuracy is None else {"accuracy": found.accuracy}
    figures = (f"{name.replace('_', ' ')} {value:.4f}" for name, value in {**named, **found.named()}.items())
    return [f"- On the {found.samples} samples of the training, measured by encrypted sums: {', '.join(figures)}."]


def _measured(measured: Mapping[str, Any] | None) -> list[str]:
    if not measured:
        return ["- Nothing was measured on rows that were kept out of the training."]
    known = {name: value for name, value in measured.items() if value is not None}
    rows = known.pop("labelled", known.pop("rows", 0))
    known.pop("rows", None)
    figures = (f"{name.replace('_', ' ')} {value:.4f}" for name, value in known.items())
    return [f"- On {rows} rows with labels, which whoever made this card chose: {', '.join(figures)}."]


def _protection(record: ModelRecord) -> list[str]:
    origin = record.provenance
    lines = [LEVELS[origin.privacy]]
    if origin.cipher == "paillier":
        lines.append(f"Encryption: Paillier, {origin.key_bits} bits, key {(origin.key_fingerprint or '')[:16]}….")
    elif origin.cipher == "masks":
        lines.append("Encryption: one-time pads between the parties.")
    lines.append(
        "No party learned rows or labels of another from the server's messages, with the exceptions that Fenchel's "
        "threat model lists. The model itself is exact: no noise hides what single samples contributed to its weights."
    )
    return lines


def _limits(model: Model) -> list[str]:
    lack = lacking(model)
    lines = [f"- **The parts at hand are not the whole model: {lack} are lacking.**"] if lack else []
    return [
        *lines,
        "- It is linear in its prepared features and knows no interactions.",
        "- It was trained on the samples of these parties; other populations need figures of their own.",
        "- A value of a category that the training did not know counts as one of the others, or as none.",
    ]


def _origin(record: ModelRecord) -> list[str]:
    origin = record.provenance
    rows = {
        "run": f"{record.run} ({record.name})",
        "parties": ", ".join(record.parties),
        "parts of": record.party,
        "algorithm": str(origin.configuration.get("algorithm", "")),
        "rounds": str(origin.rounds),
        "configuration": f"SHA-256 {origin.configuration_sha256}",
        "software": f"Fenchel {origin.software}, protocol {origin.protocol_version}",
    }
    return ["| | |", "|---|---|", *_rows(rows.items())]


def _rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"| {name} | {_text(value)} |" for name, value in pairs]


def _text(name: str) -> str:
    """A name from a configuration as text of Markdown: on one line, and without marks that mean something there."""
    shown = "".join(character if character.isprintable() else " " for character in name)
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#!" else character for character in shown)
