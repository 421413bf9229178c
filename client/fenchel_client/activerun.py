"""A run whose set-up is over at this party."""

import logging
from dataclasses import dataclass
from typing import Final

from fenchel_client.algorithms import ALGORITHMS
from fenchel_client.alignment import columns_by_pseudonym
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.derivedkeys import confirmations_key, pads_key, seed_of, weights_key
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_client.crypto.timed import Stopwatch, TimedCipher
from fenchel_client.participant import Participant
from fenchel_client.release import check_rows
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Transcript
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import Tagger
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
    participant
        The client half of the run's algorithm, with the records of the run.
    pool
        Nonces made ahead of time; None in a run in clear.
    """

    run: RunId
    kept: PartyRun
    settings: AlgorithmSettings
    layout: ClientLayout
    extent: Extent
    participant: Participant
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
        attempt: int = 0,
    ) -> "ActiveRun":
        """The run with a new client half; `Refusal` if the record has no key, or the data do not fit the algorithm.

        `layout` is the layout of the record, as `client_layout_of` gives it; `attempt` is that of the set-up, while it
        is under way.
        """
        config = kept.config
        if kept.secrets is None:
            raise Refusal("this party has deleted the run's key", public_reason="it does not have the key of this run")
        tag_secret = kept.secrets.tag_secret
        seed = seed_of(tag_secret, run, kept.view) if config.seed is None else config.seed
        settings = config.algorithm_settings().model_copy(update={"seed": seed})
        layout = layout.in_columns(columns_by_pseudonym(table.features, tag_secret=tag_secret, run=run))
        plain_or_paillier, key, pool = _cipher(run, config, kept.secrets, layout)
        cipher = TimedCipher(plain_or_paillier, stopwatch)
        seal = Seal(Pads(pads_key(tag_secret, run)))
        try:
            noise = config.release_noise(layout.sample_count) if releases else None
            algorithm = ALGORITHMS[settings.family.name][config.algorithm](
                settings,
                layout=layout,
                table=table,
                cipher=cipher,
                key=key,
                seal=seal,
                serialising=stopwatch.serialising,
            )
        except InvalidInput as error:
            raise DataUnfit(str(error), public_reason="its data do not fit this run") from error
        transcript = Transcript(
            kept.view,
            algorithm.first_book(),
            party=layout.party,
            clients=layout.clients,
            key=confirmations_key(tag_secret, run),
            seed=seed,
            attempt=attempt,
        )
        return cls(
            run=run,
            kept=kept,
            settings=settings,
            layout=layout,
            extent=Extent.of_client(layout, key_bits=config.key.bits),
            participant=Participant(algorithm, transcript, seal),
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
            check_rows(self.participant.algorithm, self.noise)


def _cipher(
    run: RunId, config: RunConfig, secrets: RunSecrets, layout: ClientLayout
) -> tuple[Cipher, RunKey, ObfuscatorPool | None]:
    """The cipher, key and nonces of a run. The terms alone say whether it is encrypted, never the absence of a key."""
    if not config.privacy.encrypts_samples:
        return PlainCipher(config.key.bits), RunKey.in_clear(config.key.bits), None
    tagger = Tagger(weights_key(secrets.tag_secret, run), slots=layout.slots)
    private = private_key_from_bytes(secrets.private_key)
    log.info("run %s: %r, %d slots", run, private, layout.slots)
    if private.kind is KeyKind.SUBGROUP:
        log.warning("%s", SUBGROUP_ASSUMPTION)
    settings = config.algorithm_settings()
    pool = ObfuscatorPool(private, capacity=ROUNDS_AHEAD * settings.family.ciphertexts(settings, layout))
    return PaillierCipher(private, pool, tagger), RunKey.of(private.public_key), pool
