"""`fenchel bench`: measures encryption and runs, and counts rounds, on this machine."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION
from fenchel_common.algorithms.settings import Participation
from fenchel_common.defaults import KEY_BITS
from fenchel_common.errors import InvalidInput
from fenchel_deploy.bench import crypto, models
from fenchel_deploy.bench import rounds as rounds_bench
from fenchel_deploy.bench import tables as tables_bench
from fenchel_deploy.bench.peers import Peer, load_peer
from fenchel_deploy.cli.benchrun import bench_run
from fenchel_deploy.cli.benchscale import bench_scale
from fenchel_deploy.cli.choices import parse_choice, parse_grid, words
from fenchel_deploy.cli.console import PlainConsole, terminal
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption, LambdaOption
from fenchel_deploy.cli.output import Format, print_json

SLOT_WIDTHS = (64, 48, 32)
KEY_SIZES = (2048, 3072)
OPERATIONS = {"encrypt": "encrypt", "encrypt_online": "online", "decrypt": "decrypt", "add": "add"}
"""The operations of the report, with the headings of their columns."""


bench_app = typer.Typer(help="Measure encryption and runs, and count rounds, on this machine.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(bench_app, name="bench")
    bench_app.command("run", epilog=epilog("bench run"))(bench_run)
    bench_app.command("scale", epilog=epilog("bench scale"))(bench_scale)


@bench_app.command("crypto", epilog=epilog("bench crypto"))
def bench_crypto(
    bits: Annotated[int, typer.Option(help="Size of the Paillier keys: 2048 or 3072.")] = KEY_BITS,
    values: Annotated[int, typer.Option(help="How many floats a vector has.")] = 1457,
    slot_bits: Annotated[int, typer.Option(help="Width of a slot: 64, 48 or 32.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; times are medians over them.")] = 9,
    peers: Annotated[
        str,
        typer.Option(
            help="Comma-separated: phe is always measured; sf-heu, fate_utils, tenseal, lightphe if installed."
        ),
    ] = "phe",
    output: FormatOption = Format.TABLE,
) -> None:
    """Time encrypting, adding and decrypting float vectors, beside python-paillier on the same values.

    Times are CPU microseconds a value on one thread. "encrypt" makes the nonces too; "online" takes them from the pool
    that a party fills while it waits. Masks need none. "decrypt" opens a sum of two vectors and checks its tags.
    """
    if bits not in KEY_SIZES or slot_bits not in SLOT_WIDTHS:
        raise InvalidInput(f"--bits is one of {KEY_SIZES} and --slot-bits one of {SLOT_WIDTHS}")
    console = PlainConsole(stderr=True)
    chosen = _load_peers(peers, bits, console)
    console.print(SUBGROUP_ASSUMPTION, style="dim")
    columns = (TextColumn("{task.description:<32}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=crypto.steps(rounds, len(chosen)))
        report = crypto.run(
            bits=bits,
            value_count=values,
            slot_bits=slot_bits,
            rounds=rounds,
            peers=chosen,
            advance=lambda what: progress.update(task, advance=1, description=what),
        )
    if output is Format.JSON:
        print_json(report)
    else:
        terminal().print(_table(report))


@bench_app.command("rounds", epilog=epilog("bench rounds"))
def bench_rounds(
    datasets: Annotated[
        str, typer.Option(help="Comma-separated: digits, breast_cancer, a9a, mnist, covtype, heart_disease.")
    ] = "digits",
    lambdas: Annotated[str, typer.Option(help="Comma-separated values of λ.")] = "1e-2,1e-3,1e-4",
    grids: Annotated[str, typer.Option(help="Comma-separated KxQ.")] = "1x4,4x1,4x4,2x8,6x6",
    columns: Annotated[str, typer.Option(help="contiguous, shuffled, or both.")] = "contiguous,shuffled",
    losses: Annotated[str, typer.Option(help="hinge, smoothed_hinge, logistic.")] = "hinge",
    methods: Annotated[str, typer.Option(help="paper (five values of h), theory, corrective.")] = (
        "paper,theory,corrective"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="The most rounds of a run.")] = 400,
    rows: Annotated[int, typer.Option(min=16, help="The most rows of a data set that are used.")] = 12_000,
    data: Annotated[Path | None, typer.Option(help="Folder with the archives of all but the built-in sets.")] = None,
    repeat_encrypted: Annotated[
        bool, typer.Option("--repeat-encrypted", help="Repeat one setting of each set by real processes, encrypted.")
    ] = False,
    participation: Annotated[str, typer.Option(help="Comma-separated: all, fraction:P, cyclic:C.")] = "all",
    seed: Annotated[int, typer.Option(help="Seed of the choice of rows, of the splits and of the draws.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="So many seeds, from --seed on, for splits and draws.")] = 1,
    processes: Annotated[int, typer.Option(min=1, help="So many settings are measured at once.")] = 1,
    output: FormatOption = Format.TABLE,
) -> None:
    """Count the rounds to within 1e-2 and 1e-3 of the optimum, for each kind of local step of HyFDCA."""
    sweep = rounds_bench.Sweep(
        datasets=words(datasets),
        lambdas=[_number("--lambdas", word) for word in words(lambdas)],
        grids=[parse_grid(word) for word in words(grids)],
        columns=[parse_choice("--columns", word, "contiguous", "shuffled") for word in words(columns)],
        losses=[parse_choice("--losses", word, "hinge", "smoothed_hinge", "logistic") for word in words(losses)],
        methods=[parse_choice("--methods", word, *rounds_bench.METHODS) for word in words(methods)],
        participation=[_rule(word) for word in words(participation)],
        seeds=range(seed, seed + seeds),
        maximum_rounds=rounds,
        rows=rows,
        processes=processes,
    )
    console = PlainConsole(stderr=True, soft_wrap=True)
    report = rounds_bench.run(sweep, folder=data, repeat_encrypted=repeat_encrypted, tell=console.print)
    if output is Format.JSON:
        print_json(report)
    else:
        PlainConsole().print(_rounds_table(report))


@bench_app.command("tables", epilog=epilog("bench tables"))
def bench_tables(
    rows: Annotated[int, typer.Option(min=1000, help="Of the CSV file.")] = 1_000_000,
    columns: Annotated[int, typer.Option(min=3, help="Of the CSV file, id and label included.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Readings of each kind; their medians are shown.")] = 3,
    output: FormatOption = Format.TABLE,
) -> None:
    """Time reading and checking a CSV file, and its memory, beside Arrow's reading of the same file."""
    console = PlainConsole(stderr=True)
    report = tables_bench.run(rows=rows, columns=columns, repeats=repeats, tell=console.print)
    if output is Format.JSON:
        print_json(report)
        return
    table = Table(title=f"{rows} rows, {columns} columns, {report['file_bytes'] / 1e6:.0f} MB of CSV")
    for heading in ("", "seconds", "MB"):
        table.add_column(heading)
    for name in ("arrow", "fenchel"):
        table.add_row(name, f"{report[name]['seconds']:.2f}", f"{report[name]['bytes'] / 1e6:.0f}")
    table.add_row("fenchel ÷ arrow", f"{report['ratio']['seconds']:.2f}", f"{report['ratio']['bytes']:.2f}")
    PlainConsole().print(table)


