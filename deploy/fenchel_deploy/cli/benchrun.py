"""`fenchel bench run`: one run with each cipher, by real processes, one after another."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fenchel_client.workers import LOCAL
from fenchel_common import defaults
from fenchel_common.errors import InvalidInput
from fenchel_deploy.bench.ciphers import CIPHERS, THIS, CipherBench, Installation, one_model
from fenchel_deploy.cli.choices import parse_choice, words
from fenchel_deploy.cli.console import PlainConsole, terminal
from fenchel_deploy.cli.demonstration import common_options
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.options import (
    AlgorithmOption,
    BandwidthOption,
    FormatOption,
    GapOption,
    GridOption,
    KeyBitsOption,
    LambdaOption,
    LossOption,
    RoundsOption,
    SeedOption,
    WanOption,
)
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.cli.signals import exit_on
from fenchel_deploy.demonstration import Demonstration
from fenchel_deploy.experiments.collections import load_collected
from fenchel_deploy.wan import Wan

Row = Mapping[str, Any]


def bench_run(
    algorithm: AlgorithmOption = defaults.ALGORITHM,
    dataset: Annotated[
        str,
        typer.Option(
            help="digits, breast_cancer, a9a, mnist, covtype, heart_disease, news20_rebuilt, or FILE.npz with X and y."
        ),
    ] = "digits",
    data: Annotated[
        Path | None,
        typer.Option(envvar="FENCHEL_DATA", help="Folder with the archives of all but the built-in data sets."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=16, help="The most rows that are used, drawn at random. Default: all.")
    ] = None,
    grid: GridOption = None,
    ciphers: Annotated[str, typer.Option(help="Comma-separated: " + ", ".join(CIPHERS) + ".")] = ",".join(CIPHERS),
    loss: LossOption = defaults.LOSS,
    lambda_: LambdaOption = defaults.LAMBDA,
    gap: GapOption = None,
    rounds: RoundsOption = None,
    seed: SeedOption = defaults.SEED,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    repeats: Annotated[int, typer.Option(min=1, max=99, help="Runs with each cipher; medians are shown.")] = 1,
    workers: Annotated[
        str,
        typer.Option(
            help="Comma-separated: where Paillier's long vectors are encrypted and decrypted, as `--workers` of "
            "`fenchel client`, such as local,ray. CPU seconds leave the workers of a cluster out."
        ),
    ] = LOCAL,
    wan: WanOption = "none",
    bandwidth: BandwidthOption = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=PYTHON",
            help="Measure another installation of Fenchel too, in turn with this one: its name in the report, and its "
            "Python. Ciphers that it does not know are left out.",
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Measure the same run with each cipher, by real processes on this machine, in turn.

    Compared are the rounds, without the start of the processes, the set-up (key ceremony, alignment, layouts, labels)
    and the last phase, in which the parties get the model. CPU seconds are those of all threads and children of the
    parties and of the server, making nonces included. The seconds until the first round, and the most that each process
    had in memory by the end of the rounds, have a table of their own. Key size, block size, precision and seed are the
    same for every cipher.
    """
    options = common_options(
        algorithm=algorithm,
        dataset=dataset,
        grid=grid,
        split="even",
        loss=loss,
        lambda_=lambda_,
        gap=gap,
        rounds=rounds,
        seed=seed,
        key_bits=key_bits,
        privacy=defaults.PRIVACY,
        cipher=defaults.CIPHER,
    )
    chosen = list(dict.fromkeys(parse_choice("--ciphers", word, *CIPHERS) for word in words(ciphers)))
    if not chosen:
        raise InvalidInput(f"--ciphers: name at least one of: {', '.join(CIPHERS)}")
    network, other = Wan(wan, bandwidth), Installation.parse(against) if against else None
    options.check()
    console = PlainConsole(stderr=True, soft_wrap=True)
    table = load_collected(dataset, data, rows=rows, seed=seed)
    demonstration = Demonstration.of(table, options)
    bench = CipherBench(demonstration, chosen, repeats=repeats, wan=network, against=other, workers=words(workers))
    parties = len(demonstration.shards)
    console.print(f"{table.name}, {len(table.y)} rows, {parties} parties, lambda {lambda_:g}, {key_bits}-bit keys")
    # The processes of a run are ended before this one ends.
    exit_on(signal.SIGTERM, signal.SIGHUP)
    found = bench.run(console.print)
    if output is Format.JSON:
        print_json(found)
    else:
        _print_tables(found)
    if not one_model(found):
        console.print("the models of these runs differ, so they were not the same run")
        raise typer.Exit(ExitCode.MISSED)


