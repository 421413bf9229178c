"""The attacks on rows: what is tried on which recorded runs, and how it is scored."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.findings import (
    ENCRYPTED,
    SAFE,
    SAFE_IF_ENCRYPTED,
    SAFE_IF_SEALED,
    Attack,
    Claims,
    Play,
    Verdict,
)
from fenchel_deploy.attacks.recorded import Recorded, Scenario
from fenchel_deploy.attacks.rows import (
    Estimate,
    differences,
    rows_from_differences,
    rows_from_iterates,
    rows_from_products,
    rows_from_recurring_steps,
    rows_from_subspaces,
    rows_from_vertices,
    supports,
)
from fenchel_deploy.attacks.scoring import Score, pooled, row_score, support_score
from fenchel_deploy.attacks.tables import ALL_DENSE, ALL_SPARSE
from fenchel_deploy.attacks.traces import Frame, Trace, drawn_rows, trace
from fenchel_deploy.attacks.views import Eyes, PublicEyes, Transcript

HALF_DENSE: Final = ALL_DENSE // 2
CONFIDENT: Final = 5
"""How many guesses without a position count: those that the attack trusts most."""

Method = Callable[[Transcript, Trace, Eyes], list[Estimate]]


def _iterates(_transcript: Transcript, seen: Trace, _eyes: Eyes) -> list[Estimate]:
    return rows_from_iterates(seen.iterates)


def _products(_transcript: Transcript, seen: Trace, _eyes: Eyes) -> list[Estimate]:
    return rows_from_products(seen.products)


def _differences(transcript: Transcript, seen: Trace, eyes: Eyes) -> list[Estimate]:
    drawn = drawn_rows(seen.frame, transcript)
    return rows_from_differences(differences(seen.frame, seen.contributions, eyes), drawn)


def _recurring_steps(_transcript: Transcript, seen: Trace, eyes: Eyes) -> list[Estimate]:
    return rows_from_recurring_steps(differences(seen.frame, seen.contributions, eyes), at_most=CONFIDENT)


def _subspaces(transcript: Transcript, seen: Trace, eyes: Eyes) -> list[Estimate]:
    drawn = drawn_rows(seen.frame, transcript)
    return rows_from_subspaces(differences(seen.frame, seen.contributions, eyes), drawn)


def _vertices(_transcript: Transcript, seen: Trace, eyes: Eyes) -> list[Estimate]:
    told = [seen.frame.by_feature(one.vector.blocks, eyes.read(one.vector.vector)) for one in seen.contributions]
    return rows_from_vertices(told, at_most=CONFIDENT)


def _supports(transcript: Transcript, seen: Trace, eyes: Eyes) -> list[Estimate]:
    return supports(_differences(transcript, seen, eyes))


def seen_by(recorded: Recorded, eyes: Eyes) -> dict[ClientId, Trace]:
    """The values of each party that `eyes` can read in the server's messages."""
    transcript = recorded.transcript
    return {
        client: trace(
            Frame.seen_by_server(transcript.layout, client),
            transcript.of(client),
            eyes,
            family=recorded.family,
        )
        for client in transcript.layout.clients
    }


def attacked(
    recorded: Recorded, seen: Mapping[ClientId, Trace], eyes: Eyes, method: Method, *, of_supports: bool = False
) -> Score:
    """The score of the method, used on every party in turn."""
    truth, scored = recorded.truth, support_score if of_supports else row_score
    return pooled(
        [
            scored(method(recorded.transcript, one, eyes), truth.rows[client], truth.strangers[client])
            for client, one in seen.items()
        ]
    )


