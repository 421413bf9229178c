"""Options that several commands have: their types and what their help says."""

from pathlib import Path
from typing import Annotated

import typer

from fenchel_common.identity import Address
from fenchel_deploy.cli.completion import algorithm_names, ciphers, privacy_levels, run_names
from fenchel_deploy.cli.output import Format
from fenchel_deploy.wan import PROFILES_S

AlgorithmOption = Annotated[
    str, typer.Option(help="An algorithm that `fenchel algorithms` lists.", autocompletion=algorithm_names)
]
DatasetOption = Annotated[
    str, typer.Option(help="breast_cancer, digits, diabetes (numbers), or FILE.npz with X (or CSR parts) and y.")
]
GridOption = Annotated[
    str | None,
    typer.Option(help="KxQ: K row groups times Q column groups, one party each. Default: 2x2, or 4x1."),
]
SplitOption = Annotated[
    str,
    typer.Option(
        help="How rows are dealt out: even; in a grid Kx1 also stratified (equal class ratios), or dirichlet:0.1 for "
        "parties with unlike labels; the smaller the number, the more unlike."
    ),
]
PrivacyOption = Annotated[
    str,
    typer.Option(
        help="sealed; paper: contributions to the model in clear, as in the paper; or plain: no encryption, to "
        "measure its cost.",
        autocompletion=privacy_levels,
    ),
]
CipherOption = Annotated[
    str,
    typer.Option(
        help="paillier, or masks: a cipher for sums at about the cost of no encryption.",
        autocompletion=ciphers,
    ),
]
LossOption = Annotated[str, typer.Option(help="hinge or logistic.")]
LambdaOption = Annotated[float, typer.Option("--lambda", help="Regularisation.")]
OwnLossOption = Annotated[
    str | None, typer.Option("--loss", help="A loss that the algorithm takes. Default: the algorithm's own.")
]
OwnLambdaOption = Annotated[
    float | None, typer.Option("--lambda", help="Regularisation. Default: the algorithm's own, mostly 0.01.")
]
GapOption = Annotated[float | None, typer.Option(help="Stop at this duality gap. Default: 0.1 % of the optimum.")]
RoundsOption = Annotated[
    int | None,
    typer.Option(help="Stop after this many rounds. Default: 1000, or 100 for algorithms without certificate."),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the split and of the run.")]
KeyBitsOption = Annotated[int, typer.Option(help="2048 or 3072.")]
UntilInputEndsOption = Annotated[
    bool,
    typer.Option(help="End as by SIGTERM when the standard input ends: for a program that starts this process."),
]
WanOption = Annotated[
    str,
    typer.Option(
        help="The network between parties and server: "
        + ", ".join(f"{name} ({rtt_s * 1000:g} ms)" for name, rtt_s in PROFILES_S.items())
    ),
]
BandwidthOption = Annotated[
    float | None, typer.Option(metavar="MBIT", help="Mbit/s of each party's connection each way.")
]
DATA_HELP = (
    "This party's table: a file (.csv, .parquet, .libsvm, .npz), its shard.toml, or a folder with one of them. "
    "`fenchel data inspect` shows what is used of it."
)
ModelsOption = Annotated[
    list[Path],
    typer.Option(
        "--model",
        metavar="DIR",
        help="A party's model: RUN.model/, or the private folder with it. Repeat it to join the parts of parties.",
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus at http://HOST:PORT/metrics. Without HOST: for this machine alone.",
    ),
]
TracesOption = Annotated[
    bool,
    typer.Option(
        "--traces",
        help="Send traces by OTLP over HTTP to the OpenTelemetry collector that the environment names: "
        "OTEL_EXPORTER_OTLP_ENDPOINT and so on. Default: http://localhost:4318.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="What to print on stdout: a table for people, or JSON.")]
StateOption = Annotated[Path, typer.Option("--state", metavar="DIR", help="The server's state folder.")]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's id or name, as `fenchel runs list` shows them.", autocompletion=run_names
    ),
]


def metrics_address(text: str | None) -> Address | None:
    """The value of --metrics; a port alone is one of the loopback address."""
    return None if text is None else Address.parse(f"127.0.0.1:{text}" if text.isdecimal() else text)
