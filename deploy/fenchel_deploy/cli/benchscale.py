"""`fenchel bench scale`: how costs grow with the parties and with the samples."""

import signal
from collections.abc import Mapping
from typing import Annotated, Any, get_args

import typer
from rich.table import Table

from fenchel_common import defaults
from fenchel_common.data.datasets import BUILT_IN
from fenchel_common.errors import InvalidInput
from fenchel_common.runconfig import AlignmentWord
from fenchel_deploy.bench.scale import SCALED_CIPHERS, ScaleBench
from fenchel_deploy.cli.choices import parse_choice, words
from fenchel_deploy.cli.console import PlainConsole, terminal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.options import FormatOption, KeyBitsOption, SeedOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.cli.signals import exit_on


def bench_scale(
    parties: Annotated[str, typer.Option(help="Comma-separated numbers of parties.")] = "4,16",
    samples: Annotated[str, typer.Option(help="Comma-separated numbers of samples, such as 1e4,1e5.")] = "1e4,1e5",
    dataset: Annotated[
        str | None,
        typer.Option(help=f"A table in place of the made-up ones: {', '.join(BUILT_IN)}, or the path of an .npz file."),
    ] = None,
    ciphers: Annotated[str, typer.Option(help="Comma-separated: " + ", ".join(SCALED_CIPHERS) + ".")] = "masks",
    rounds: Annotated[int, typer.Option(min=1, help="The most rounds of each run.")] = 3,
    gap: Annotated[
        float, typer.Option(min=1e-12, help="The gap at which a run ends. Default: none does before its rounds.")
    ] = defaults.REPEATED_GAP,
    alignment: Annotated[
        str, typer.Option(help=f"{', '.join(get_args(AlignmentWord))}; hmac makes the set-up short.")
    ] = defaults.ALIGNMENT,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    seed: SeedOption = defaults.SEED,
    output: FormatOption = Format.TABLE,
) -> None:
    """Measure runs of growing size by real processes: seconds by phase, bytes, memory, and how fast each grows.

    The table is made up, with 20 features. Sizes are measured one after another; a large one takes minutes, and needs
    about 30 MB of memory for each party, and its data.
    """
    bench = ScaleBench(
        parties=[_count("--parties", word) for word in words(parties)],
        samples=[_count("--samples", word) for word in words(samples)],
        ciphers=[parse_choice("--ciphers", word, *SCALED_CIPHERS) for word in words(ciphers)],
        rounds=rounds,
        gap=gap,
        key_bits=key_bits,
        alignment=parse_choice("--alignment", alignment, *get_args(AlignmentWord)),
        seed=seed,
        dataset=dataset,
    )
    bench.check()
    # The processes of a run are ended before this one ends.
    exit_on(signal.SIGTERM, signal.SIGHUP)
    report = bench.run(PlainConsole(stderr=True, soft_wrap=True).print)
    if output is Format.JSON:
        print_json(report)
    else:
        console = terminal()
        console.print(_sizes(report))
        console.print(_growth(report))
    if any("failed" in row for row in report["results"]):
        raise typer.Exit(ExitCode.MISSED)


def _count(option: str, text: str) -> int:
    """A whole number above 0, also written like 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number >= 1.0 and number.is_integer()):
        raise InvalidInput(f"{option}: {text!r} is not a whole number above 0, such as 16 or 1e5")
    return int(number)


def _sizes(report: Mapping[str, Any]) -> Table:
    table = Table(title="Runs of growing size", caption="server: MiB when idle, and the most beyond that")
    for heading in (
        "cipher",
        "parties",
        "samples",
        "start s",
        "set-up s",
        "rounds",
        "s a round",
        "MB",
        "server",
        "+",
        "party",
    ):
        table.add_column(heading, justify="left" if heading == "cipher" else "right")
    for row in report["results"]:
        size = (row["cipher"], str(row["parties"]), str(row["samples"]))
        if "failed" in row:
            table.add_row(*size, f"failed: {row['failed']}")
            continue
        memory = (row["server_idle_mib"], row["server_beyond_idle_mib"], row["party_peak_mib"])
        times = (f"{row['start_s']:.1f}", f"{row['setup_s']:.1f}", str(row["rounds"]), f"{row['round_s']:.2f}")
        table.add_row(*size, *times, f"{row['round_bytes'] / 1e6:.1f}", *(f"{one:.0f}" for one in memory))
    return table


def _growth(report: Mapping[str, Any]) -> Table:
    table = Table(title="Exponents of growth")
    for heading in ("cipher", "cost", "in samples", "in parties"):
        table.add_column(heading, justify="left" if heading in ("cipher", "cost") else "right")
    for cipher, costs in report["exponents"].items():
        for cost, found in costs.items():
            cells = ("–" if found[name] is None else f"{found[name]:.2f}" for name in ("samples", "parties"))
            table.add_row(cipher, cost, *cells)
    return table
