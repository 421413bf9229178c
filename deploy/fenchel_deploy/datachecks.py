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
    from numpy import arange

    from fenchel_client.concessions import explained
    from fenchel_client.consent import concessions_of
    from fenchel_client.release import check_lengths
    from fenchel_client.table import PartyTable
    from fenchel_client.terms import check_data
    from fenchel_common.data.categories import listed_names
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
            "give the right file, name the column of labels under [label] in shard.toml or take that section out, or "
            f"let the operator correct `labels` of {kit.name!r} in federation.toml"
        )
        said = "has none" if shard.y is not None else "has labels"
        yield Check("data", Status.FAIL, f"{finding}, but the roster says that {kit.name!r} {said}", cure, facts)
        return
    yield Check("data", Status.WARN if loaded.cautions else Status.OK, finding, facts=facts)
    if run is None:
        return
    try:
        config = RunConfig.from_toml(run)
        table = PartyTable.of(shard, arange(rows))
        check_data(config, table)
        if config.release is not None and kit is not None and kit.roster.release_model_to_server:
            check_lengths(table.squared_lengths(), config.release.row_bound)
    except FenchelError as error:
        cure = "correct the table, or what shard.toml says of it, or [settings] and [features] in run.toml"
        yield Check("run", Status.FAIL, str(error), cure)
        return
    yield Check("run", Status.OK, f"run {config.name!r} can use this data: {config.algorithm}")
    if asked := concessions_of(config):
        options = " ".join(f"--accept {concession}" for concession in asked)
        cure = f"if you agree to that, start the client with {options}"
        yield Check("consent", Status.WARN, f"the run asks for less protection than usual: {explained(asked)}", cure)
