"""A party at work: answers every task of a run from its own data, key and state.

What it keeps in its state folder, readable by its owner alone: `RUN.run` with the run's key, terms and layout while the
run lasts, so that a restarted process can rejoin; `RUN.model.npz` with its part of the model after the end;
`RUN.release`, what the server got of it, where the roster releases the model to the server; and `RUN.ledger.json`, how
many values of which kind it sent and got.
"""

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms import ALGORITHMS
from fenchel_client.algorithms.base import AlgorithmClient, KnowsModel
from fenchel_client.alignment import arrange
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.timed import Stopwatch, TimedCipher
from fenchel_client.ledger import SUFFIX, PartyLedger
from fenchel_client.memory import peak_memory_bytes
from fenchel_client.privatefiles import read_private, write_private
from fenchel_client.release import check_rows, released_weights
from fenchel_client.session import Task
from fenchel_client.setup import Consent, SetupClient
from fenchel_common.algorithms.averaging import AveragingSettings
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, KeyFileError, Refusal, ValueOutOfRange
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.layout import ClientLayout
from fenchel_common.leakage import Direction
from fenchel_common.release import ReleaseNoise
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, INTRODUCE, LAYOUT, ModelPart, RunSecrets, Spent
from fenchel_common.wire.alignment import client_layout_from_bytes
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.limits import Extent, finish_task_limit, layout_task_limit, round_limits, setup_limits
from fenchel_common.wire.setup import (
    model_part_from_bytes,
    model_release_to_bytes,
    party_run_from_bytes,
    party_run_to_bytes,
    phase_result_to_bytes,
)

ROUNDS_AHEAD = 2
"""How many rounds' nonces are made in idle time; more would only keep the processor busy."""

CORRECTIVE_FIGURES = 9
"""Ciphertexts that the numbers of a corrective round fill, with hinge, when all that can be is remembered."""

OUTGROWN = "its values outgrow the encrypted vectors; columns of a smaller scale, or a larger lambda, would fit"

