"""`fenchel experiment`: the experiments of the papers, executed."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.manual import epilog
from fenchel_deploy.cli.options import FormatOption
from fenchel_deploy.cli.output import Format, print_json
from fenchel_deploy.papers.definitions import experiment_names, load_experiment
from fenchel_deploy.papers.runner import PAGE, expected, run_experiment

experiment_app = typer.Typer(
    help="Carry out the experiments of the papers, and set what was printed beside what is measured.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="An experiment that `fenchel experiment list` names.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="A small form that ends in minutes.")]
OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder for results; each experiment has a folder of its name there.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(experiment_app, name="experiment")


@experiment_app.command("list", epilog=epilog("experiment list"))
def list_experiments(output: FormatOption = Format.TABLE) -> None:
    """List the experiments, with the tables and figures that they measure."""
    found = {name: load_experiment(name) for name in experiment_names()}
    if output is Format.JSON:
        print_json(
            [{"name": name, "paper": one.paper, "shows": one.shows, "title": one.title} for name, one in found.items()]
        )
        return
    table = Table("experiment", "paper", "shows", "what")
    for name, one in found.items():
        table.add_row(name, one.paper, ", ".join(one.shows), one.title)
    PlainConsole().print(table)


@experiment_app.command("run", epilog=epilog("experiment run"))
def run(
    name: NameArgument,
    quick: QuickOption = False,
    out: OutOption = Path("experiments"),
    data: Annotated[
        Path | None,
        typer.Option(envvar="FENCHEL_DATA", help="Folder with the archives of the data sets. Without it, digits."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Carry out an experiment: rows.csv, page.md and figures in DIR/NAME.

    A run that was killed continues where it was: what rows.csv has is not measured again.
    """
    console = PlainConsole(stderr=True, soft_wrap=True)
    result = run_experiment(name, quick=quick, data=data, out=out, tell=console.print)
    if output is Format.JSON:
        print_json(
            {
                "folder": str(result.folder),
                "measured": result.measured_units,
                "kept": result.kept_units,
                "claims": [
                    {"says": one.says, "verdict": one.word, "why": one.why, "rows": one.units}
                    for one in result.verdicts
                ],
            }
        )
        return
    plain = PlainConsole(soft_wrap=True)
    for verdict in result.verdicts:
        plain.print(f"{verdict.word}: {verdict.says} ({verdict.why})")
    plain.print(f"page: {result.folder / PAGE}")


@experiment_app.command("show", epilog=epilog("experiment show"))
def show(name: NameArgument, out: OutOption = Path("experiments"), output: FormatOption = Format.TABLE) -> None:
    """Say what an experiment measures and how long it takes, and print its page if DIR has one."""
    experiment = load_experiment(name)
    if output is Format.JSON:
        print_json(experiment.model_dump(mode="json"))
        return
    plain = PlainConsole(soft_wrap=True)
    plain.print(f"{name}: {experiment.title} ({', '.join(experiment.shows)} of {experiment.paper})")
    plain.print(experiment.about)
    plain.print(f"settings: {'; '.join(setting.label for setting in experiment.settings)}")
    plain.print(f"algorithms: {', '.join(experiment.algorithms)}")
    plain.print(f"{expected(load_experiment(name, quick=True), quick=True)}; {expected(experiment, quick=False)}")
    page = out / name / PAGE
    if page.is_file():
        plain.print("")
        plain.print(page.read_text(encoding="utf-8"))
