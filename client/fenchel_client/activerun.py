"""A run whose set-up is over at this party."""

from dataclasses import dataclass, replace

from fenchel_client.alignment import columns_by_pseudonym
from fenchel_client.clienthalf import client_half
from fenchel_client.crypto.derivedkeys import seed_of
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.timed import Stopwatch, TimedCipher
from fenchel_client.participant import Participant
from fenchel_client.preparedtable import table_of_run
from fenchel_client.release import check_rows
from fenchel_client.runcipher import run_cipher
from fenchel_client.table import PartyTable
from fenchel_client.task import Cluster
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import RunId
from fenchel_common.release import ReleaseNoise
from fenchel_common.setup import PartyRun
from fenchel_common.wire.limits import Extent


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that a party works on.

    Attributes
    ----------
    kept
        The record of the run on disk.
    table
        The party's table, with the features of the run, as they are before the run prepares them.
    extent
        The extent of the layout, by which tasks are limited.
    participant
        The client half of the run's algorithm, with the records of the run.
    pool
        Nonces made ahead of time; None in a run in clear, and where a cluster makes them.
    """

    run: RunId
    kept: PartyRun
    settings: AlgorithmSettings
    layout: ClientLayout
    table: PartyTable
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
        cluster: Cluster | None = None,
    ) -> "ActiveRun":
        """The run with a new client half; `Refusal` if the record has no key, or the data do not fit the algorithm.

        `table` has the party's own features, `layout` is the layout of the record, as `client_layout_of` gives it, and
        `attempt` is that of the set-up, while it is under way. Workers of `cluster` encrypt and decrypt.
        """
        config = kept.config
        if kept.secrets is None:
            raise Refusal("this party has deleted the run's key", public_reason="it does not have the key of this run")
        tag_secret = kept.secrets.tag_secret
        seed = seed_of(tag_secret, run, kept.view) if config.seed is None else config.seed
        settings = config.algorithm_settings().model_copy(update={"seed": seed})
        layout = layout.in_columns(columns_by_pseudonym(table.features, tag_secret=tag_secret, run=run))
        prepared = table_of_run(table, settings.label_rules, scaling=kept.scaling, labels=kept.labels)
        untimed, key, pool = run_cipher(run, kept, kept.secrets, layout, cluster)
        cipher = TimedCipher(untimed, stopwatch)
        try:
            noise = config.release_noise(layout.sample_count) if releases else None
            participant = Participant.of(
                client_half(
                    config, settings, layout=layout, table=prepared, cipher=cipher, key=key, stopwatch=stopwatch
                ),
                layout=layout,
                tag_secret=tag_secret,
                run=run,
                view=kept.view,
                seed=seed,
                attempt=attempt,
                passed=(kept.round, kept.view_before) if kept.view_before else None,
            )
        except InvalidInput as error:
            raise DataUnfit(str(error), public_reason="its data do not fit this run") from error
        return cls(
            run=run,
            kept=kept,
            settings=settings,
            layout=layout,
            table=table,
            extent=Extent.of_client(layout, key_bits=config.key.bits),
            participant=participant,
            cipher=cipher,
            key=key,
            pool=pool,
            releases=releases,
            noise=noise,
            opened_before=stopwatch.opened,
        )

    def prepared(self, kept: PartyRun, stopwatch: Stopwatch) -> "ActiveRun":
        """The same run, once it knows how to prepare features and labels: `kept` says how.

        `InvalidInput` if the prepared data do not fit the algorithm.
        """
        make = client_half(
            kept.config,
            self.settings,
            layout=self.layout,
            table=table_of_run(self.table, self.settings.label_rules, scaling=kept.scaling, labels=kept.labels),
            cipher=self.cipher,
            key=self.key,
            stopwatch=stopwatch,
        )
        participant = replace(self.participant, algorithm=make(self.participant.seal))
        return replace(self, kept=kept, participant=participant)

    def check_rows(self) -> None:
        """Raises `Refusal` if a row is known to be longer than the noise on the released model allows for."""
        if self.noise is not None:
            check_rows(self.participant.algorithm, self.noise)