@bench_app.command("models", epilog=epilog("bench models"))
def bench_models(
    data: Annotated[Path, typer.Option(help="Folder with the archives of the data sets.")],
    dataset: Annotated[str, typer.Option(help=f"{' or '.join(models.DATASETS)}.")] = models.DATASETS[0],
    rows: Annotated[int | None, typer.Option(min=1000, help="At most so many rows, drawn at random.")] = None,
    lambda_: LambdaOption = models.LAMBDA,
    gap: Annotated[float, typer.Option(min=1e-9, help="The gap at which the run ends.")] = models.GAP,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train on real tables of three parties, with categories, beside scikit-learn's pipeline on the pooled table."""
    console = PlainConsole(stderr=True)
    bench = models.ModelBench(dataset, data, rows=rows, lambda_=lambda_, gap=gap)
    report = bench.run(console.print)
    if output is Format.JSON:
        print_json(report)
    else:
        table = Table(
            title=f"{dataset}: {report['rows']} rows, {report['features']} features, {report['rounds']} rounds"
        )
        for heading in ("AUC", "scikit-learn", "seconds", "MiB of a party"):
            table.add_column(heading)
        aucs = (report[name] for name in ("auc", "reference_auc"))
        memory = max(report["peak_memory_mib"].values())
        table.add_row(*(f"{auc:.4f}" for auc in aucs), f"{report['seconds']:.0f}", f"{memory:.0f}")
        PlainConsole().print(table)
    if abs(report["difference"]) > models.TOLERANCE:
        raise typer.Exit(ExitCode.MISSED)


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option}: {text!r} is not a number") from None


