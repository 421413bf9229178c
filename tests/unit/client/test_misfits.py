"""What a party's operator reads if the server found the party's data unfit: columns, counts and a cure, and no id."""

import pytest

from fenchel_client.misfits import OwnIds, unfit_data
from fenchel_common.dismissal import Misfit, UnfitData
from fenchel_deploy.cli.exits import ExitCode, code_of

NAMES = {"5e": "chol", "7a": "age"}


@pytest.mark.parametrize(
    ("misfit", "features", "parts"),
    [
        (
            Misfit.NO_COMMON_SAMPLE,
            ("5e",),
            (
                "no other party has any of the 3 samples of this party (2 of its ids are whole numbers)",
                "`fenchel data inspect` prints the rule",
                "all need the same columns, and some parties lack 'chol'",
            ),
        ),
        (Misfit.NO_COMMON_SAMPLE, (), ("correct the ids or `id` in shard.toml",)),
        (
            Misfit.NO_SAMPLE_USED,
            (),
            ("the run would use none of the 3 samples", "no party with labels has one of them", "prints the rule"),
        ),
        (
            Misfit.FEATURES_HELD_TWICE,
            ("5e", "7a"),
            ("another party has 'age', 'chol' of the same samples too", "leave_out in shard.toml", 'overlap = "first"'),
        ),
        (Misfit.FEATURES_HELD_TWICE, (), ("another party has some columns of the same samples too",)),
    ],
)
def test_every_misfit_has_a_message_with_its_cure(
    misfit: Misfit, features: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    error = unfit_data(UnfitData(misfit, features), OwnIds.of(("17", "18", "geheim")), NAMES)
    for part in parts:
        assert part in str(error)
    assert "geheim" not in str(error)
    assert code_of(error) is ExitCode.DATA_UNFIT


def test_names_that_are_not_the_partys_own_are_passed_over() -> None:
    error = unfit_data(UnfitData(Misfit.FEATURES_HELD_TWICE, ("\x1b[2J", "5e")), OwnIds.of(("a", "b")), NAMES)
    assert "another party has 'chol' of the same" in str(error)


@pytest.mark.parametrize(
    ("ids", "told"),
    [(("1", "2"), "all its ids are whole numbers"), (("A1", "B2"), "none of its ids is a whole number")],
)
def test_ids_that_match_nobody_are_told_apart_by_numbers_and_texts(ids: tuple[str, ...], told: str) -> None:
    assert told in str(unfit_data(UnfitData(Misfit.NO_COMMON_SAMPLE), OwnIds.of(ids), {}))
