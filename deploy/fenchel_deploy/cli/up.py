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
from fenchel_deploy.containers.up import Deployment, run_up
from fenchel_deploy.containers.wan import PROFILES_S, Wan
from fenchel_deploy.training import TrainingOptions, reached

EXIT_MISSED = 1


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    algorithm: AlgorithmOption = defaults.ALGORITHM,
    dataset: DatasetOption = "breast_cancer",
    grid: GridOption = None,
    split: SplitOption = "even",
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
    privacy: PrivacyOption = defaults.PRIVACY,
    loss: LossOption = defaults.LOSS,
    lambda_: LambdaOption = defaults.LAMBDA,
    gap: GapOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = defaults.SEED,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    image: Annotated[str, typer.Option(help="The image; built from the source tree where it is missing.")] = "fenchel",
    keep: Annotated[bool, typer.Option(help="Leave the containers for a look; `fenchel down` removes them.")] = False,
    output: FormatOption = Format.TABLE,
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