def _rule(text: str) -> str:
    """A rule of participation as the option has it."""
    try:
        Participation.parse(text)
    except ValueError as error:
        raise InvalidInput(f"--participation: {error}") from None
    return text


def _rounds_table(report: dict[str, Any]) -> Table:
    table = Table(title="Rounds to within 1e-2 / 1e-3 of the optimum", caption=json.dumps(report["summary"]))
    headings = (
        "data set",
        "loss",
        "λ",
        "grid",
        "columns",
        "parties",
        "seed",
        "method",
        "h",
        "1e-2",
        "1e-3",
        "diverged",
    )
    for heading in headings:
        table.add_column(heading)
    for row in report["results"]:
        setting = ("dataset", "loss", "lambda", "grid", "columns", "participation", "seed")
        names = (*setting, "method", "h", "rounds_1e2", "rounds_1e3", "diverged")
        table.add_row(*("" if row[name] is None or row[name] is False else str(row[name]) for name in names))
    return table


def _load_peers(names: str, bits: int, console: PlainConsole) -> list[Peer]:
    wanted = dict.fromkeys(["phe", *(name.strip() for name in names.split(",") if name.strip())])
    loaded = []
    for name in wanted:
        peer = load_peer(name, bits)
        if peer is None:
            console.print(f"{name} is not installed here and is left out (pip install {name})")
        else:
            loaded.append(peer)
    return loaded


def _table(report: dict[str, Any]) -> Table:
    table = Table(
        title=f"Encrypted vectors, {report['bits']}-bit key, {report['slots']} slots of {report['slot_bits']} bits",
        caption="CPU µs a value, one thread, medians; × times cheaper than phe; "
        f"Paillier online, products mod n²: {report['online_mulmods']:.2f}; "
        "a server checks and adds {ratio:.2f} times as fast on {cores} cores as on one".format(**report["additions"]),
    )
    table.add_column("", no_wrap=True)
    for heading in (*OPERATIONS.values(), "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("×", justify="right", no_wrap=True)
    table.add_row("Paillier", *_cells(report["ours"], report["ratio"]))
    table.add_row("Paillier, subgroup key", *_cells(report["subgroup"], report["subgroup"]["ratio"]))
    table.add_row("masks", *_cells(report["masks"], report["masks"]["ratio"]))
    for name, times in {"phe": report["phe"], **report["peers"]}.items():
        table.add_row(name, *_cells(times, {}))
    return table


def _cells(times: Mapping[str, Any], ratio: Mapping[str, float]) -> Iterator[str]:
    """A row's times and bytes, each followed by its ratio."""
    for name in OPERATIONS:
        yield f"{times[f'{name}_us']:,.4g}" if f"{name}_us" in times else ""
        yield f"{ratio[name]:,.0f}" if ratio else ""
    yield f"{times['bytes_per_value']:,.2f}"
    yield f"{ratio['bytes']:,.0f}" if ratio else ""
