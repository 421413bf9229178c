"""The server's half of a run's set-up: the key ceremony, the alignment, the layouts and the comparison of labels.

The server sees public keys, certificates, sealed secrets that it cannot open, pseudonyms and ciphertexts. Nothing of
the set-up is durable before its end: if a party or the server fails, the set-up begins again with a fresh key.
"""

import logging
from collections.abc import Collection, Mapping
from functools import partial

from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import (
    BEFORE_ROUNDS,
    GROUP_KEYS,
    LABELS,
    LAYOUT,
    NAMES,
    VOCABULARY,
    LayoutResult,
    setup_phase_after,
)
from fenchel_common.wire.alignment import client_layout_to_bytes, federation_layout_to_bytes
from fenchel_common.wire.groupkeys import group_keys_from_bytes
from fenchel_common.wire.limits import extents_of, group_keys_limit, setup_limits
from fenchel_server.algorithms import ALGORITHMS
from fenchel_server.alignment import AlignmentServer, check_names_read
from fenchel_server.ceremony import CEREMONY_PHASES, KeyCeremony
from fenchel_server.cohorts import Alignment
from fenchel_server.contract import PhaseRequest
from fenchel_server.labels import check_labels, label_tasks, read_layout_results
from fenchel_server.layoutrecord import GivenByAll, agreed_seed, opened_results, setup_record
from fenchel_server.preconditions import check_preconditions
from fenchel_server.preparations import preparation_tasks, read_preparations
from fenchel_server.rejection import read_or_reject
from fenchel_server.rounds.setup import SetupDone
from fenchel_server.runterms import result_limits, run_key
from fenchel_server.store import SetupRecord

log = logging.getLogger(__name__)


