"""A party at work: answers every task of a run from its own data, key and state.

What it keeps in its state folder, readable by its owner alone: `RUN.run` with the run's key, terms and layout while the
run lasts, so that a restarted process can rejoin, and `RUN.model.npz` with its part of the model after the end.
"""

import logging
import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fenchel_client.algorithms import ALGORITHMS
from fenchel_client.algorithms.base import AlgorithmClient, KnowsModel
from fenchel_client.alignment import arrange
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.timed import Stopwatch, TimedCipher
from fenchel_client.memory import peak_memory_bytes
from fenchel_client.privatefiles import read_private, write_private
from fenchel_client.session import Task
from fenchel_client.setup import Consent, SetupClient
from fenchel_common.algorithms.averaging import AveragingSettings
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, KeyFileError, Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.layout import ClientLayout
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH, INTRODUCE, LAYOUT, RunSecrets, Spent
from fenchel_common.wire.alignment import client_layout_from_bytes
from fenchel_common.wire.setup import (
    model_part_from_bytes,
    party_run_from_bytes,
    party_run_to_bytes,
    phase_result_to_bytes,
)

NONCES_PER_BLOCK = 2
"""What HyFDCA takes at most in a round: one for the inner products of a block, one for the changes of its duals."""
ROUNDS_AHEAD = 2
"""How many rounds' nonces are made in idle time; more would only keep the processor busy."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run whose set-up is over, as far as this party is concerned."""

    run: RunId
    algorithm: AlgorithmClient
    pool: ObfuscatorPool | None


class Party:
    """One organisation's side of a federation."""

    def __init__(self, kit: Kit, shard: Shard, *, state: Path, consent: Consent | None = None) -> None:
        self._kit = kit
        self._shard = arrange(shard)
        self._state = state
        self._consent = consent or Consent()
        self._stopwatch = Stopwatch()
        self._setup: SetupClient | None = None
        self._active: ActiveRun | None = None
        state.mkdir(mode=0o700, parents=True, exist_ok=True)

    def handle(self, task: Task) -> bytes:
        """The result of a task, with what was spent on it."""
        watch, before = self._stopwatch, replace(self._stopwatch)
        began = time.perf_counter()
        body = self._answer(task)
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
        """While it lasts, nonces for later are made."""
        pool = None if self._active is None else self._active.pool
        return nullcontext() if pool is None else pool.idle()

    def _answer(self, task: Task) -> bytes:
        if task.round > 0:
            if task.phase == FINISH:
                return self._finish(task)
            return self._running(task.run).algorithm.answer(task.phase, task.body)
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
        write_private(self._run_file(setup.run), party_run_to_bytes(setup.config, setup.secrets, layout))
        return self._active.algorithm.opening()

    def _running(self, run: RunId) -> ActiveRun:
        if self._active is None or self._active.run != run:
            path = self._run_file(run)
            try:
                config, secrets, layout = party_run_from_bytes(read_private(path))
            except KeyFileError as error:
                raise Refusal(str(error), public_reason="it does not have the key of this run") from error
            self._active = self._activate(run, config, secrets, layout)
        return self._active

    def _activate(self, run: RunId, config: RunConfig, secrets: RunSecrets, layout: bytes) -> ActiveRun:
        held = client_layout_from_bytes(layout)
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
        try:
            algorithm = ALGORITHMS[config.algorithm](
                config.algorithm_settings(),
                layout=held,
                shard=self._shard,
                cipher=TimedCipher(cipher, self._stopwatch),
                key=key,
                serialising=self._stopwatch.serialising,
            )
        except InvalidInput as error:
            raise Refusal(str(error), public_reason="its data do not fit this run") from error
        return ActiveRun(run, algorithm, pool)

    def _nonces_a_round(self, config: RunConfig, layout: ClientLayout) -> int:
        """How many ciphertexts this party makes in a usual round."""
        settings = config.algorithm_settings()
        if isinstance(settings, AveragingSettings):
            blocks = math.ceil(len(self._shard.features) * settings.width / layout.slots)
            return len(settings.vectors.returned) * blocks
        return NONCES_PER_BLOCK * len(layout.block_ids)

    def _finish(self, task: Task) -> bytes:
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
        # The key belongs to this run alone, and the run is over.
        self._run_file(task.run).unlink(missing_ok=True)
        self._active = None
        return b""

    def _run_file(self, run: RunId) -> Path:
        if not run or Path(run).name != run:
            raise InvalidInput("run: not usable as a file name")
        return self._state / f"{run}.run"
