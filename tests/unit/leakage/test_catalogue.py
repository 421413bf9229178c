"""The catalogue knows every phase that the code knows and every message that can be sent."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor import Descriptor

from fenchel.v1 import (
    alignment_pb2,
    averaging_pb2,
    ceremony_pb2,
    corrective_pb2,
    federation_pb2,
    hyfdca_pb2,
    labels_pb2,
    records_pb2,
    scoring_pb2,
    setup_pb2,
    vectors_pb2,
    visibility_pb2,
)
from fenchel_common.errors import InvalidInput
from fenchel_common.records import ROUND
from fenchel_common.setup import FINISH, LABELS, LAYOUT
from fenchel_common.wire.catalogue import LATER_ALIGNMENT, SETUP, messages_of, phases_of
from support.families import BY_FAMILY, SEVERAL_CLASSES

ROOT = Path(__file__).resolve().parents[3]
IN_RECORDS = {
    # What the server chose, in `PhaseRecord.choices`.
    "AveragingRoundChoices",
    "AveragingPlan",
    "AveragingCoordinates",
    "AveragingClosing",
    "CorrectiveRoundChoices",
    "CorrectivePrimalChoices",
    "CorrectiveClassRoundChoices",
    "CorrectiveClassPrimalChoices",
    "HyfdcaRoundChoices",
    "HyfdcaLeftOut",
    # In `RoundTask.records`.
    "PhaseRecord",
}
NEVER_SENT = {
    # Kept by the server, or by a party, in its own folder.
    "ScoringSnapshot",
    "FederationLayout",
    "MaskSecrets",
    "PairKey",
    "LayoutBlock",
    "LayoutClient",
    "AveragingSnapshot",
    "AveragingBase",
    "AveragingClientState",
    "AveragingLogEntry",
    "HyfdcaSnapshot",
    "HyfdcaClientState",
    "HyfdcaBlockState",
    "CorrectiveSnapshot",
    "CorrectiveClassSnapshot",
    "CorrectiveReached",
    "PartyRun",
    "PartySetup",
    "Company",
    # Inside sealed bytes.
    "WrappedKey",
    "RunSecrets",
    "NameList",
    "Vocabulary",
    # The envelope that the server takes answers out of.
    "PhaseResult",
}


def modules_that_name_phases() -> Iterator[tuple[ModuleType, ast.Module]]:
    for folder, package in (("server", "fenchel_server"), ("client", "fenchel_client")):
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            names = ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__")
            if "phase" in path.read_text() and not names.endswith("__main__"):
                yield importlib.import_module(names), tree


def phases_in(tree: ast.Module) -> Iterator[str]:
    """The names of constants that `phase` is compared with, or that a phase is opened with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "phase" in ast.unparse(node.left).split("."):
            for compared in node.comparators:
                for part in compared.elts if isinstance(compared, ast.Tuple) else [compared]:
                    if isinstance(part, ast.Name):
                        yield part.id
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("PhaseRequest", "_request", "_ask"):
            yield from (part.id for part in node.args[:1] if isinstance(part, ast.Name))


def constants() -> set[str]:
    found = {
        value
        for module, tree in modules_that_name_phases()
        for name in phases_in(tree)
        if isinstance(value := getattr(module, name, None), str)
    }
    assert {"introduce", "finish", "inner_product", "local_dual", "primal", "sync", "survey", "measure"} <= found
    return found


def test_every_phase_that_the_code_knows_is_in_the_catalogue() -> None:
    listed = set(SETUP).union(*map(phases_of, BY_FAMILY.values()))
    assert constants() - {ROUND} <= listed
    assert ROUND not in listed, "it is the phase of a record, and has neither task nor result"


def test_every_family_has_its_layout_and_its_end() -> None:
    assert all({LAYOUT, LABELS, FINISH} <= set(phases_of(settings)) for settings in BY_FAMILY.values())


def test_every_message_is_in_the_catalogue_or_is_a_frame_or_never_sent() -> None:
    families = (averaging_pb2, corrective_pb2, hyfdca_pb2, scoring_pb2)
    files = (*families, alignment_pb2, ceremony_pb2, labels_pb2, records_pb2, setup_pb2, vectors_pb2)
    known = {name for file in files for name in file.DESCRIPTOR.message_types_by_name}
    assert known - reachable() == NEVER_SENT | {"PhaseRecord"}, "records are counted one by one"
    assert not reachable() & set(federation_pb2.DESCRIPTOR.message_types_by_name)


@pytest.mark.parametrize("name", sorted(IN_RECORDS))
def test_nothing_in_records_is_of_one_party_or_one_sample(name: str) -> None:
    """Every party gets every record."""
    for field in message_named(name).fields:
        visibility = field.GetOptions().Extensions[visibility_pb2.visibility]
        of_all = visibility in (visibility_pb2.VISIBILITY_PUBLIC, visibility_pb2.VISIBILITY_AGGREGATE)
        assert of_all or (field.message_type is not None and field.message_type.name in IN_RECORDS)


def message_named(name: str) -> Descriptor:
    return setup_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"fenchel.v1.{name}")


def reachable() -> set[str]:
    """The messages of the catalogue and those inside them."""
    found: set[str] = set()

    def add(name: str) -> None:
        if name not in found:
            found.add(name)
            for field in message_named(name).fields:
                if field.message_type is not None:
                    add(field.message_type.name)

    for phases in (SETUP, *map(phases_of, [*BY_FAMILY.values(), SEVERAL_CLASSES])):
        for messages in phases.values():
            for kind in (messages.task, messages.result, *messages.inside.values()):
                if kind is not None:
                    add(kind.DESCRIPTOR.name)
    return found


def test_the_set_up_is_the_same_whatever_the_algorithm() -> None:
    assert messages_of("align_7", None) == SETUP[LATER_ALIGNMENT]
    assert messages_of("introduce", None).task is setup_pb2.RunTerms


@pytest.mark.parametrize("phase", ["layout", "primal", "unheard_of"])
def test_a_phase_that_is_not_listed_is_refused(phase: str) -> None:
    with pytest.raises(InvalidInput, match="not a phase"):
        messages_of(phase, None)
