"""What a party's own log says of its layout: which of its samples the run uses, and how the table is spread."""

from collections.abc import Iterator, Mapping, Sequence

from fenchel_common.clientlayout import ClientLayout


def layout_notes(layout: ClientLayout) -> list[str]:
    """Sentences for the party's operator; they have counts alone, no id and no name of a feature."""
    rows = len(layout.rows) + len(layout.unlabelled) + len(layout.incomplete)
    used = f"the run uses {len(layout.rows)} of this party's {rows} samples"
    if len(layout.unlabelled):
        used += f"; not used: {len(layout.unlabelled)} that no party with labels holds"
    if len(layout.incomplete):
        used += f"; not used: {len(layout.incomplete)} of which some feature is held by nobody"
    features = {block: len(positions) for block, positions in layout.feature_blocks.items()}
    shared = sum(size for block, size in features.items() if len(layout.feature_holders[block]) > 1)
    others = (
        f"others hold {layout.block_sizes[layout.shared].sum()} of these samples and {shared} of this party's "
        f"{sum(features.values())} features too"
    )
    if shared:
        others += f" ({', '.join(_co_holders(layout, features))})"
    samples, columns = _spread("sample", layout.samples_by_holders), _spread("feature", layout.features_by_holders)
    return [used, others, f"in all there are {samples}, and {columns}"]


def _co_holders(layout: ClientLayout, features: Mapping[int, int]) -> Iterator[str]:
    """How many of this party's features each other party holds too: whoever holds a feature opens its sums."""
    for other in layout.clients:
        held = sum(size for block, size in features.items() if other in layout.feature_holders[block])
        if other != layout.party and held:
            yield f"{other} {held}"


def _spread(noun: str, by_holders: Sequence[int]) -> str:
    held = [
        f"{count} held by {holders} {'party' if holders == 1 else 'parties'}"
        for holders, count in enumerate(by_holders, 1)
        if count
    ]
    return f"{sum(by_holders)} {noun}s ({', '.join(held)})"
