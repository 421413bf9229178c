"""`fenchel demo`: a whole federation on this machine, without Docker."""

import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer

from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION
from fenchel_common import defaults
from fenchel_common.errors import InvalidInput
from fenchel_common.runconfig import SamplesWord
from fenchel_deploy.cli.choices import parse_choice, parse_classes, parse_local, parse_parameters, parse_samples
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.demonstration import common_options, demonstrate
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import (
    AlgorithmOption,
    CipherOption,
    DatasetOption,
    FormatOption,
    GapOption,
    GridOption,
    KeyBitsOption,
    OwnLambdaOption,
    OwnLossOption,
    PrivacyOption,
    RoundsOption,
    SeedOption,
    SplitOption,
)
from fenchel_deploy.cli.output import Format
from fenchel_deploy.dashboard.beside import page_beside
from fenchel_deploy.demo import run_demo
from fenchel_deploy.demonstration import DemonstrationOptions, Report
from fenchel_deploy.running import Tell
from fenchel_deploy.tablefolder import table_folders


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=epilog("demo"))(demo)


def demo(
    algorithm: AlgorithmOption = defaults.ALGORITHM,
    dataset: DatasetOption = "breast_cancer",
    table: Annotated[
        Path | None,
        typer.Option(help="Instead of a data set: a folder that has a folder with a table for each party."),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            metavar="NAME=VALUE",
            help="With --table, a setting of the run's [features]: scale=minmax, intercept=true; repeatable.",
        ),
    ] = None,
    samples: Annotated[
        str, typer.Option(help="With --table, which samples are used: labelled, complete or impute.")
    ] = defaults.SAMPLES,
    grid: GridOption = None,
    split: SplitOption = "even",
    columns: Annotated[str, typer.Option(help="How columns are cut: contiguous or shuffled.")] = "contiguous",
    loss: OwnLossOption = None,
    lambda_: OwnLambdaOption = None,
    gap: GapOption = None,
    participation: Annotated[
        str, typer.Option(help="all, fraction:0.5 (random) or cyclic:2 (sets of parties in turn).")
    ] = defaults.PARTICIPATION,
    rounds: RoundsOption = None,
    seed: SeedOption = defaults.SEED,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    key_kind: Annotated[
        str, typer.Option(help="standard, or subgroup: faster, one more assumption.")
    ] = defaults.KEY_KIND,
    local: Annotated[
        str, typer.Option(help="corrective (fewest rounds, no dials), paper (Algorithm 5) or theory (Algorithm 3).")
    ] = defaults.LOCAL,
    h: Annotated[
        str | None,
        typer.Option(
            "--h", help="Samples that a party updates a round, with --local paper: auto, a number, a fraction."
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Names of three or more classes, such as 0,1,2: a model for each, one-vs-rest."),
    ] = None,
    privacy: PrivacyOption = defaults.PRIVACY,
    cipher: CipherOption = defaults.CIPHER,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep kits, shards, logs and state in this folder.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the run in the browser too; on a terminal until Ctrl-C.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train over hospitals that each hold some rows and some columns, as real processes with mutual TLS and encryption.

    At the end the report compares the federated model with the centralized optimum.
    """
    common = common_options(
        algorithm=algorithm,
        dataset=dataset,
        grid=grid,
        split=split,
        loss=loss,
        lambda_=lambda_,
        gap=gap,
        rounds=rounds,
        seed=seed,
        key_bits=key_bits,
        privacy=privacy,
        cipher=cipher,
    )
    options = replace(
        common,
        columns=parse_choice("--columns", columns, "contiguous", "shuffled"),
        local=parse_local(local),
        h=None if h is None else parse_samples(h),
        classes=parse_classes(classes),
        participation=participation,
        key_kind=parse_choice("--key-kind", key_kind, "standard", "subgroup"),
        parameters=parse_parameters("--set", parameters or []),
        features=parse_parameters("--features", features or []),
        samples=parse_choice("--samples", samples, *get_args(SamplesWord)),
    )
    if table is not None:
        if grid is not None or split != "even":
            raise InvalidInput("--table: the tables are split as they are; leave out --grid and --split")
        folders = table_folders(table)
        options = replace(options, dataset=table.resolve().name, tables=folders, grid=(len(folders), 1))
    elif features or samples != defaults.SAMPLES:
        raise InvalidInput("--features, --samples: are for tables; name their folder by --table")
    if key_kind == "subgroup":
        PlainConsole(stderr=True).print(SUBGROUP_ASSUMPTION)
    if not dashboard:
        demonstrate(options, lambda tell: run_demo(options, directory=keep, tell=tell), output=output)
        return
    with ExitStack() as open_until_the_end:
        _show(options, keep, output, open_until_the_end)


def _show(options: DemonstrationOptions, keep: Path | None, output: Format, stack: ExitStack) -> None:
    """The demonstration with a page beside it, which stays on a terminal until its reader has seen enough."""
    folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fenchel-demo-")))

    def beside(state: Path, kit: Path) -> str:
        return stack.enter_context(page_beside(state, kit=kit))

    def run(tell: Tell) -> Report:
        report = run_demo(options, directory=folder, tell=tell, beside=beside)
        return report if keep else {**report, "models": []}

    try:
        demonstrate(options, run, output=output)
    finally:
        if sys.stdin.isatty() and sys.exc_info()[0] in (None, typer.Exit):
            typer.echo("the dashboard stays until Ctrl-C", err=True)
            with suppress(KeyboardInterrupt):
                signal.pause()
