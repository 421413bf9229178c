"""`fenchel up`: a federation of any size in containers on this machine."""

import signal
from typing import Annotated

import typer

from fenchel_common import defaults
from fenchel_deploy.cli.demonstration import common_options, demonstrate
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import (
    AlgorithmOption,
    BandwidthOption,
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
    WanOption,
)
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.signals import exit_on
from fenchel_deploy.containers.up import Deployment, run_up
from fenchel_deploy.wan import Wan


def register(app: typer.Typer) -> None:
    app.command("up", epilog=epilog("up"))(up)


def up(
    algorithm: AlgorithmOption = defaults.ALGORITHM,
    dataset: DatasetOption = "breast_cancer",
    grid: GridOption = None,
    split: SplitOption = "even",
    wan: WanOption = "none",
    bandwidth: BandwidthOption = None,
    privacy: PrivacyOption = defaults.PRIVACY,
    cipher: CipherOption = defaults.CIPHER,
    loss: OwnLossOption = None,
    lambda_: OwnLambdaOption = None,
    gap: GapOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = defaults.SEED,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    image: Annotated[str, typer.Option(help="The image; built from the source tree where it is missing.")] = "fenchel",
    keep: Annotated[bool, typer.Option(help="Leave the containers for a look; `fenchel down` removes them.")] = False,
    dashboard: Annotated[
        bool,
        typer.Option("--dashboard", help="Show the run in the browser too, over TLS; prints a token."),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train over hospitals in containers: one for each party, one for the server, and one that delays the traffic.

    Every container gets its own kit, shard and state and nothing else; none has a way out of its network. All of them
    are removed at the end, also after an interruption; `fenchel down` removes what a crash left.
    """
    options = common_options(
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
    deployment = Deployment(image=image, wan=Wan(wan, bandwidth), keep=keep, dashboard=dashboard)
    # The containers are removed before the process ends. SIGINT too: a shell starts background commands with it
    # ignored, and they must be stoppable as well.
    exit_on(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    demonstrate(options, lambda tell: run_up(options, deployment, tell=tell), output=output)
