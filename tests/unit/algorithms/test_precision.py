"""The width of slots for vectors by sample: what `auto` takes, what is refused, what a party does with the choice."""

from typing import Any

import numpy as np
import pytest

from fenchel_client.algorithms.corrective.scales import product_scale
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import POINT_PRODUCT_FORMAT
from fenchel_common.algorithms.corrective.settings import TOLERATED, CorrectiveSettings
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.errors import InvalidConfig, ValueOutOfRange
from fenchel_common.runconfig import RunConfig


def config(**values: Any) -> RunConfig:
    return RunConfig.from_mapping({"name": "run", **values})


@pytest.mark.parametrize(
    ("settings", "stop", "parties", "bits"),
    [
        ({"lambda": 1e-3}, {"gap": 3e-4}, 4, 32),
        ({"lambda": 1e-3}, {"gap": 1e-3}, 24, 32),
        ({"lambda": 1e-4}, {"gap": 1e-4}, 4, 48),
        ({"lambda": 1e-3}, {"gap": 3e-4}, 1024, 48),
        ({"lambda": 1e-3, "class_weight": {"positive": 1000.0}}, {"gap": 3e-4}, 4, 48),
        ({"lambda": 1e-3}, {"gap": 1e-12}, 4, 64),
        ({"lambda": 1e-3}, {"gap": None}, 4, 64),
        ({"lambda": 1e-3, "loss": "squared"}, {"gap": 1e-3}, 4, 64),
        ({"lambda": 1e-3, "local": "paper"}, {"gap": 1e-3}, 4, 64),
    ],
)
def test_auto_takes_the_narrowest_slots_that_the_gap_allows(
    settings: dict[str, object], stop: dict[str, object], parties: int, bits: int
) -> None:
    made = config(settings=settings, stop=stop)
    assert made.algorithm_settings().slot_bits(parties) == bits
    assert made.sample_slots(parties) == (3072 - 128) // bits
    assert made.feature_slots == (3072 - 128) // 64


def test_algorithms_of_models_have_slots_of_64_bits() -> None:
    for algorithm in SETTINGS:
        if algorithm not in ("hyfdca", "scoring"):
            assert config(algorithm=algorithm).algorithm_settings().slot_bits(4) == 64


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "fedavg"},
        {"settings": {"local": "paper"}},
        {"settings": {"loss": "squared_hinge"}},
    ],
)
@pytest.mark.parametrize("precision", [32, 48])
def test_narrow_slots_are_refused_where_nothing_bounds_what_is_in_them(values: dict[str, Any], precision: int) -> None:
    with pytest.raises(InvalidConfig, match="precision: use auto or 64"):
        config(precision=precision, **values)
    config(precision=64, **values)


def test_other_widths_are_refused_and_the_precision_is_one_of_the_terms() -> None:
    with pytest.raises(InvalidConfig, match="precision"):
        config(precision=40)
    with pytest.raises(InvalidConfig, match=r"settings\.precision"):
        config(settings={"precision": 32})
    digests = {config(precision=precision).digest() for precision in ("auto", 32, 48, 64)}
    assert len(digests) == 4


def formats(**values: Any) -> SampleFormats:
    return CorrectiveSettings.parse({"local": "corrective", "lambda": 1e-3, **values}).formats(4)


def test_inner_products_whose_error_would_be_a_tenth_of_the_gap_take_64_bits() -> None:
    """The rule is on what the parties measured: the length of the model and of all rows."""
    chosen, norms = formats(stop={"gap": 1e-3}), np.array([1.0, 4.0])
    unit = VectorFormat(32, 1.0, shares=True).error_bound(1)
    longest = TOLERATED * 1e-3 / unit
    common: dict[str, Any] = {"reach": 1.0, "norms": norms, "formats": chosen}
    scale = product_scale(longest * 0.99, **common)
    assert scale is not None
    np.testing.assert_allclose(scale, longest * 0.99 * np.sqrt(norms), rtol=1e-5)
    assert product_scale(longest, **common) is None
    assert product_scale(longest * 0.99, **{**common, "reach": 2.0}) is None
    assert product_scale(longest, **{**common, "formats": formats(precision=32)}) is not None
    assert product_scale(None, **common) is None
    assert product_scale(1.0, **{**common, "formats": formats(precision=64)}) is None


def test_formats_follow_the_width_and_the_loss() -> None:
    narrow = formats(precision=32, class_weight={"positive": 3.0})
    assert narrow.alpha == VectorFormat(32, 6.0, shares=True)
    assert narrow.products == (POINT_PRODUCT_FORMAT, VectorFormat(32, 1.0, shares=True))
    wide = formats(precision=64)
    assert (wide.alpha.slot_bits, wide.shares, wide.products) == (64, None, (POINT_PRODUCT_FORMAT,))


@pytest.mark.parametrize(("bits", "bound"), [(64, 1.0), (32, 0.5), (32, 2.0**17), (48, float("nan"))])
def test_impossible_formats_of_shares_are_refused(bits: int, bound: float) -> None:
    with pytest.raises(ValueOutOfRange):
        VectorFormat(bits, bound, shares=True)


@pytest.mark.parametrize(("bits", "bound", "fraction"), [(32, 1.0, 30), (32, 2.0, 29), (32, 6.0, 27), (48, 1.0, 46)])
def test_shares_use_half_of_the_range_of_a_slot(bits: int, bound: float, fraction: int) -> None:
    vector_format = VectorFormat(bits, bound, shares=True)
    assert vector_format.fraction_bits == fraction
    assert 2.0 ** (bits - 3) < vector_format.integer_bound <= 2.0 ** (bits - 2)
    with pytest.raises(ValueOutOfRange):
        vector_format.quantise(np.array([bound]))