def _by_the_server(
    method: Method, scenarios: Callable[[Privacy], Mapping[str, Scenario]], *, of_supports: bool = False
) -> Play:
    """A play in which the server uses the method, on each setting's scenario at each level."""
    measure = "F1 of supports" if of_supports else "cosine"

    def play(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
        for level in levels:
            for setting, scenario in scenarios(level).items():
                recorded = bench.record(scenario)
                eyes = PublicEyes(recorded.transcript.key)
                score = attacked(recorded, seen_by(recorded, eyes), eyes, method, of_supports=of_supports)
                yield Verdict.of_score(score, level=level, setting=setting, measure=measure)

    return play


def _all_steps(level: Privacy) -> dict[str, Scenario]:
    """Small h, large h and corrective steps."""
    return {
        "h = 1": Scenario(level, h=1),
        "h = all": Scenario(level, loss="logistic", h=ALL_DENSE),
        "corrective": Scenario(level, "labelled", local="corrective"),
    }


def _on_all_steps(claims: Claims) -> dict[str, Claims]:
    return dict.fromkeys(("h = 1", "h = all", "corrective"), claims)


def _single_and_many(level: Privacy) -> dict[str, Scenario]:
    return {"h = 1": Scenario(level, h=1), "h = all, logistic": Scenario(level, loss="logistic", h=ALL_DENSE)}


def _half(level: Privacy) -> dict[str, Scenario]:
    return {"h = half, hinge, 120 rounds": Scenario(level, h=HALF_DENSE, rounds=120)}


def _few(level: Privacy) -> dict[str, Scenario]:
    return {"h = 3, logistic, 50 rounds": Scenario(level, loss="logistic", h=3, rounds=50)}


def _sparse(level: Privacy) -> dict[str, Scenario]:
    return {
        "h = 1, sparse": Scenario(level, "sparse", h=1),
        "h = all, sparse": Scenario(level, "sparse", h=ALL_SPARSE),
    }


def _corrective(level: Privacy) -> dict[str, Scenario]:
    return {"corrective, all with labels": Scenario(level, "labelled", local="corrective")}


SINGLE_STEPS: Final[Mapping[str, Method]] = {
    "iterates": _iterates,
    "products": _products,
    "differences": _differences,
}


def _play_masks(bench: Bench, levels: Sequence[Privacy]) -> Iterator[Verdict]:
    for level in levels:
        if level not in ENCRYPTED:
            continue
        recorded = bench.record(Scenario(level, h=1, cipher="masks"))
        eyes = PublicEyes(recorded.transcript.key)
        seen = seen_by(recorded, eyes)
        for name, method in SINGLE_STEPS.items():
            score = attacked(recorded, seen, eyes, method)
            yield Verdict.of_score(score, level=level, setting=f"h = 1, {name}", measure="cosine")


_SERVER = "server"
HIDDEN: Final[Claims] = dict.fromkeys(ENCRYPTED, "safe")
SHOWN_AT_PAPER: Final[Claims] = {Privacy.PAPER: "leaks", Privacy.SEALED: "safe"}

ROW_ATTACKS: Final = (
    Attack(
        "rows-from-iterates",
        "solves ŵ_k = X_kᵀα/(λN) for the rows, over the rounds",
        _SERVER,
        _on_all_steps(SAFE_IF_ENCRYPTED),
        _by_the_server(_iterates, _all_steps),
    ),
    Attack(
        "rows-from-products",
        "solves x_i·w for each row, over the rounds",
        _SERVER,
        _on_all_steps(SAFE_IF_ENCRYPTED),
        _by_the_server(_products, _all_steps),
    ),
    Attack(
        "rows-from-differences",
        "takes the change of ŵ_k for the drawn row",
        _SERVER,
        {"h = 1": SAFE_IF_SEALED, "h = all, logistic": SAFE},
        _by_the_server(_differences, _single_and_many),
    ),
    Attack(
        "rows-from-recurring-steps",
        "takes directions in which ŵ_k moved twice for rows: most hinge duals rest at their bounds, also at large h",
        _SERVER,
        {"h = half, hinge, 120 rounds": SAFE_IF_SEALED},
        _by_the_server(_recurring_steps, _half),
    ),
    Attack(
        "rows-from-subspaces",
        "intersects the spans of changes of ŵ_k over sets of drawn rows smaller than the number of features",
        _SERVER,
        {"h = 3, logistic, 50 rounds": SAFE_IF_SEALED},
        _by_the_server(_subspaces, _few),
    ),
    Attack(
        "words-from-differences",
        "reads off which features a sparse row has",
        _SERVER,
        {"h = 1, sparse": SAFE_IF_SEALED, "h = all, sparse": SAFE},
        _by_the_server(_supports, _sparse, of_supports=True),
    ),
    Attack(
        "rows-from-vertices",
        "takes common differences of the corrective steps' X_kᵀv for rows",
        _SERVER,
        {"corrective, all with labels": SAFE_IF_SEALED},
        _by_the_server(_vertices, _corrective),
    ),
    Attack(
        "masks",
        "takes masked words for values, and their differences, and then attacks rows as above",
        _SERVER,
        {
            "h = 1, iterates": HIDDEN,
            "h = 1, products": HIDDEN,
            "h = 1, differences": SHOWN_AT_PAPER,
        },
        _play_masks,
    ),
)
