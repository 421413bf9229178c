"""What the help of each command says below its options: examples, and what its exit codes mean.

docs/commands.md has the same, and a test compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fenchel_deploy.cli.exits import ExitCode

USUAL: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "done",
    ExitCode.REFUSED: "wrong usage, bad input, or a refusal that no retry cures",
    ExitCode.INTERNAL: "an error of Fenchel itself; please report it with the output of `fenchel doctor`",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}
"""The codes that every command has, unless its entry says otherwise."""

_KIT = {ExitCode.IDENTITY: "the kit, its certificate or its roster cannot be used"}
_STATE = {ExitCode.STATE: "no usable state in DIR"}
_RUN = {**_STATE, ExitCode.UNKNOWN_RUN: "no such run"}
_CONFLICT = {ExitCode.CONFLICT: "the run's status does not allow it"}
_GOAL = {
    ExitCode.DONE: "the model is within 0.1 % of the optimum or within the gap that was asked for, or the algorithm "
    "has no certificate and ran to its end",
    ExitCode.MISSED: "it is not",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """The examples of a command, and the exit codes in which it differs from `USUAL`."""

    examples: tuple[str, ...]
    exits: Mapping[ExitCode, str] = field(default_factory=dict)

    def all_exits(self) -> dict[ExitCode, str]:
        """Every exit code of the command with its meaning, in order."""
        return dict(sorted({**USUAL, **self.exits}.items()))


ENTRIES: Final[Mapping[str, Entry]] = {
    "demo": Entry(
        (
            "fenchel demo",
            "fenchel demo --dataset digits --grid 4x4 --format json",
            "fenchel demo --algorithm fedavg --rounds 20 --keep demo/",
        ),
        _GOAL,
    ),
    "tune": Entry(
        (
            "fenchel tune",
            "fenchel tune --loss logistic --largest 1e-2 --smallest 1e-6 --metric log_loss --choose one_standard_error",
            "fenchel tune --loss hinge --folds 0 --separate",
            "fenchel tune --objective pareto --algorithm fedavg --trials 40",
        ),
        {
            ExitCode.DONE: "every model is within the gap that was asked for, and λ is chosen; or a trial is chosen",
            ExitCode.MISSED: "the last model is not within the gap, or every trial diverged",
        },
    ),
    "algorithms": Entry(("fenchel algorithms", "fenchel algorithms hyfdca")),
    "provision": Entry(
        (
            "fenchel provision federation.toml --out kits/",
            "fenchel provision federation.toml --out kits/ --renew-within 30",
            "fenchel provision federation.toml --out kits/ --replace south",
        ),
        {ExitCode.IDENTITY: "the authority or a kit in OUT cannot be used"},
    ),
    "cert request": Entry(("fenchel cert request south --out kit/",), _KIT),
    "cert approve": Entry(("fenchel cert approve south.csr --party south --out kits/",), _KIT),
    "cert show": Entry(
        ("fenchel cert show kit/", "fenchel cert show kit/cert.pem --format json"),
        {ExitCode.IDENTITY: "not a certificate of a federation"},
    ),
    "data inspect": Entry(
        ("fenchel data inspect patients.csv",),
        {ExitCode.DONE: "the table can be used as it is", ExitCode.MISSED: "it cannot"},
    ),
    "data init": Entry(
        ("fenchel data init patients.csv", "fenchel data init patients.csv --id number --label ill --positive yes")
    ),
    "data example": Entry(("fenchel data example hospitals/",)),
    "preflight": Entry(
        ("fenchel preflight kit/ --data patients.csv", "fenchel preflight kit/ --format json"),
        {ExitCode.DONE: "nothing fails; warnings do not count", ExitCode.MISSED: "something fails"},
    ),
    "shard": Entry(("fenchel shard --names north,south --grid 2x1 --out shards/",)),
    "server": Entry(
        (
            "fenchel server --kit kits/server --state state/ --run run.toml",
            "fenchel server --kit kits/server --state state/ --run first.toml --run second.toml",
            "fenchel server --kit kits/server --state state/ --stay --results results/ --metrics 9464",
        ),
        {
            ExitCode.DONE: "all runs completed; with --supervised, or are exhausted or diverged",
            ExitCode.MISSED: "a run stopped, failed or diverged, and `fenchel runs show` says why",
            ExitCode.EXHAUSTED: "a run used up its rounds or seconds before it reached the gap that was asked for",
            ExitCode.STATE: "the state folder cannot be used, or another server uses it",
            ExitCode.CONFLICT: "a run of that name is on record with another configuration",
            **_KIT,
            ExitCode.TERMINATED: "ended by SIGTERM; the next start continues after the last committed round",
        },
    ),
    "client": Entry(
        (
            "fenchel client --kit kit/ --data patients.csv --state private/",
            "fenchel client --kit kit/ --data patients.csv --state private/ --accept 2048-bits --log-format json",
        ),
        {
            ExitCode.DONE: "the server dismissed the party, or SIGTERM stopped it",
            ExitCode.MISSED: "a run is locked here: several of its tasks had values that no honest run has",
            **_KIT,
            ExitCode.DATA_UNFIT: "the data do not fit the run or those of other parties; the log says what to mend",
        },
    ),
    "predict": Entry(
        (
            "fenchel predict new.csv --model private/run-0a1b2c3d.model --out scores.csv",
            "fenchel predict clinic.csv lab.csv --model clinic/ --model lab/ --out scores.csv --explain why.csv",
        )
    ),
    "score": Entry(
        (
            "fenchel score new/ --kit kits/north --state private/ --model private/ --ask scores.csv",
            "fenchel score patients/ --kit kits/south --state private/ --model private/ --most-rows 200",
        ),
        {
            ExitCode.DONE: "the server dismissed the party; at the asking party, the scores are in the file",
            **_KIT,
            ExitCode.DATA_UNFIT: "the rows do not fit those of other parties; the log says what to mend",
        },
    ),
    "export": Entry(
        (
            "fenchel export --model clinic/ --model lab/ --to sklearn --out model.joblib",
            "fenchel export --model clinic/ --model lab/ --to onnx --out model.onnx",
            "fenchel export --model clinic/ --model lab/ --to card --figures figures.json --out card.md",
        )
    ),
    "health": Entry(
        ("fenchel health --kit kit/", "fenchel health --kit kit/ --live"),
        {
            ExitCode.DONE: "a round can run now or, with --live, the server answers",
            ExitCode.MISSED: "no round can run now, or no answer",
            **_KIT,
        },
    ),
    "runs submit": Entry(
        ("fenchel runs submit run.toml --state state/",),
        {**_STATE, ExitCode.CONFLICT: "a run of that name is on record, or the queue is full"},
    ),
    "runs list": Entry(("fenchel runs list --state state/",), _STATE),
    "runs show": Entry(
        ("fenchel runs show first --state state/", "fenchel runs show run-0a1b2c3d --state state/ --format json"), _RUN
    ),
    "runs watch": Entry(
        (
            "fenchel runs watch run-0a1b2c3d --state state/",
            "fenchel runs watch trial --state state/ --format json",
        ),
        {
            **_RUN,
            ExitCode.DONE: "the run completed",
            ExitCode.MISSED: "it stopped, failed or diverged",
            ExitCode.EXHAUSTED: "it used up its rounds or seconds before it reached the gap that was asked for",
        },
    ),
    "runs stop": Entry(
        ('fenchel runs stop first --state state/ --reason "maintenance"',),
        {**_RUN, **_CONFLICT},
    ),
    "runs resume": Entry(("fenchel runs resume first --state state/",), {**_RUN, **_CONFLICT}),
    "dashboard": Entry(
        (
            "fenchel dashboard --state state/",
            "fenchel dashboard --party private/ --kit kit/",
            "fenchel dashboard --state state/ --listen 0.0.0.0:8440 --token-file token --tls cert.pem key.pem",
        ),
        {**_STATE, **_KIT, ExitCode.TERMINATED: "ended by SIGTERM"},
    ),
    "report": Entry(
        (
            "fenchel report first --state state/ --out report.html",
            "fenchel report sealed paper plain --state state/ --out levels.html --figures figures/",
            "fenchel report first --state state/ --format json",
        ),
        _RUN,
    ),
    "compare": Entry(
        (
            "fenchel compare first second --state state/",
            "fenchel compare sealed.json plain.json --format csv",
        ),
        _RUN,
    ),
    "audit": Entry(
        (
            "fenchel audit run-0a1b2c3d --state state/",
            "fenchel audit --compare plain paper sealed",
            "fenchel audit --attack all",
            "fenchel audit --forgery --count 1000",
        ),
        {**_RUN, ExitCode.MISSED: "an attack did not end as the documentation claims, or a forgery was accepted"},
    ),
    "bench run": Entry(
        (
            "fenchel bench run --dataset digits --grid 2x2",
            "fenchel bench run --dataset a9a --data data/ --grid 2x2 --lambda 1e-3 --gap 3e-4 --repeats 3",
            "fenchel bench run --ciphers plain,paillier --against old=/path/to/old/.venv/bin/python",
        ),
        {
            ExitCode.DONE: "measured; all ciphers ended with the same model",
            ExitCode.MISSED: "measured, but their models differ",
            ExitCode.TERMINATED: "ended by SIGTERM; its processes have ended",
        },
    ),
    "bench scale": Entry(
        (
            "fenchel bench scale --parties 4,16 --samples 1e4,1e5",
            "fenchel bench scale --parties 4 --samples 1e6 --ciphers masks --rounds 100 --gap 1e-3 --format json",
            "fenchel bench scale --dataset digits --parties 100 --rounds 50 --gap 1e-3",
        ),
        {
            ExitCode.DONE: "measured",
            ExitCode.MISSED: "a run had no round; the report says why",
            ExitCode.TERMINATED: "ended by SIGTERM; its processes have ended",
        },
    ),
    "bench crypto": Entry(("fenchel bench crypto --bits 3072", "fenchel bench crypto --peers phe,tenseal")),
    "bench rounds": Entry(("fenchel bench rounds --datasets digits --lambdas 1e-2 --grids 4x4",)),
    "bench tables": Entry(("fenchel bench tables --rows 100000",)),
    "bench models": Entry(
        ("fenchel bench models --data data/ --dataset diabetes130",),
        {ExitCode.DONE: "the areas differ by at most 0.005", ExitCode.MISSED: "they differ by more"},
    ),
    "experiment list": Entry(("fenchel experiment list",)),
    "experiment run": Entry(
        (
            "fenchel experiment run hyfdca-table6 --quick --out results/",
            "fenchel experiment run hyfdca-table6 --data data/ --out results/",
        ),
        {ExitCode.DONE: "measured; the page says which sentences of the paper hold"},
    ),
    "experiment show": Entry(("fenchel experiment show hyfdca-table6 --out results/",)),
    "up": Entry(
        ("fenchel up --grid 4x6", "fenchel up --wan us-singapore --rounds 20 --gap 1e-3"),
        {**_GOAL, ExitCode.TERMINATED: "ended by SIGTERM; the containers are removed"},
    ),
    "down": Entry(("fenchel down", "fenchel down fenchel-0a1b2c3d")),
    "ping": Entry(
        ("fenchel ping --kit kit/", "fenchel ping --kit kit/ --count 20 --format json"),
        {ExitCode.DONE: "measured", ExitCode.MISSED: "no answer", **_KIT},
    ),
    "relay": Entry(
        ("fenchel relay --listen localhost:9192 --to localhost:9092 --delay-ms 50",),
        {ExitCode.DONE: "ended by SIGTERM or SIGINT"},
    ),
    "doctor": Entry(
        ("fenchel doctor", "fenchel doctor --kit kit/ --state private/ --format json"),
        {ExitCode.DONE: "nothing fails; warnings do not count", ExitCode.MISSED: "something fails"},
    ),
}
"""By the words of the command."""


def epilog(command: str) -> str:
    """The text below the options in the help of a command."""
    entry = ENTRIES[command]
    examples = "\n".join(f"  {example}" for example in entry.examples)
    codes = "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in entry.all_exits().items())
    return f"\b\nExamples:\n{examples}\n\n\b\nExit codes:\n{codes}"
