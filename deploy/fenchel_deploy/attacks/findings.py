"""The outcome of an attack at one level and with one setting, and the claim about it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from fenchel_common.privacy import Privacy
from fenchel_deploy.attacks.federation import Bench
from fenchel_deploy.attacks.scoring import Score

Claim = Literal["leaks", "safe"]
Claims = Mapping[str, Claim]
"""Claims by level."""

LEVELS: Final = tuple(Privacy)

EVERY_LEVEL: Final = "all"
"""Stands for all levels where the level makes no difference."""
SUCCESS: Final = 0.9
"""From this mean cosine, F1 or rate of exact matches on an attack counts as successful."""
FOUND_BY_CHANCE: Final = 2
"""With h = 1 a contribution to the model is a row, and a guess that names a position at random is right now and then:
in 54 runs of 40 rows four times once and once twice. By chance one of some thousand runs has three of them."""

SUCCEEDS: Final = "**succeeds**"
FAILS: Final = "fails"

LEAKS: Final[Claims] = dict.fromkeys(LEVELS, "leaks")
SAFE: Final[Claims] = dict.fromkeys(LEVELS, "safe")
SAFE_IF_SEALED: Final[Claims] = {**LEAKS, Privacy.SEALED: "safe"}
SAFE_IF_ENCRYPTED: Final[Claims] = {**SAFE, Privacy.PLAIN: "leaks"}
ENCRYPTED: Final = tuple(level for level in Privacy if level.encrypts_samples)
"""The levels at which a run has a key."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `claim` is what the documentation says, and `succeeds` must bear it out."""

    attack: str
    who: str
    level: str
    setting: str
    succeeds: bool
    score: float
    measure: str
    claim: Claim
    note: str
    unchecked: bool
    """Whether the attack would succeed at `sealed` if parties checked nothing."""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding without the name of its attack and without its claim."""

    level: str
    setting: str
    score: float
    measure: str
    succeeds: bool
    note: str

    @classmethod
    def of_score(cls, score: Score, *, level: str, setting: str, measure: str) -> "Verdict":
        """Succeeds if the mean is high, or if clearly more rows of the party are found than rows of nobody."""
        note = f"{score.found} of {score.total} rows found; " + (
            f"chance {score.chance:.2f}" if score.guesses else "nothing to guess from"
        )
        succeeds = score.value >= SUCCESS or score.found > score.strangers_found + FOUND_BY_CHANCE
        return cls(level, setting, score.value, measure, succeeds, note)

    @classmethod
    def of_rate(cls, rate: float, *, level: str, setting: str, note: str, chance: float = 0.0) -> "Verdict":
        """Succeeds if the rate is high, and above `chance`, the rate of guesses without any knowledge."""
        return cls(level, setting, rate, "exact matches", rate >= SUCCESS and rate > chance, note)

    @classmethod
    def of_attempts(cls, outcomes: Mapping[str, bool], *, level: str, setting: str) -> "Verdict":
        """Succeeds if at least one attempt is accepted."""
        through = [name for name, taken in outcomes.items() if taken]
        note = f"{len(through)} of {len(outcomes)} attempts went through"
        return cls(level, setting, len(through) / len(outcomes), "accepted", bool(through), note)


Play = Callable[[Bench, Sequence[Privacy]], Iterator[Verdict]]


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack and who can mount it; `play` mounts it at some levels, with all settings of `claims`.

    `claims` has, for each setting and level at which the attack is played, the claim of the documentation. `unchecked`
    names the settings in which the attack always succeeds at the level `sealed` if parties check nothing: so it is
    their checks that make it fail.
    """

    name: str
    summary: str
    who: str
    claims: Mapping[str, Claims]
    play: Play
    unchecked: Sequence[str] = ()

    def findings(self, bench: Bench, *, levels: Sequence[Privacy] = LEVELS) -> Iterator[Finding]:
        for verdict in self.play(bench, levels):
            yield Finding(
                attack=self.name,
                who=self.who,
                level=verdict.level,
                setting=verdict.setting,
                succeeds=verdict.succeeds,
                score=verdict.score,
                measure=verdict.measure,
                claim=self.claims[verdict.setting][verdict.level],
                note=verdict.note,
                unchecked=verdict.setting in self.unchecked,
            )


def markdown(findings: Sequence[Mapping[str, object]]) -> str:
    """The findings as a table for the documentation, level beside level."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for one in findings:
        before = SUCCEEDS if one["unchecked"] else ""
        key = (*(str(one[name]) for name in ("attack", "who", "setting", "measure")), before)
        outcome = SUCCEEDS if one["succeeds"] else FAILS
        rows.setdefault(key, {})[str(one["level"])] = f"{outcome} {one['score']:.2f}: {one['note']}"
    columns = ("attack", "who", "setting", "measure", "sealed, without checks", *LEVELS)
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for key, cells in rows.items():
        told = (
            [cells[EVERY_LEVEL], "same", "same"] if EVERY_LEVEL in cells else [cells.get(name, "") for name in LEVELS]
        )
        lines.append(f"| {' | '.join([*key, *told])} |")
    return "\n".join(lines) + "\n"
