"""The server's half of a run's set-up: who takes part, the key ceremony as an untrusted relay, the alignment, layouts,
and the comparison of labels.

The server sees public keys, certificates, sealed secrets that it cannot open, pseudonyms and ciphertext. Nothing of
the set-up is durable before its end: when a party falls out, or the server does, it begins anew with a fresh key.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import FenchelError, ResultRejected
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import LastCertificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import (
    FINISH,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    LABELS,
    LAYOUT,
    Introduction,
    KeyMade,
    KeyTake,
    ModelPart,
)
from fenchel_common.wire.alignment import (
    AlignmentMethod,
    client_layout_to_bytes,
    federation_layout_from_bytes,
    federation_layout_to_bytes,
)
from fenchel_common.wire.ceremony import introductions_to_bytes
from fenchel_common.wire.limits import Extent, extents_of, round_limits, setup_limits
from fenchel_common.wire.setup import (
    introduction_from_bytes,
    key_made_from_bytes,
    key_take_to_bytes,
    key_taken_from_bytes,
    model_part_to_bytes,
    terms_to_bytes,
)
from fenchel_server.algorithms import ALGORITHMS
from fenchel_server.alignment import AlignmentServer
from fenchel_server.cohorts import Alignment, OverlapRule
from fenchel_server.contract import AlgorithmServer, PhaseRequest
from fenchel_server.labels import check_labels, label_tasks, read_layout_results
from fenchel_server.preconditions import check_preconditions
from fenchel_server.release import Release, put_together
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.store import SetupRecord

T = TypeVar("T")

log = logging.getLogger(__name__)


class FederationSetup:
    """Drives the set-up of one run; all parties of the roster take part."""

    def __init__(self, config: RunConfig, roster: Roster) -> None:
        self._config = config
        self._roster = roster
        self._introductions: tuple[Introduction, ...] = ()
        self._public_key = b""
        self._alignment = AlignmentServer(
            roster.names,
            method=AlignmentMethod(config.alignment),
            slots=slot_layout(VectorFormat(), config.key.bits).slots,
            seed=config.seed,
            overlap=OverlapRule(config.overlap),
        )
        self._aligned: Alignment | None = None
        self._openings: dict[ClientId, bytes] = {}
        self._warnings: tuple[str, ...] = ()

    def open(self) -> PhaseRequest:
        return PhaseRequest(INTRODUCE, dict.fromkeys(self._roster.names, terms_to_bytes(self._config)))

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        if phase == INTRODUCE:
            return self._ask_for_key(results)
        if phase == KEY_MAKE:
            return self._relay_key(results)
        if phase == KEY_TAKE:
            return self._check_keys(results)
        if phase == LAYOUT:
            return self._compare_labels(results)
        if phase == LABELS:
            check_labels(results)
            return self._done()
        aligned = self._alignment.advance(phase, results)
        return self._lay_out(aligned) if isinstance(aligned, Alignment) else aligned

    def limits(self, phase: str) -> Mapping[ClientId, int]:
        names = self._roster.names
        if phase not in (LAYOUT, LABELS):
            return dict.fromkeys(names, setup_limits(phase, parties=len(names)).result)
        assert self._aligned is not None, "layouts follow the alignment"
        return _result_limits(phase, self._config, extents_of(self._aligned.federation, key_bits=self._config.key.bits))

    def _ask_for_key(self, results: Mapping[ClientId, bytes]) -> PhaseRequest:
        names = self._roster.names
        self._introductions = tuple(_read(name, introduction_from_bytes, results[name]) for name in names)
        return PhaseRequest(KEY_MAKE, {self._roster.key_holder.name: introductions_to_bytes(self._introductions)})

    def _relay_key(self, results: Mapping[ClientId, bytes]) -> PhaseRequest:
        holder = self._roster.key_holder.name
        made = _read(holder, key_made_from_bytes, results[holder])
        self._check_made(holder, made)
        self._public_key = made.public_key
        if not made.sealed:
            return self._alignment.open()
        tasks = {
            party: key_take_to_bytes(KeyTake(made.public_key, blob, self._introductions))
            for party, blob in made.sealed.items()
        }
        return PhaseRequest(KEY_TAKE, tasks)

    def _check_made(self, holder: ClientId, made: KeyMade) -> None:
        if set(made.sealed) != set(self._roster.names) - {holder}:
            raise ResultRejected(holder, "sealed secrets are due for every other party of the roster, and for no other")
        if not self._config.privacy.encrypts_samples:
            if made.public_key:
                raise ResultRejected(holder, "a run in clear has no key")
        elif _read(holder, PublicKey.from_bytes, made.public_key).bits != self._config.key.bits:
            raise ResultRejected(holder, f"the key has not the {self._config.key.bits} bits of the configuration")

    def _check_keys(self, results: Mapping[ClientId, bytes]) -> PhaseRequest:
        expected = PublicKey.from_bytes(self._public_key).fingerprint if self._public_key else b""
        for party, body in results.items():
            if _read(party, key_taken_from_bytes, body) != expected:
                raise ResultRejected(party, "it holds another key than the key holder made")
        return self._alignment.open()

    def _lay_out(self, aligned: Alignment) -> PhaseRequest:
        self._warnings = check_preconditions(self._config, aligned.federation)
        for warning in self._warnings:
            log.warning("%s", warning)
        self._aligned = aligned
        tasks = {client: client_layout_to_bytes(layout) for client, layout in aligned.clients.items()}
        return PhaseRequest(LAYOUT, tasks)

    def _compare_labels(self, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        assert self._aligned is not None, "layouts follow the alignment"
        key = run_key(self._config, self._public_key)
        read = read_layout_results(results, layout=self._aligned.federation, key=key)
        self._openings = {client: result.opening for client, result in read.items()}
        tasks = label_tasks(read)
        return PhaseRequest(LABELS, tasks) if tasks else self._done()

    def _done(self) -> SetupDone:
        assert self._aligned is not None, "layouts follow the alignment"
        layout = self._aligned.federation
        key = run_key(self._config, self._public_key)
        settings = self._config.algorithm_settings()
        half = ALGORITHMS[settings.family.name][self._config.algorithm]
        algorithm = half(settings, layout=layout, key=key, openings=self._openings)
        if key.public is not None:
            log.info(
                "the run's key: Paillier (%s), %d bits, %d slots, fingerprint %s, made by %s, held by %s",
                self._config.key.kind,
                key.bits,
                layout.slots,
                key.public.fingerprint.hex(),
                self._roster.key_holder.name,
                ", ".join(self._roster.names),
            )
        else:
            log.warning("PLAINTEXT: this run is a benchmark, nothing in it is encrypted")
        record = SetupRecord(
            public_key=self._public_key,
            layout=federation_layout_to_bytes(layout),
            key_fingerprint=None if key.public is None else key.public.fingerprint.hex(),
            key_bits=None if key.public is None else key.bits,
        )
        return SetupDone(record, algorithm.snapshot(), self._warnings)


class FederationRun:
    """The parts of one run that the driver needs: a fresh set-up, the algorithm restored, the end."""

    def __init__(self, config: RunConfig, roster: Roster, *, certificate: Callable[[], LastCertificate]) -> None:
        self._config = config
        self._roster = roster
        self._certificate = certificate
        self._extents: Mapping[ClientId, Extent] | None = None

    @property
    def clients(self) -> frozenset[ClientId]:
        return frozenset(self._roster.names)

    def setup(self) -> FederationSetup:
        return FederationSetup(self._config, self._roster)

    def restore(self, setup: SetupRecord, snapshot: bytes) -> AlgorithmServer:
        settings = self._config.algorithm_settings()
        return ALGORITHMS[settings.family.name][self._config.algorithm].restore(
            snapshot,
            settings=settings,
            layout=federation_layout_from_bytes(setup.layout),
            key=run_key(self._config, setup.public_key),
        )

    def finish(self, setup: SetupRecord, algorithm: AlgorithmServer) -> PhaseRequest:
        layout: FederationLayout = federation_layout_from_bytes(setup.layout)
        certificate = self._certificate()
        releases = self._config.release is not None
        answering = layout.feature_index.first_holders(layout.clients) if releases else {}
        tasks = {
            client: model_part_to_bytes(
                ModelPart(
                    state=algorithm.last_state(client),
                    primal=certificate.primal,
                    dual=certificate.dual,
                    gap=certificate.gap,
                    first_holder_of=answering.get(client, ()),
                )
            )
            for client in layout.clients
        }
        return PhaseRequest(FINISH, tasks)

    def limits(self, phase: str, setup: SetupRecord) -> Mapping[ClientId, int]:
        if self._extents is None:
            layout: FederationLayout = federation_layout_from_bytes(setup.layout)
            self._extents = extents_of(layout, key_bits=self._config.key.bits)
        return _result_limits(phase, self._config, self._extents)

    def released(self, setup: SetupRecord, results: Mapping[ClientId, bytes]) -> Release | None:
        if not self._roster.release_model_to_server:
            return None
        layout: FederationLayout = federation_layout_from_bytes(setup.layout)
        noise = self._config.release_noise(layout.sample_count)
        return put_together(results, layout=layout, certificate=self._certificate(), noise=noise)


def _result_limits(phase: str, config: RunConfig, extents: Mapping[ClientId, Extent]) -> dict[ClientId, int]:
    settings = config.algorithm_settings()
    return {client: round_limits(phase, extent, settings).result for client, extent in extents.items()}


def run_key(config: RunConfig, public_key: bytes) -> RunKey:
    """What the run's vectors by sample are under."""
    if not config.privacy.encrypts_samples:
        return RunKey.in_clear(config.key.bits)
    return RunKey.of(PublicKey.from_bytes(public_key))


def _read(party: ClientId, parse: Callable[[bytes], T], body: bytes) -> T:
    try:
        return parse(body)
    except FenchelError as error:
        raise ResultRejected(party, str(error)) from None