class FederationSetup:
    """Drives the set-up of one run; all parties of the roster take part. `attempt` is the number of this attempt."""

    def __init__(self, config: RunConfig, roster: Roster, *, attempt: int) -> None:
        self._config = config
        self._attempt = attempt
        self._roster = roster
        self._ceremony = KeyCeremony(config, roster)
        self._alignment = AlignmentServer.of_run(config, roster)
        self._aligned: Alignment | None = None
        self._preparations: dict[ClientId, bytes] = {}
        self._records: list[bytes] = []
        self._warnings: tuple[str, ...] = ()

    def begin(self) -> PhaseRequest:
        return self._ceremony.begin()

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        if phase in CEREMONY_PHASES:
            return self._ceremony.advance(phase, results) or self._begin_alignment()
        if phase == VOCABULARY:
            return self._alignment.begin(results)
        if phase == GROUP_KEYS:
            return self._relay_group_keys(results)
        if phase in BEFORE_ROUNDS:
            following = setup_phase_after(phase, self._config)
            if following is None:
                return self._compare_labels(phase, results)
            return self._add_up(phase, results, following)
        if phase == LABELS:
            check_labels(results)
            return self._done()
        if phase == NAMES:
            check_names_read(results)
            assert self._aligned is not None, "names follow the alignment"
            return self._lay_out(self._aligned)
        aligned = self._alignment.advance(phase, results)
        if not isinstance(aligned, Alignment):
            return aligned
        self._aligned = aligned
        return self._alignment.names_request()

    def limits(self, phase: str) -> Mapping[ClientId, int]:
        names = self._roster.names
        if phase not in (GROUP_KEYS, *BEFORE_ROUNDS, LABELS):
            return dict.fromkeys(names, setup_limits(phase, parties=len(names)).result)
        assert self._aligned is not None, "layouts follow the alignment"
        if phase == GROUP_KEYS:
            return {client: group_keys_limit(layout) for client, layout in self._aligned.clients.items()}
        return result_limits(phase, self._config, extents_of(self._aligned.federation, key_bits=self._config.key.bits))

    def _begin_alignment(self) -> PhaseRequest:
        """The first phase after the ceremony."""
        if self._config.features is None:
            return self._alignment.begin()
        return self._alignment.vocabulary_request()

    def _lay_out(self, aligned: Alignment) -> PhaseRequest:
        self._warnings = (*aligned.notes, *check_preconditions(self._config, aligned.federation))
        for warning in self._warnings:
            log.warning("%s", warning)
        self._aligned = aligned
        if not self._config.has_masks:
            return self._relay_group_keys({})
        tasks = {client: client_layout_to_bytes(layout) for client, layout in aligned.clients.items()}
        return PhaseRequest(GROUP_KEYS, tasks)

    def _relay_group_keys(self, results: Mapping[ClientId, bytes]) -> PhaseRequest:
        """The layouts, with the sealed keys of groups that are for each party."""
        assert self._aligned is not None, "layouts follow the alignment"
        names = self._roster.names
        read = partial(group_keys_from_bytes, clients=names)
        keys = [key for client, body in results.items() for key in read_or_reject(client, read, body)]
        tasks = {
            client: client_layout_to_bytes(layout, [key for key in keys if key.recipient == client])
            for client, layout in self._aligned.clients.items()
        }
        return PhaseRequest(LAYOUT, tasks)

    def _add_up(self, phase: str, results: Mapping[ClientId, bytes], following: str) -> PhaseRequest:
        """Takes the answers in a phase after which all parties contribute once more, and adds up what is in them."""
        assert self._aligned is not None, "layouts follow the alignment"
        bodies, given = opened_results(results)
        layout, key = self._aligned.federation, run_key(self._config, self._ceremony.public_key)
        read = read_preparations(following, bodies, config=self._config, layout=layout, key=key)
        self._put_on_record(phase, given, read.values())
        return PhaseRequest(following, preparation_tasks(following, read, self._records[-1]))

    def _compare_labels(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | SetupDone:
        assert self._aligned is not None, "layouts follow the alignment"
        bodies, given = opened_results(results)
        key = run_key(self._config, self._ceremony.public_key)
        read = read_layout_results(bodies, layout=self._aligned.federation, key=key)
        self._put_on_record(phase, given, read.values())
        self._preparations = {client: result.preparation for client, result in read.items()}
        tasks = label_tasks(read, self._records[-1])
        return PhaseRequest(LABELS, tasks) if tasks else self._done()

    def _put_on_record(self, phase: str, given: GivenByAll, results: Collection[LayoutResult]) -> None:
        assert self._aligned is not None, "layouts follow the alignment"
        seed = None
        if phase == LAYOUT:
            seed = agreed_seed([result.seed for result in results], configured=self._config.seed)
        layout = self._aligned.federation
        self._records.append(setup_record(given, phase, attempt=self._attempt, layout=layout, seed=seed))

    def _done(self) -> SetupDone:
        assert self._aligned is not None, "layouts follow the alignment"
        layout = self._aligned.federation
        key = run_key(self._config, self._ceremony.public_key)
        settings = self._config.algorithm_settings()
        half = ALGORITHMS[settings.family.name][self._config.algorithm]
        algorithm = half(settings, layout=layout, key=key, preparations=self._preparations, records=self._records)
        if key.public is not None:
            log.info(
                "the run's key: Paillier (%s), %d bits, %d slots, fingerprint %s, made by %s, known to %s",
                self._config.key.kind,
                key.bits,
                layout.slots,
                key.public.fingerprint.hex(),
                self._roster.key_holder.name,
                ", ".join(self._roster.names),
            )
        elif key.masked:
            log.info("the run's vectors are masked; blocks of %d values; the server has no key", layout.slots)
        else:
            log.warning("PLAINTEXT: this run is a benchmark; nothing in it is encrypted")
        record = SetupRecord(
            public_key=self._ceremony.public_key,
            layout=federation_layout_to_bytes(layout),
            key_fingerprint=None if key.public is None else key.public.fingerprint.hex(),
            key_bits=None if key.public is None else key.bits,
        )
        return SetupDone(record, algorithm.snapshot(), self._warnings)
