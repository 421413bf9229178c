"""Small records for tests of the store, and a clock that tests move."""

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_server.store import AbsenceRecord, RoundRecord, SetupRecord, Store

RUN = RunId("run-1")
COSTS = {
    "encrypt_s": 0.25,
    "decrypt_s": 0.0,
    "serialise_s": 0.0,
    "compute_s": 0.0,
    "wire_s": 0.0,
    "wait_s": 1.25,
    "bytes_up": 7,
    "bytes_down": 0,
    "ciphertext_up": 4,
    "ciphertext_down": 0,
    "cpu_seconds": 0.5,
    "peak_memory_bytes": 2**20,
}


class Clock:
    """A clock that moves on by one step each time it is read."""

    def __init__(self, *, step: float = 1.0) -> None:
        self.now = 1_000.0
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


def setup_record() -> SetupRecord:
    return SetupRecord(public_key=b"n", layout=b"layout", key_fingerprint="ab:cd", key_bits=2048)


def round_record(round_id: int, *, absent: tuple[str, ...] = ()) -> RoundRecord:
    return RoundRecord(
        round_id=RoundId(round_id),
        metrics=f'{{"round": {round_id}}}',
        absences=tuple(AbsenceRecord(ClientId(client), "primal", "no result within 1 s") for client in absent),
        bytes_up=10 * round_id,
        bytes_down=20 * round_id,
        seconds={"total": 1.5, "wait": 1.0},
        clients={ClientId("north"): COSTS},
        server={"cpu_seconds": 0.125, "port_up": 12 * round_id, "port_down": 25 * round_id},
        seen=f'{{"north": {{"up": {{"HyfdcaPrimalResult.contribution": {{"individual": {round_id + 1}}}}}}}}}',
    )


def running_with_setup(store: Store, run: RunId = RUN) -> None:
    name = "trial" if run == RUN else run
    store.create_run(run, name=name, config=RunConfig.from_mapping({"name": "trial"}).to_json())
    store.begin_attempt(run)
    store.commit_setup(run, setup_record(), round_record(0), b"state 0")