RUN_SUFFIX = ".run"
RELEASE_SUFFIX = ".release"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run whose set-up is over, as far as this party is concerned."""

    run: RunId
    config: RunConfig
    settings: AlgorithmSettings
    layout: ClientLayout
    algorithm: AlgorithmClient
    pool: ObfuscatorPool | None
    noise: ReleaseNoise | None

    def opening(self) -> bytes:
        return self._bounded(self.algorithm.opening)

    def answer(self, phase: str, body: bytes) -> bytes:
        return self._bounded(lambda: self.algorithm.answer(phase, body))

    def _bounded(self, work: Callable[[], bytes]) -> bytes:
        """The result, unless its values are too large for the vectors, or the rows too long for the noise."""
        try:
            result = work()
        except ValueOutOfRange as error:
            raise Refusal(str(error), public_reason=OUTGROWN) from error
        if self.noise is not None:
            check_rows(self.algorithm, self.noise)
        return result


class Party:
    """One organisation's side of a federation."""

    def __init__(self, kit: Kit, shard: Shard, *, state: Path, consent: Consent | None = None) -> None:
        self._kit = kit
        self._shard = arrange(shard)
        self._state = state
        self._consent = consent or Consent()
        self._releases = kit.roster.release_model_to_server
        self._stopwatch = Stopwatch()
        self._setup: SetupClient | None = None
        self._active: ActiveRun | None = None
        self._ledger: PartyLedger | None = None
        state.mkdir(mode=0o700, parents=True, exist_ok=True)

    def handle(self, task: Task) -> bytes:
        """The result of a task, with what was spent on it."""
        watch, before = self._stopwatch, replace(self._stopwatch)
        began = time.perf_counter()
        body = self._counted_answer(task)
        total_s = time.perf_counter() - began
        encrypt_s, decrypt_s = watch.encrypt_s - before.encrypt_s, watch.decrypt_s - before.decrypt_s
        serialise_s = watch.serialise_s - before.serialise_s
        spent = Spent(
            encrypt_s=encrypt_s,
            decrypt_s=decrypt_s,
            compute_s=max(total_s - encrypt_s - decrypt_s - serialise_s, 0.0),
            serialise_s=serialise_s,
            peak_memory_bytes=peak_memory_bytes(),
        )
        return phase_result_to_bytes(body, spent)

    def idle(self) -> AbstractContextManager[object]:
        """While it lasts, nonces for later are made; what was counted is on file when it begins."""
        if self._ledger is not None:
            self._ledger.save()
        pool = None if self._active is None else self._active.pool
        return nullcontext() if pool is None else pool.idle()

    def task_limit(self, key: TaskKey) -> int:
        """The most bytes of a task, from what this party knows; `Refusal` if it knows nothing of the run."""
        samples, features = len(self._shard.ids), len(self._shard.features)
        parties = len(self._kit.roster.parties)
        try:
            if key.round == 0 and key.phase == LAYOUT:
                setup = self._setup
                overlapping = setup is None or setup.config is None or setup.config.overlap == "first"
                return layout_task_limit(samples=samples, features=features, parties=parties, overlapping=overlapping)
            if key.round == 0:
                return setup_limits(key.phase, parties=parties).task
            active = self._active
            if active is not None and active.run == key.run:
                config, layout = active.config, active.layout
            elif key.phase == FINISH and not self._file(key.run, RUN_SUFFIX).exists():
                return finish_task_limit(features=features)
            else:
                config, _, kept = self._kept(key.run)
                layout = client_layout_from_bytes(kept, samples=samples, features=features)
            extent = Extent.of_client(layout, key_bits=config.key.bits)
            return round_limits(key.phase, extent, config.algorithm_settings()).task
        except InvalidInput as error:
            raise Refusal(str(error), public_reason="this task belongs to no phase of a run") from error

    def _counted_answer(self, task: Task) -> bytes:
        """Answers, and puts on record what is in the task and in the result."""
        settings = self._settings_of(task)
        if settings is None and (task.round > 0 or task.phase == LAYOUT):
            # This process does not know the run, and cannot read the task; the answer says so.
            return self._answer(task)
        if self._ledger is None or self._ledger.run != task.run:
            self._ledger = PartyLedger(self._file(task.run, SUFFIX), party=self._kit.client_id, run=task.run)
        ledger = self._ledger
        with self._stopwatch.serialising():
            ledger.count(Direction.DOWN, task.phase, task.body, settings)
        body = self._answer(task)
        with self._stopwatch.serialising():
            ledger.count(Direction.UP, task.phase, body, settings)
        if task.phase == FINISH:
            ledger.save()
        return body

    def _settings_of(self, task: Task) -> AlgorithmSettings | None:
        if task.round > 0:
            try:
                return self._running(task.run).settings
            except Refusal:
                return None
        setup = self._setup
        if setup is None or setup.run != task.run or setup.config is None:
            return None
        return setup.config.algorithm_settings()

    def _answer(self, task: Task) -> bytes:
        if task.round > 0:
            if task.phase == FINISH:
                return self._finish(task)
            return self._running(task.run).answer(task.phase, task.body)
        if task.phase == INTRODUCE or self._setup is None or self._setup.run != task.run:
            self._setup = SetupClient(self._kit, self._shard, task.run, self._consent)
        if task.phase == LAYOUT:
            return self._begin(self._setup, task.body)
        return self._setup.answer(task.phase, task.body)

    def _begin(self, setup: SetupClient, layout: bytes) -> bytes:
        """The set-up is complete: keeps what a restart needs, and gives the algorithm's opening."""
        if setup.config is None or setup.secrets is None:
            raise Refusal("the layout came before the key", public_reason="it restarted during the set-up")
        self._active = self._activate(setup.run, setup.config, setup.secrets, layout)
        write_private(self._file(setup.run, RUN_SUFFIX), party_run_to_bytes(setup.config, setup.secrets, layout))
        return self._active.opening()

    def _running(self, run: RunId) -> ActiveRun:
        if self._active is None or self._active.run != run:
            self._active = self._activate(run, *self._kept(run))
        return self._active

    def _kept(self, run: RunId) -> tuple[RunConfig, RunSecrets, bytes]:
        """What this party kept of a run: terms, secrets and layout."""
        try:
            return party_run_from_bytes(read_private(self._file(run, RUN_SUFFIX)))
        except KeyFileError as error:
            raise Refusal(str(error), public_reason="it does not have the key of this run") from error

    def _activate(self, run: RunId, config: RunConfig, secrets: RunSecrets, layout: bytes) -> ActiveRun:
        shard = self._shard
        held = client_layout_from_bytes(layout, samples=len(shard.ids), features=len(shard.features))
        cipher: Cipher = PlainCipher(config.key.bits)
        key: PublicKey | int = config.key.bits
        pool = None
        if secrets.private_key:
            private = private_key_from_bytes(secrets.private_key)
            log.info("run %s: %r, %d slots", run, private, held.slots)
            if private.kind is KeyKind.SUBGROUP:
                log.warning("%s", SUBGROUP_ASSUMPTION)
            pool = ObfuscatorPool(private, capacity=ROUNDS_AHEAD * self._nonces_a_round(config, held))
            cipher, key = PaillierCipher(private, pool), private.public_key
        settings = config.algorithm_settings()
        try:
            noise = config.release_noise(held.sample_count) if self._releases else None
            algorithm = ALGORITHMS[config.algorithm](
                settings,
                layout=held,
                shard=self._shard,
                cipher=TimedCipher(cipher, self._stopwatch),
                key=key,
                serialising=self._stopwatch.serialising,
            )
        except InvalidInput as error:
            raise Refusal(str(error), public_reason="its data do not fit this run") from error
        return ActiveRun(run, config, settings, held, algorithm, pool, noise)

    def _nonces_a_round(self, config: RunConfig, layout: ClientLayout) -> int:
        """How many ciphertexts this party makes in a usual round."""
        settings = config.algorithm_settings()
        if isinstance(settings, AveragingSettings):
            blocks = math.ceil(len(self._shard.features) * settings.width / layout.slots)
            return len(settings.vectors.returned) * blocks
        assert isinstance(settings, HyfdcaSettings), "the two kinds of algorithms"
        sealed = settings.privacy == "sealed"
        if settings.local == "corrective":
            # By sample: products of point and vertex, the new point, α. By feature: point, vertex, two models. Figures.
            return 4 * len(layout.block_ids) + sealed * (4 * len(layout.feature_blocks) + CORRECTIVE_FIGURES)
        return 2 * len(layout.block_ids) + sealed * (len(layout.feature_blocks) + 1)

    def _finish(self, task: Task) -> bytes:
        given = self._file(task.run, RELEASE_SUFFIX)
        if given.exists():
            # Told again: the same answer, for noise that is drawn twice can be averaged away.
            release = read_private(given)
        elif release := self._keep_model(task):
            write_private(given, release)
        # The key belongs to this run alone, and the run is over.
        self._file(task.run, RUN_SUFFIX).unlink(missing_ok=True)
        self._active = None
        return release

    def _keep_model(self, task: Task) -> bytes:
        """Keeps this party's part of the model, and gives what the server gets of it."""
        features = sorted(self._shard.features)
        part = model_part_from_bytes(task.body, features=len(features))
        weights = part.weights
        if part.state:
            algorithm = self._running(task.run).algorithm
            if not isinstance(algorithm, KnowsModel):
                raise InvalidInput("state: this algorithm gets its weights from the server")
            weights = algorithm.final_model(part.state)
        primal, dual, gap = (np.nan if value is None else value for value in (part.primal, part.dual, part.gap))
        path = self._state / f"{task.run}.model.npz"
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, features=np.array(features), weights=weights, primal=primal, dual=dual, gap=gap)
        temporary.replace(path)
        return self._release(task.run, part, weights)

    def _release(self, run: RunId, part: ModelPart, weights: NDArray[np.float64]) -> bytes:
        """What the server gets of the model: nothing, unless this party's own roster says otherwise."""
        if not self._releases:
            return b""
        active = self._running(run)
        if active.noise is not None:
            check_rows(active.algorithm, active.noise)
        given = released_weights(weights, part, layout=active.layout, noise=active.noise)
        exact = "exact" if active.noise is None else f"with noise of standard deviation {active.noise.sigma:.3g}"
        log.info("run %s: %d weights go to the server, %s, as the roster has it", run, len(given), exact)
        return model_release_to_bytes(given)

    def _file(self, run: RunId, suffix: str) -> Path:
        if not run or Path(run).name != run:
            raise InvalidInput("run: not usable as a file name")
        return self._state / f"{run}{suffix}"
