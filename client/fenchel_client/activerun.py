"""A run whose set-up is over at this party."""

import logging
from dataclasses import dataclass
from typing import Final

from fenchel_client.algorithms import ALGORITHMS
from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.alignment import columns_by_pseudonym
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.timed import Stopwatch, TimedCipher
from fenchel_client.release import check_rows
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import RunId
from fenchel_common.release import ReleaseNoise
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PartyRun, RunSecrets
from fenchel_common.wire.limits import Extent

ROUNDS_AHEAD: Final = 2
"""Nonces for so many rounds are made in idle time; more would only keep the processor busy."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that a party works on.

    Attributes
    ----------
    kept
        The record of the run on disk.
    extent
        The extent of the layout, by which tasks are limited.
    algorithm
        The client half of the run's algorithm.
    pool
        Nonces made ahead of time; None in a run in clear.
    """

    run: RunId
    kept: PartyRun
    settings: AlgorithmSettings
    layout: ClientLayout
    extent: Extent
    algorithm: AlgorithmClient
    cipher: Cipher
    key: RunKey
    pool: ObfuscatorPool | None
    releases: bool
    """Whether the server gets this party's part of the model at the end; from the roster when the run became active."""
    noise: ReleaseNoise | None
    opened_before: int
    """The number of vectors that this party had opened, in all its runs, when this run became active."""

    @classmethod
    def of(
        cls,
        run: RunId,
        kept: PartyRun,
        layout: ClientLayout,
        *,
        table: PartyTable,
        releases: bool,
        stopwatch: Stopwatch,
    ) -> "ActiveRun":
        """The run with a new client half; `Refusal` if the record has no key, or the data do not fit the algorithm.

        `layout` is the layout of the record, as `client_layout_of` gives it.
        """
        config = kept.config
        settings = config.algorithm_settings()
        if kept.secrets is None:
            raise Refusal("this party has deleted the run's key", public_reason="it does not have the key of this run")
        columns = columns_by_pseudonym(table.features, tag_secret=kept.secrets.tag_secret, run=run)
        layout = layout.in_columns(columns)
        plain_or_paillier, key, pool = _cipher(run, config, kept.secrets, layout)
        cipher = TimedCipher(plain_or_paillier, stopwatch)
        try:
            noise = config.release_noise(layout.sample_count) if releases else None
            algorithm = ALGORITHMS[settings.family.name][config.algorithm](
                settings,
                layout=layout,
                table=table,
                cipher=cipher,
                key=key,
                serialising=stopwatch.serialising,
            )
        except InvalidInput as error:
            raise DataUnfit(str(error), public_reason="its data do not fit this run") from error
        return cls(
            run=run,
            kept=kept,
            settings=settings,
            layout=layout,
            extent=Extent.of_client(layout, key_bits=config.key.bits),
            algorithm=algorithm,
            cipher=cipher,
            key=key,
            pool=pool,
            releases=releases,
            noise=noise,
            opened_before=stopwatch.opened,
        )

    def check_rows(self) -> None:
        """Raises `Refusal` if a row is known to be longer than the noise on the released model allows for."""
        if self.noise is not None:
            check_rows(self.algorithm, self.noise)


def _cipher(
    run: RunId, config: RunConfig, secrets: RunSecrets, layout: ClientLayout
) -> tuple[Cipher, RunKey, ObfuscatorPool | None]:
    """The cipher, key and nonces of a run. The terms alone say whether it is encrypted, never the absence of a key."""
    if not config.privacy.encrypts_samples:
        return PlainCipher(config.key.bits), RunKey.in_clear(config.key.bits), None
    private = private_key_from_bytes(secrets.private_key)
    log.info("run %s: %r, %d slots", run, private, layout.slots)
    if private.kind is KeyKind.SUBGROUP:
        log.warning("%s", SUBGROUP_ASSUMPTION)
    settings = config.algorithm_settings()
    pool = ObfuscatorPool(private, capacity=ROUNDS_AHEAD * settings.family.ciphertexts(settings, layout))
    return PaillierCipher(private, pool), RunKey.of(private.public_key), pool
