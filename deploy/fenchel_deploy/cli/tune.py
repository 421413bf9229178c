"""`fenchel tune`: a path of regularisations, and the choice among them, over a federation on this machine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.table import Table

from fenchel_common import defaults
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_common.selection import LambdaPath
from fenchel_deploy.cli.choices import parse_choice
from fenchel_deploy.cli.completion import algorithm_names
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.demonstration import common_options
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.liveview import following
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import (
    CipherOption,
    DatasetOption,
    FormatOption,
    GridOption,
    KeyBitsOption,
    LossOption,
    PrivacyOption,
    SeedOption,
)
from fenchel_deploy.cli.output import Format
from fenchel_deploy.cli.runviews import path_table
from fenchel_deploy.cli.story import RunStory
from fenchel_deploy.cli.tunepareto import parse_ranges, tune_pareto
from fenchel_deploy.paretotuning import ParetoOptions
from fenchel_deploy.tuning import run_tune

LAMBDA, PARETO = "lambda", "pareto"
HELD_OUT = 0.2


def register(app: typer.Typer) -> None:
    app.command("tune", epilog=epilog("tune"))(tune)


def tune(
    dataset: DatasetOption = "breast_cancer",
    grid: GridOption = None,
    loss: LossOption = "logistic",
    lambdas: Annotated[int, typer.Option(help="How many values of λ, with evenly spaced logarithms.")] = 10,
    largest: Annotated[float, typer.Option(help="The largest λ.")] = 1.0,
    smallest: Annotated[float, typer.Option(help="The smallest λ.")] = 1e-3,
    folds: Annotated[
        int | None, typer.Option(help="Folds of the cross-validation; 0 for none. Default: 5, unless --held-out.")
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Instead of folds: the share of the samples to hold out once.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="auc, log_loss or rmse. Default: auc, or rmse where numbers are predicted.")
    ] = None,
    choose: Annotated[str, typer.Option(help="best, or one_standard_error.")] = "best",
    gap: Annotated[float, typer.Option(help="The duality gap of every model.")] = defaults.GAP,
    seed: SeedOption = defaults.SEED,
    key_bits: KeyBitsOption = defaults.DEMO_KEY_BITS,
    privacy: PrivacyOption = defaults.PRIVACY,
    cipher: CipherOption = defaults.CIPHER,
    objective: Annotated[
        str,
        typer.Option(help="lambda: a path of λ. pareto: hyper-parameters by random search with competing metrics."),
    ] = LAMBDA,
    algorithm: Annotated[
        str,
        typer.Option(help="With pareto: an algorithm that `fenchel algorithms` lists.", autocompletion=algorithm_names),
    ] = "fedavg",
    lambda_: Annotated[float, typer.Option("--lambda", help="With pareto: the regularisation.")] = defaults.LAMBDA,
    trials: Annotated[int, typer.Option(min=1, help="With pareto: how many trials.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="With pareto: rounds of a trial.")] = 30,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="NAME=LOW:HIGH", help="With pareto: a parameter to search; repeatable."),
    ] = None,
    separate: Annotated[
        bool, typer.Option(help="Train with each λ in a run of its own too, and compare rounds and seconds.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep kits, shards, logs and state in this folder.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train with a path of regularisations λ in one run, and choose one on samples that were held out.

    A federation of your own does the same if its run's file has a section [path]. With --objective pareto, trials of an
    algorithm in this process, in clear, draw its hyper-parameters at random, and one of those that no other trial beats
    is chosen by grey relational analysis.
    """
    if parse_choice("--objective", objective, LAMBDA, PARETO) == PARETO:
        if (folds, metric, keep) != (None, None, None) or separate:
            raise InvalidInput("--objective pareto: has no --folds, --metric, --separate or --keep")
        chosen = common_options(
            algorithm=algorithm,
            dataset=dataset,
            grid=grid,
            split="even",
            loss=loss,
            lambda_=lambda_,
            gap=None,
            rounds=rounds,
            seed=seed,
            key_bits=key_bits,
            privacy=privacy,
            cipher=cipher,
        )
        share, bounds = HELD_OUT if held_out is None else held_out, parse_ranges(algorithm, ranges or [])
        tune_pareto(ParetoOptions(chosen, share, trials, rounds, bounds), output=output)
        return
    common = common_options(
        algorithm="hyfdca",
        dataset=dataset,
        grid=grid,
        split="even",
        loss=loss,
        lambda_=largest,
        gap=gap,
        rounds=None,
        seed=seed,
        key_bits=key_bits,
        privacy=privacy,
        cipher=cipher,
    )
    splits: dict[str, object] = {}
    if held_out is not None:
        splits = {"held_out": held_out, **({} if folds is None else {"folds": folds})}
    elif folds != 0:
        splits = {"folds": 5 if folds is None else folds}
    if splits:
        usual = "rmse" if parse_choice("--loss", loss, *LOSSES) in _of_numbers() else "auc"
        splits |= {"metric": metric or usual, "choose": choose}
    elif metric is not None:
        raise InvalidInput("--metric: needs samples that are held out; leave out --folds 0")
    path = _path({"largest": largest, "smallest": smallest, "count": lambdas, **splits})
    story = RunStory(f"{dataset}: {lambdas} values of λ", "starting the federation")
    with following(story, output=output, stderr=True) as tell:
        report = run_tune(common, path, separate=separate, directory=keep, tell=tell)
    if output is Format.JSON:
        typer.echo(json.dumps(report))
    else:
        _print(report)
    if report["status"] != "completed":
        raise typer.Exit(ExitCode.MISSED)


def _of_numbers() -> frozenset[str]:
    return frozenset(name for name, loss in LOSSES.items() if loss.regression)


def _path(values: Mapping[str, object]) -> LambdaPath:
    try:
        return LambdaPath.model_validate(values)
    except ValidationError as error:
        raise InvalidConfig("; ".join(str(detail["msg"]) for detail in error.errors())) from None


def _print(report: Mapping[str, Any]) -> None:
    console = PlainConsole()
    console.print(path_table(report["path"], metric=report["metric"]))
    console.print(f"{report['rounds']} rounds in all, {report['seconds']:.1f} s with set-up")
    console.print(f"{report['status']}: {report['reason']}")
    if (separate := report["separate"]) is None:
        return
    table = Table("λ", "rounds", "seconds", title="Each λ in a run of its own")
    for run in separate["runs"]:
        table.add_row(f"{run['lambda_']:g}", str(run["rounds"]), f"{run['seconds']:.1f}")
    console.print(table)
    rounds, seconds = (report[name] / separate[name] for name in ("rounds", "seconds"))
    console.print(f"{separate['rounds']} rounds, {separate['seconds']:.1f} s with set-up")
    console.print(f"the path has {rounds:.2f} of the rounds and takes {seconds:.2f} of the time")
