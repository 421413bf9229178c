"""`fenchel shard`: splits a data set over made-up parties, for demonstrations."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fenchel_common.data.datasets import load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_common.identity.roster import check_name
from fenchel_deploy.cli.choices import parse_grid
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json

SHARD_FILE = "shard.npz"


class Columns(StrEnum):
    """How columns are cut."""

    CONTIGUOUS = "contiguous"
    SHUFFLED = "shuffled"


def register(app: typer.Typer) -> None:
    app.command("shard", epilog=epilog("shard"))(shard)


def shard(
    names: Annotated[str, typer.Option(help="The parties, separated by commas, row group by row group.")],
    out: Annotated[Path, typer.Option(help=f"Folder for the shards: OUT/NAME/{SHARD_FILE}.")],
    dataset: Annotated[
        str, typer.Option(help="breast_cancer, digits, diabetes (numbers), or FILE.npz with X (or CSR parts) and y.")
    ] = ("breast_cancer"),
    grid: Annotated[str, typer.Option(help="KxQ: K row groups times Q column groups, one party each.")] = "2x2",
    columns: Annotated[Columns, typer.Option(help="How columns are cut.")] = Columns.CONTIGUOUS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    output: FormatOption = Format.TABLE,
) -> None:
    """Split a data set into the shards of a made-up federation. The same options give the same shards.

    Real parties have their own shards, which are never on one machine.
    """
    rows, cuts = parse_grid(grid)
    parties = names.split(",")
    for party in parties:
        check_name(party, what="--names:")
    if len(set(parties)) != rows * cuts:
        raise InvalidInput(f"--names: {len(set(parties))} different names for a grid of {rows * cuts} parties")
    whole = load_dataset(dataset)
    written = []
    for party, part in zip(parties, partition(whole, grid=(rows, cuts), columns=columns.value, seed=seed), strict=True):
        path = out / party / SHARD_FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.save(path)
        except OSError as error:
            raise InvalidInput(f"--out: {path} cannot be written: {error.strerror}") from error
        written.append({"party": party, "path": str(path), "samples": part.X.shape[0], "features": part.X.shape[1]})
    if output is Format.JSON:
        print_json(written)
        return
    for one in written:
        typer.echo(f"{one['path']}: {one['samples']} samples, {one['features']} features")
