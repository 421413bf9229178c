"""`fenchel up`: a federation of any size in containers on this machine."""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer
from rich.live import Live

from fenchel_common import defaults
from fenchel_common.algorithms import SETTINGS
from fenchel_common.data.heterogeneous import Split
from fenchel_common.privacy import Privacy
from fenchel_deploy.cli.choices import parse_choice, parse_grid, usual_grid, usual_rounds
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.training import TrainingView, show
from fenchel_deploy.containers.up import Deployment, run_up
from fenchel_deploy.containers.wan import PROFILES_S, Wan
from fenchel_deploy.training import TrainingOptions, reached

EXIT_MISSED = 1


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
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
    wan: Annotated[
        str,
        typer.Option(
            help="The network between parties and server: "
            + ", ".join(f"{name} ({rtt_s * 1000:g} ms)" for name, rtt_s in PROFILES_S.items())
        ),
    ] = "none",
    bandwidth: Annotated[
        float | None, typer.Option(metavar="MBIT", help="Mbit/s of each party's connection each way.")
    ] = None,
    privacy: Annotated[
        str,
        typer.Option(
            help="sealed; paper: shares of the model in clear, as in the paper; or plain: no encryption, to see what "
            "it costs."
        ),
    ] = defaults.PRIVACY,
    loss: Annotated[str, typer.Option(help="hinge or logistic.")] = defaults.LOSS,
    lambda_: Annotated[float, typer.Option("--lambda", help="Regularisation.")] = defaults.LAMBDA,
    gap: Annotated[float | None, typer.Option(help="Stop at this duality gap. Default: 0.1 % of the optimum.")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Stop after this many. Default: 1000, or 100 for algorithms without certificate.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of the run.")] = defaults.SEED,
    key_bits: Annotated[int, typer.Option(help="2048 or 3072.")] = defaults.DEMO_KEY_BITS,
    image: Annotated[str, typer.Option(help="The image; built from the source tree where it is missing.")] = "fenchel",
    keep: Annotated[bool, typer.Option(help="Leave the containers for a look; `fenchel down` removes them.")] = False,
    output: Annotated[Format, typer.Option("--format", help="What to print on stdout.")] = Format.TABLE,
) -> None:
    """Train over hospitals in containers: one for each party, one for the server, and one for the distance between.

    Every container gets its own kit, shard and state and nothing else; none has a way out of its network. All of them
    are removed at the end, also when this is interrupted; `fenchel down` removes what a crash left. Exit code 0: the
    model is within 0.1 % of the centralized optimum, or within the gap that was asked for, or the algorithm has no
    certificate and ran to its end; 1: it is not.
    """
    profile = SETTINGS[parse_choice("--algorithm", algorithm, *SETTINGS)].profile
    dealt = Split.parse(split)
    options = TrainingOptions(
        algorithm=algorithm,
        dataset=dataset,
        grid=parse_grid(grid or usual_grid(profile, dealt)),
        split=dealt,
        loss=loss,
        lambda_=lambda_,
        privacy=Privacy(parse_choice("--privacy", privacy, *Privacy)),
        key_bits=key_bits,
        gap=gap,
        rounds=rounds or usual_rounds(profile),
        seed=seed,
    )
    deployment = Deployment(image=image, wan=Wan(wan, bandwidth), keep=keep)
    # SIGINT too: a shell starts background commands with it ignored, and they must be stoppable as well.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    view = TrainingView(options)
    with Live(view, console=PlainConsole(stderr=True), refresh_per_second=8, transient=output is Format.JSON):
        report = run_up(options, deployment, tell=view.tell)
    show(report, output)
    if not reached(report, options):
        raise typer.Exit(EXIT_MISSED)


def _leave(signum: int, _frame: FrameType | None) -> None:
    """Ends by an exception, on whose way out the containers are removed."""
    sys.exit(128 + signum)
