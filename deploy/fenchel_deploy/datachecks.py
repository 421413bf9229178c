"""The checks of preflight on a party's data: can they be read, do they fit the roster, do they fit the run?"""

from collections.abc import Iterator
from pathlib import Path

from fenchel_common.errors import FenchelError
from fenchel_common.identity.certificates import Role
from fenchel_common.identity.kit import Kit
from fenchel_deploy.check import Check, Status


def data_checks(path: Path, kit: Kit | None, run: Path | None) -> Iterator[Check]:
    """The checks of the table in `path`, and of its labels and features against the run.toml in `run`."""
    # numpy, scipy and Arrow are loaded only where data is looked at
    from numpy import ndarray

    from fenchel_common.data.categories import listed_names
    from fenchel_common.data.missingcells import check_prepared, missing_cells
    from fenchel_common.data.tables.source import load_shard
    from fenchel_common.runconfig import RunConfig

    try:
        loaded = load_shard(path)
    except FenchelError as error:
        yield Check(
            "data", Status.FAIL, str(error), f"correct the table, or its shard.toml: `fenchel data inspect {path}`"
        )
        return
    shard = loaded.shard
    rows, features = len(shard.ids), len(listed_names(shard.features, shard.categories))
    labels = "with labels" if shard.y is not None else "without labels"
    finding = f"{path}: {rows} samples, {features} features, {labels}"
    facts = {f"guess {number}": guess for number, guess in enumerate(loaded.guesses, 1)}
    facts |= {f"caution {number}": caution for number, caution in enumerate(loaded.cautions, 1)}
    if kit is not None and kit.role is Role.PARTY and kit.roster.party(kit.name).labels != (shard.y is not None):
        cure = (
            f"give the right file, correct [label] in shard.toml, or let the operator correct `labels` of {kit.name!r} "
            "in federation.toml"
        )
        yield Check("data", Status.FAIL, f"{finding}, but the roster says the opposite", cure, facts)
        return
    yield Check("data", Status.WARN if loaded.cautions else Status.OK, finding, facts=facts)
    if run is None:
        return
    try:
        config = RunConfig.from_toml(run)
        if shard.y is not None:
            config.algorithm_settings().check_labels(shard.y, shard.weights)
        missing = missing_cells(shard.X, shard.features)
        missing |= {category.column: category.missing for category in shard.categories if category.missing}
        sparse = not isinstance(shard.X, ndarray)
        check_prepared(missing, sparse=sparse, categories=shard.categories, config=config.features)
    except FenchelError as error:
        cure = "correct the table, or what shard.toml says of it, or [settings] and [features] in run.toml"
        yield Check("run", Status.FAIL, str(error), cure)
        return
    yield Check("run", Status.OK, f"run {config.name!r} can use this data: {config.algorithm}")
