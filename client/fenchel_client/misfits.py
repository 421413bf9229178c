"""What a party's operator is to mend where the server found that the party's data keep a run from beginning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fenchel_common.dismissal import Misfit, UnfitData
from fenchel_common.errors import DataUnfit

SAME_IDS = (
    "the same sample must have the same id at every party; `fenchel data inspect` prints the rule and how the ids are "
    "read here: compare that with the other parties, and correct the ids or `id` in shard.toml"
)


@dataclass(frozen=True, slots=True)
class OwnIds:
    """How many ids a party has, and how many of them are whole numbers: a common cause of ids that do not match."""

    count: int
    numbers: int

    @classmethod
    def of(cls, ids: Sequence[str]) -> "OwnIds":
        return cls(len(ids), sum(sample.isdigit() for sample in ids))

    def __str__(self) -> str:
        if self.numbers == self.count:
            return "all its ids are whole numbers"
        return (
            "none of its ids is a whole number" if not self.numbers else f"{self.numbers} of its ids are whole numbers"
        )


def unfit_data(found: UnfitData, ids: OwnIds, names: Mapping[str, str]) -> DataUnfit:
    """The error with which the party's process ends; it names own columns, and no id and no value.

    `names` has the names of the party's features by pseudonym; a pseudonym that is not the party's own is passed over.
    """
    columns = sorted(names[pseudonym] for pseudonym in found.features if pseudonym in names)
    return DataUnfit(_EXPLAINED[found.misfit](ids, columns), public_reason="its data do not fit those of others")


def _no_common_sample(ids: OwnIds, columns: Sequence[str]) -> str:
    text = f"no other party has any of the {ids.count} samples of this party ({ids}); {SAME_IDS}"
    if columns:
        text += (
            f". If each party has other samples, all need the same columns, and some parties lack {_listed(columns)}"
        )
    return text


def _no_sample_used(ids: OwnIds, _columns: Sequence[str]) -> str:
    return (
        f"the run would use none of the {ids.count} samples of this party ({ids}): no party with "
        'labels has one of them or, with samples = "complete" in the run, each of them lacks a feature; '
        f"{SAME_IDS}"
    )


def _features_held_twice(_ids: OwnIds, columns: Sequence[str]) -> str:
    named = _listed(columns) if columns else "some columns"
    return (
        f"another party has {named} of the same samples too, and a value must count once: agree on who leaves them "
        'out (leave_out in shard.toml), or ask the operator for overlap = "first" in the run; if they are different '
        "measurements, give them different names"
    )


_EXPLAINED: Mapping[Misfit, Callable[[OwnIds, Sequence[str]], str]] = {
    Misfit.NO_COMMON_SAMPLE: _no_common_sample,
    Misfit.NO_SAMPLE_USED: _no_sample_used,
    Misfit.FEATURES_HELD_TWICE: _features_held_twice,
}


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column) for column in columns)
