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
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.training import TrainingView, show
from fenchel_deploy.demo import run_demo
from fenchel_deploy.training import TrainingOptions, reached

EXIT_MISSED = 1


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    algorithm: Annotated[str, typer.Option(help="One of those that `fenchel algorithms` lists.")] = defaults.ALGORITHM,
    dataset: Annotated[str, typer.Option(help="breast_cancer, digits, or FILE.npz with X (or CSR parts) and y.")] = (
        "breast_cancer"
    ),
    grid: Annotated[
        str | None,
        typer.Option(help="KxQ: K row groups times Q column groups, one party each. Default: 2x2, or 4x1."),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="How rows are dealt out: even, or dirichlet:0.1 for parties of whole rows with unlike labels, the "
            "more so the smaller the number (grid Kx1)."
        ),
    ] = "even",
    columns: Annotated[str, typer.Option(help="How columns are cut: contiguous or shuffled.")] = "contiguous",
    loss: Annotated[str, typer.Option(help="hinge or logistic.")] = defaults.LOSS,
    lambda_: Annotated[float, typer.Option("--lambda", help="Regularisation.")] = defaults.LAMBDA,
    gap: Annotated[float | None, typer.Option(help="Stop at this duality gap. Default: 0.1 % of the optimum.")] = None,
    participation: Annotated[
        str, typer.Option(help="all; fraction:0.5 or cyclic:2 with --local paper or theory.")
    ] = defaults.PARTICIPATION,
    rounds: Annotated[
        int | None, typer.Option(help="Stop after this many. Default: 1000, or 100 for algorithms without certificate.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of the run.")] = defaults.SEED,
    key_bits: Annotated[int, typer.Option(help="2048 or 3072.")] = defaults.DEMO_KEY_BITS,
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
    privacy: Annotated[
        str,
        typer.Option(
            help="sealed; paper: shares of the model in clear, as in the paper; or plain: no encryption, to see what "
            "it costs."
        ),
    ] = defaults.PRIVACY,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep kits, shards, logs and state in this folder.")] = None,
    output: Annotated[Format, typer.Option("--format", help="What to print on stdout.")] = Format.TABLE,
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
