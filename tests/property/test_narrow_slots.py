"""Shares of a bounded sum in narrow slots: their error is within the stated bound, and no slot overflows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.scales import product_scale, unit_error
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.vectors import total
from support.keys import SMALL_BITS, cipher
from support.tagged import decrypted, encrypted

Array = NDArray[np.float64]

SMALL = cipher(SMALL_BITS)
WIDTHS = st.sampled_from([32, 48])


@given(WIDTHS, st.floats(1.0, 2000.0), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_shares_of_a_bounded_sum_add_up_within_the_stated_error(bits: int, bound: float, count: int, seed: int) -> None:
    """The shares' magnitudes sum to nearly the bound, with any signs, also where one share has all of it."""
    rng = np.random.default_rng(seed)
    vector_format = VectorFormat(bits, bound, shares=True)
    parts = rng.dirichlet(np.full(count, 0.3), size=7).T * rng.choice([-1.0, 1.0], size=(count, 7))
    parts *= bound * (1.0 - 2.0**-20)
    secret = total([encrypted(SMALL, part, vector_format) for part in parts])
    clear = total([encrypted(SMALL.in_clear(), part, vector_format) for part in parts])
    opened = decrypted(SMALL, secret)
    assert (opened == decrypted(SMALL.in_clear(), clear)).all()
    assert (np.abs(opened - parts.sum(axis=0)) <= vector_format.error_bound(count) + 1e-12 * bound).all()


@pytest.mark.parametrize("bits", [32, 48])
@pytest.mark.parametrize("bound", [1.0, 1.5, 2.0, 2000.0])
def test_no_slot_overflows_at_the_most_terms_that_a_format_allows(bits: int, bound: float) -> None:
    """The largest sum of as many terms as the format takes, rounding errors included, is within the range of a slot."""
    vector_format = VectorFormat(bits, bound, shares=True)
    terms = vector_format.term_limit
    assert terms >= 2 ** (bits - 2)
    assert vector_format.largest_sum(terms) <= 2.0 ** (bits - 1)
    layout = slot_layout(vector_format, 2048)
    extreme = np.array([[(-1) ** j * (2 ** (bits - 1) - 1) for j in range(layout.slots)]], dtype=np.int64)
    grid, _tags = layout.unpack(layout.pack(extreme, [0]))
    np.testing.assert_array_equal(grid, extreme)


def formats_of(bits: int) -> SampleFormats:
    return CorrectiveSettings.parse({"local": "corrective", "precision": bits}).formats(2)


@given(WIDTHS, st.integers(1, 5), st.floats(1e-6, 100.0), st.floats(1e-6, 1e4), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_inner_products_of_any_rows_and_models_fit_and_keep_their_error(
    bits: int, parties: int, length: float, size: float, seed: int
) -> None:
    """Cauchy and Schwarz: whatever the data, the parts of x·w/s sum to at most 1, so that nothing can be out of range.

    The first row is parallel to the model, and the second belongs to one party alone: the extremes of the bound.
    """
    rng = np.random.default_rng(seed)
    formats = formats_of(bits)
    columns = np.array_split(np.arange(3 * parties), parties)
    contributions = PRODUCT_FORMAT.rounded(size * rng.standard_normal((parties, 3 * parties)))
    w = contributions.sum(axis=0)
    X = length * rng.standard_normal((6, 3 * parties))
    X[0] = w * length / size
    X[1, columns[0].size :] = 0.0
    norms = sum(PRODUCT_FORMAT.dequantise(np.rint((X[:, own] ** 2).sum(axis=1) * 2.0**32)) for own in columns)
    told = float(np.linalg.norm(contributions, axis=1).sum())
    scale = product_scale(told, reach=1.0, norms=np.asarray(norms), formats=formats)
    assert scale is not None
    assert formats.shares is not None
    parts = [X[:, own] @ w[own] / scale for own in columns]
    assert np.abs(parts).sum(axis=0).max() < 1.0
    opened = formats.shares.dequantise(np.sum([formats.shares.quantise(part) for part in parts], axis=0)) * scale
    allowed = unit_error(told, formats) * parties * np.sqrt(np.asarray(norms) + 1e-6)
    assert (np.abs(opened - X @ w) <= allowed + 1e-9 * np.abs(scale)).all()
