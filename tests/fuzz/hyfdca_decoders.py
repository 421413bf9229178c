"""The messages and snapshots of HyFDCA in all its local methods, with valid ones from runs of it.

Decoders are found by introspection, and what they need besides the bytes is bound by the names of their parameters.
Their seeds are whatever crossed in a short run that they take.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any, get_type_hints

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from fenchel.v1 import corrective_pb2, hyfdca_pb2, partial_pb2, records_pb2
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.corrective.messages import POINT_PRODUCT_FORMAT
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.data.partition import partition
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_common.wire import (
    corrective,
    corrective_classes,
    corrective_snapshot,
    hyfdca,
    hyfdca_records,
    hyfdca_snapshot,
    partial,
    partial_snapshot,
    records,
    scope,
    scorefigures,
)
from fuzz.decoder import Decoder, parsed
from support.keys import cipher, run_key
from support.problems import problem
from support.simulation import Simulation, WholeRun

MODULES = (
    hyfdca,
    hyfdca_records,
    hyfdca_snapshot,
    corrective,
    corrective_classes,
    corrective_snapshot,
    partial,
    partial_snapshot,
    scope,
    scorefigures,
)
PROTOS = {"corrective": corrective_pb2, "hyfdca": hyfdca_pb2, "partial": partial_pb2}
CLASSES = (0, 1, 2)
METHODS = ("paper", "corrective", "classes", "partial", "continued")
"""Values of `local`, corrective steps of several classes, rounds of pairs from the first on, and after other rounds."""
FURTHER: dict[str, dict[str, object]] = {
    "classes": {"classes": CLASSES},
    "partial": {"participation": "fraction:1.0"},
    "continued": {},
}
LEVELS = ("plain", "sealed")
SEEDS = 4


def hyfdca_decoders() -> list[Decoder]:
    return [
        decoder
        for level in LEVELS
        for module in MODULES
        for function in _decoders_of(module)
        for decoder in _decoder(function, level)
    ]


def _decoders_of(module: ModuleType) -> Iterator[Callable[..., Any]]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and name.endswith(("_from_bytes", "_from_proto")) and name[0] != "_":
            yield function


@functools.lru_cache(maxsize=8)
def _run(method: str, level: str) -> Simulation:
    """A few rounds of a small federation, in which one party was absent for one; the last one ends the run."""
    case = problem(rows=40, columns=8, lambda_=0.05)
    chosen: dict[str, object] = {"lambda": case.lambda_, "privacy": level, "certificate_every": 2}
    data = case.data
    if method == "classes":
        data = replace(data, y=np.arange(40.0) % 3)
    chosen |= FURTHER.get(method, {"local": method})
    settings = SETTINGS["hyfdca"].parse({**chosen, "stop": {"gap": None}})
    shards = partition(data, grid=(2, 2))
    kind = WholeRun if method == "continued" else Simulation
    run = kind.of(shards, settings) if level == "plain" else kind.of(shards, settings, cipher=cipher(), key=run_key())
    first = min(run.names)
    for _ in range(2 if method == "continued" else 1):
        run.round()
        run.round(available=run.names - {first})
    run.round()
    run.round(closing=True)
    return run


def _decoder(function: Callable[..., Any], level: str) -> Iterator[Decoder]:
    """The decoder of one function at one privacy level, if anything in the runs is of its kind."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    kind = _kind(function)
    takes_message = function.__name__.endswith("_from_proto")
    run = _run(METHODS[0], level)
    bound = _bound(function, run, level)

    def read(data: bytes) -> object:
        return function(parsed(kind, data) if takes_message else data, **bound)

    seeds = [data for method in METHODS for data in _candidates(_run(method, level), kind) if _takes(read, data)]
    largest = sorted(dict.fromkeys(seeds), key=len)[-SEEDS:]
    if largest:
        yield Decoder(f"{name} ({level})", read, tuple(largest), (function,), kind)


def _bound(function: Callable[..., Any], run: Simulation, level: str) -> dict[str, object]:
    client, privacy = min(run.names), Privacy(level)
    known: dict[str, object] = {
        "scope": scope.Scope.of_client(
            run.alignment.clients[client], key=run.key, privacy=privacy, product_formats=(POINT_PRODUCT_FORMAT,)
        ),
        "key": run.key,
        "privacy": privacy,
        "formats": (PRODUCT_FORMAT,),
        "field": "field",
        "clients": run.alignment.federation.clients,
        "label_holders": run.alignment.federation.label_holders,
        "problems": len(CLASSES),
        "classes": CLASSES,
    }
    _, *further = inspect.signature(function).parameters
    return {parameter: known[parameter] for parameter in further}


def _kind(function: Callable[..., Any]) -> type[Message]:
    """The message that a decoder is of: what it is annotated with, or what it is named after."""
    annotated = get_type_hints(function).get("message")
    if annotated is not None:
        found: type[Message] = annotated
        return found
    module = function.__module__.rpartition(".")[2]
    words = function.__name__.removesuffix("_from_bytes").split("_")
    if module == "corrective_snapshot" and words[0] == "class":
        words = ["class", "snapshot"]
    elif module.endswith("_snapshot"):
        words = ["snapshot"]
    elif words == ["pairs", "round"]:
        return corrective_pb2.CorrectiveRoundChoices
    name = "".join(word.capitalize() for word in (module.partition("_")[0], *words))
    named: type[Message] = getattr(PROTOS[module.partition("_")[0]], name)
    return named


def _candidates(run: Simulation, kind: type[Message]) -> Iterator[bytes]:
    """What crossed or was kept in a run that may be such a message, and such messages inside of others."""
    client = min(run.names)
    bodies = [body for _, _, of, task, result in run.messages if of == client for body in (task, result)]
    state = run.server.snapshot()
    bodies += [records.round_task_to_bytes(state.own, first=0, records=state.records), run.server.last_state(client)]
    bodies = [inner for body in bodies for inner in _enclosed(body)]
    yield from bodies
    families = {run.settings.family.name, *(["partial"] if isinstance(run, WholeRun) else [])}
    for module in (PROTOS[family] for family in sorted(families)):
        for name in module.DESCRIPTOR.message_types_by_name:
            for body in bodies:
                yield from _inside(getattr(module, name), body, kind)


def _enclosed(body: bytes) -> Iterator[bytes]:
    """The body itself, what is in it if it is an envelope, and the choices in the records beside that."""
    yield body
    for envelope in (records_pb2.RoundTask, records_pb2.RoundResult):
        try:
            message = envelope.FromString(body)
            listed = records.records_from_bytes(getattr(message, "records", b""))
        except (DecodeError, InvalidInput):
            continue
        yield message.body
        yield from (records_pb2.PhaseRecord.FromString(record).choices for record in listed)


def _inside(outer: type[Message], body: bytes, kind: type[Message]) -> Iterator[bytes]:
    try:
        message = outer.FromString(body)
    except DecodeError:
        return
    yield from (part.SerializeToString() for part in _parts(message) if isinstance(part, kind))


def _parts(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield part
                yield from _parts(part)


def _takes(read: Callable[[bytes], object], data: bytes) -> bool:
    try:
        read(data)
    except FenchelError:
        return False
    return True