def _print_tables(rows: Sequence[Row]) -> None:
    console = terminal()
    console.print(_costs(rows))
    console.print(_kinds(rows))
    console.print(_processes(rows))
    if "ratio_to_against" in rows[0]:
        console.print(_comparison(rows))


def _costs(rows: Sequence[Row]) -> Table:
    table = Table(title="The rounds of one run with each cipher", caption="× = times the costs in clear")
    for heading in ("cipher", "rounds", "gap", "seconds", "×", "CPU s, parties", "server", "×", "MB up", "down", "×"):
        table.add_column(heading, justify="left" if heading == "cipher" else "right")
    for row in rows:
        cpu, sent = row["cpu_seconds"], row["bytes"]
        times = _ratios(row["ratio_to_plain"])
        table.add_row(
            _name(row),
            str(row["rounds"]),
            "none" if row["gap"] is None else f"{row['gap']:.2e}",
            f"{row['seconds']['total']:.2f}",
            times[0],
            f"{cpu['parties']:.2f}",
            f"{cpu['server']:.2f}",
            times[1],
            f"{sent['up'] / 1e6:.3f}",
            f"{sent['down'] / 1e6:.3f}",
            times[2],
        )
    return table


def _kinds(rows: Sequence[Row]) -> Table:
    kinds = list(rows[0]["seconds"])
    table = Table(title="Seconds by kind")
    for heading in ("cipher", *kinds):
        table.add_column(heading, justify="left" if heading == "cipher" else "right")
    for row in rows:
        table.add_row(_name(row), *(f"{row['seconds'].get(kind, 0.0):.2f}" for kind in kinds))
    return table


def _processes(rows: Sequence[Row]) -> Table:
    table = Table(title="Set-up, and MiB of each process")
    for heading in ("cipher", "set-up s", *rows[0]["peak_memory_mib"]):
        table.add_column(heading, justify="left" if heading == "cipher" else "right")
    for row in rows:
        peaks = (f"{peak:.0f}" for peak in row["peak_memory_mib"].values())
        table.add_row(_name(row), f"{row['setup_seconds']:.1f}", *peaks)
    return table


def _comparison(rows: Sequence[Row]) -> Table:
    table = Table(
        title="Beside the other installation",
        caption="times the costs of its run in clear, then of its run with the same cipher",
    )
    for heading in ("cipher", "× clear: seconds", "CPU s", "bytes", "× same: seconds", "CPU s", "bytes"):
        table.add_column(heading, justify="left" if heading == "cipher" else "right")
    for row in rows:
        ratios = row["ratio_to_against"]
        table.add_row(_name(row), *_ratios(ratios["plain"]), *_ratios(ratios["same_cipher"]))
    return table


def _name(row: Row) -> str:
    if row["workers"] != LOCAL:
        return f"{row['cipher']}, {row['workers']}"
    return row["cipher"] if row["commit"] == THIS else f"{row['cipher']}, {row['commit']}"


def _ratios(ratios: Mapping[str, float] | None) -> list[str]:
    return [f"{ratios[name]:.2f}" if ratios else "–" for name in ("seconds", "cpu", "bytes")]
