"""The defaults: the table in docs/defaults.md, the data, and what every entry really does are the same."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.datasets import load_dataset
from fenchel_common.defaults import DEFAULTS, DEMO_RELATIVE_GAP, DEPARTURES, Entry
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.attacks.recorded import Scenario
from fenchel_deploy.bench.ciphers import CipherBench
from fenchel_deploy.bench.rounds import Setting
from fenchel_deploy.cli import audit, demo, up
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions

ROOT = Path(__file__).parents[2]
ABOUT = ROOT / "docs" / "defaults.md"
NO_DEFAULT = frozenset({"name", "package"})
OF_HYFDCA = "settings.local"

Flat = dict[str, object]


class Caught(Exception):
    """Ends a command where it would start a federation."""

    def __init__(self, options: DemonstrationOptions) -> None:
        super().__init__()
        self.options = options


def expected(entry: Entry | None = None) -> Flat:
    own = {departure.setting: departure.value for departure in DEPARTURES if entry in departure.entries}
    return {**DEFAULTS, **own}


def flat(model: BaseModel, prefix: str = "") -> Flat:
    found: Flat = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        path = prefix + (field.alias or name)
        found |= flat(value, f"{path}.") if isinstance(value, BaseModel) else {path: value}
    return found


def settings_of(settings: AlgorithmSettings) -> Flat:
    named = {f"settings.{name}": value for name, value in flat(settings).items()}
    run_level = {name.removeprefix("settings."): value for name, value in named.items()}
    # The seed of the settings is a stand-in for the one that the parties derive in the set-up.
    return {name: value for name, value in {**named, **run_level}.items() if name in DEFAULTS and name != "seed"}


def effective(config: RunConfig) -> Flat:
    """What a run does, each setting by its name in a run's file."""
    found = flat(config)
    found.pop("settings")
    return {name: value for name, value in found.items() if name not in NO_DEFAULT} | settings_of(
        config.algorithm_settings()
    )


def options_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> DemonstrationOptions:
    """What a command makes of its options before it starts anything."""

    def caught(*found: Any, **_rest: object) -> None:
        raise Caught(next(argument for argument in found if isinstance(argument, DemonstrationOptions)))

    for runner in ("cli.demo.run_demo", "cli.up.run_up", "levels.compare"):
        monkeypatch.setattr(f"fenchel_deploy.{runner}", caught)
    monkeypatch.setattr("fenchel_deploy.cli.up.signal.signal", lambda *_: None)
    app = typer.Typer()
    for verb in (demo, up, audit):
        verb.register(app)
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, Caught), result.output
    return result.exception.options


def test_every_setting_of_a_run_has_a_default_in_the_table() -> None:
    assert effective(RunConfig.from_mapping({"name": "test"})) == expected()


def test_the_run_of_the_readme_has_the_defaults(tmp_path: Path) -> None:
    shown = (ROOT / "README.md").read_text().partition("`run.toml` needs little more than a name")[2].partition("\n")[2]
    lines = re.match(r"(?:(?: {7}.*)?\n)+", shown)
    assert lines is not None
    path = tmp_path / "run.toml"
    path.write_text(re.sub(r"^ {7}", "", lines.group(), flags=re.MULTILINE))
    assert effective(RunConfig.from_toml(path)) == expected()


def test_the_run_of_docker_compose_has_the_defaults_but_for_its_departures() -> None:
    assert effective(RunConfig.from_toml(ROOT / "deploy/compose/run.toml")) == expected("docker-compose.yml")


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_the_settings_of_every_algorithm_have_the_defaults(algorithm: str) -> None:
    listed = SETTINGS[algorithm]
    wanted = expected("algorithms of whole rows" if listed.profile.partitions == ("horizontal",) else None)
    if algorithm == "fedsgm":
        wanted |= {name: value for name, value in expected("fedsgm").items() if DEFAULTS[name] != value}
    found = settings_of(listed.parse({}))
    assert {"privacy", "stop.gap", "stop.rounds", "settings.loss", "settings.lambda"} <= found.keys()
    assert (OF_HYFDCA in found) == (algorithm == "hyfdca")
    assert found == {name: wanted[name] for name in found}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("fenchel demo", ["demo"]),
        ("fenchel up", ["up"]),
        ("fenchel audit --compare", ["audit", "--compare", "plain", "sealed"]),
    ],
)
def test_commands_that_make_up_a_federation_have_the_defaults_but_for_their_departures(
    monkeypatch: pytest.MonkeyPatch, entry: Entry, words: list[str]
) -> None:
    demonstration = Demonstration.prepare(options_of(monkeypatch, *words))
    wanted = expected(entry)
    assert wanted["stop.gap"] == "0.1 % of the optimum"
    wanted["stop.gap"] = DEMO_RELATIVE_GAP * demonstration.problems.solved().primal
    assert effective(demonstration.config("test")) == wanted


@pytest.mark.parametrize("command", ["demo", "up"])
def test_algorithms_without_certificate_stop_earlier(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    wanted = expected("an algorithm without certificate in fenchel demo or fenchel up")
    assert options_of(monkeypatch, command, "--algorithm", "fedavg").rounds == wanted["stop.rounds"]


def test_attacks_have_the_defaults_but_for_their_departures() -> None:
    assert effective(Scenario(Privacy.SEALED).config("test")) == expected("fenchel audit --attack")


def test_the_bench_has_the_defaults_but_for_its_departures() -> None:
    setting = Setting(
        load_dataset("breast_cancer"), 1e-2, (2, 2), "contiguous", "hinge", optimum=1.0, participation="all", seed=0
    )
    found = settings_of(setting.corrective())
    assert found == {name: expected("fenchel bench rounds")[name] for name in found}
    assert effective(setting.encrypted(1000)) == expected("fenchel bench rounds --repeat-encrypted")


def test_the_bench_of_ciphers_has_the_defaults_but_for_its_departures() -> None:
    demonstration = Demonstration.prepare(DemonstrationOptions())
    gap = DEMO_RELATIVE_GAP * demonstration.problems.solved().primal
    assert effective(CipherBench(demonstration, ["paillier"]).config("paillier")) == {
        **expected("fenchel bench run"),
        "stop.gap": gap,
    }


def test_the_document_shows_the_table() -> None:
    rows = [[cell.strip().strip("`") for cell in line.strip("|\n ").split("|")] for line in _lines()]
    defaults, departures = rows[: len(DEFAULTS)], rows[len(DEFAULTS) :]
    assert [tuple(row) for row in defaults] == [(name, shown(value)) for name, value in DEFAULTS.items()]
    assert [tuple(row) for row in departures] == [
        (departure.setting, shown(departure.value), ", ".join(departure.entries), departure.reason)
        for departure in DEPARTURES
    ]


def _lines() -> list[str]:
    """The rows of the document's tables, without their headings."""
    lines = [line for line in ABOUT.read_text().splitlines() if line.startswith("|")]
    marks = [position for position, line in enumerate(lines) if set(line) <= set("|- ")]
    return [line for position, line in enumerate(lines) if position not in marks and position + 1 not in marks]


WORDS: Mapping[object, str] = {None: "none", True: "true", False: "false"}


def shown(value: object) -> str:
    return WORDS[value] if value is None or isinstance(value, bool) else f"{value}"
