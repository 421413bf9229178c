"""`fenchel demo`: a whole federation on this machine, without Docker."""

from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION
from fenchel_common import defaults
from fenchel_common.algorithms import SETTINGS
from fenchel_common.data.heterogeneous import Split
from fenchel_common.privacy import Privacy
from fenchel_deploy.cli.choices import (
    parse_choice,
    parse_grid,
    parse_parameters,
    parse_samples,
    usual_grid,
    usual_rounds,
)
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.options import (
    AlgorithmOption,
    DatasetOption,
    FormatOption,
    GapOption,
    GridOption,
    KeyBitsOption,
    LambdaOption,
    LossOption,
    PrivacyOption,
    RoundsOption,
    SeedOption,
    SplitOption,
)
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.training import TrainingView, show
from fenchel_deploy.demo import run_demo
from fenchel_deploy.training import TrainingOptions, reached

EXIT_MISSED = 1


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    algorithm: AlgorithmOption = defaults.ALGORITHM,
    dataset: DatasetOption = "breast_cancer",
    grid: GridOption = None,
    split: SplitOption = "even",
    columns: Annotated[str, typer.Option(help="How columns are cut: contiguous or shuffled.")] = "contiguous",
    loss: LossOption = defaults.LOSS,
    lambda_: LambdaOption = defaults.LAMBDA,
    gap: GapOption = None,
    participation: Annotated[
        str, typer.Option(help="all; fraction:0.5 or cyclic:2 with --local paper or theory.")
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
    privacy: PrivacyOption = defaults.PRIVACY,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep kits, shards, logs and state in this folder.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train over hospitals that each hold some rows and some columns, as real processes with mutual TLS and encryption.

    At the end the federated model stands beside the centralized optimum. Exit code 0: it is within 0.1 % of it, or
    within the gap that was asked for, or the algorithm has no certificate and ran to its end; 1: it is not.
    """
    profile = SETTINGS[parse_choice("--algorithm", algorithm, *SETTINGS)].profile
    dealt = Split.parse(split)
    options = TrainingOptions(
        algorithm=algorithm,
        dataset=dataset,
        grid=parse_grid(grid or usual_grid(profile, dealt)),
        columns=parse_choice("--columns", columns, "contiguous", "shuffled"),
        split=dealt,
        loss=loss,
        lambda_=lambda_,
        local=parse_choice("--local", local, "paper", "theory", "corrective"),
        h=None if h is None else parse_samples(h),
        participation=participation,
        privacy=Privacy(parse_choice("--privacy", privacy, *Privacy)),
        key_bits=key_bits,
        key_kind=parse_choice("--key-kind", key_kind, "standard", "subgroup"),
        gap=gap,
        rounds=rounds or usual_rounds(profile),
        seed=seed,
        parameters=parse_parameters(parameters or []),
    )
    console = PlainConsole(stderr=True)
    if key_kind == "subgroup":
        console.print(SUBGROUP_ASSUMPTION)
    view = TrainingView(options)
    with Live(view, console=console, refresh_per_second=8, transient=output is Format.JSON):
        report = run_demo(options, directory=keep, tell=view.tell)
    show(report, output)
    if not reached(report, options):
        raise typer.Exit(EXIT_MISSED)
