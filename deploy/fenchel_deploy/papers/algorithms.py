"""The algorithms of the experiments: their settings as the HyFDCA paper sets them, and their federations.

hyfdca   the paper's practical variant at its level `paper`: γ = 1, no second SecureInnerProduct, steps with 1/(λN)
hyfdca_exact   the same with the exact steps, of ‖x_i‖²/(λN), and as many of them as the paper lists
fedavg   SGD with batches of one, in clear, as in the paper
hyfem    the same with the penalty μ
ours     corrective steps at the level `sealed` with masks; all parties take part
ours_some   the same with the fraction of the parties that the other algorithms have
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_deploy.inprocess.ciphers import tags_of
from fenchel_deploy.papers.definitions import SettingPlan
from fenchel_deploy.papers.metering import MeteredHalves
from fenchel_deploy.papers.problems import Problem
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES

HYFDCA: Final = "hyfdca"
EXACT: Final = "hyfdca_exact"
FEDAVG: Final = "fedavg"
HYFEM: Final = "hyfem"
OURS: Final = "ours"
OURS_SOME: Final = "ours_some"
PRACTICAL: Final = (HYFDCA, EXACT)
CORRECTIVE: Final = (OURS, OURS_SOME)
ALGORITHMS: Final = (*PRACTICAL, FEDAVG, HYFEM, *CORRECTIVE)
BASELINES: Final = (FEDAVG, HYFEM)

TITLES: Final = {
    HYFDCA: "HyFDCA (paper)",
    EXACT: "HyFDCA, exact steps",
    FEDAVG: "FedAvg",
    HYFEM: "HyFEM",
    OURS: "ours",
    OURS_SOME: "ours, some parties",
}
KEY_BITS: Final = 2048
MOST_ROUNDS: Final = 10_000_000
IIC: Final = "iic"
"""The paper's inner iterations constant: H = ⌈IIC·N/(KQ)⌉ (equation 13 of its supplement)."""


def inner_iterations(iic: float, samples: int, parties: int) -> int:
    """H of equation 13."""
    return math.ceil(iic * samples / parties)


def tuned_steps(algorithm: str, setting: SettingPlan, samples: int) -> int | None:
    """H of an algorithm in a setting of so many samples that train; None for ours, which has nothing to tune."""
    if algorithm in CORRECTIVE:
        return None
    return inner_iterations(_tuned(algorithm, setting)[IIC], samples, setting.party_count)


def settings_of(
    algorithm: str, setting: SettingPlan, problem: Problem, *, samples: int | None = None
) -> dict[str, object]:
    """The settings of an algorithm in one setting; `samples` is N where the problem has fewer than the whole."""
    common: dict[str, object] = {"loss": problem.plan.loss, "lambda": problem.plan.lambda_}
    if algorithm == OURS:
        return common
    common["participation"] = "all" if setting.fraction == 1.0 else f"fraction:{setting.fraction:g}"
    if algorithm == OURS_SOME:
        return common
    whole = len(problem.training.y) if samples is None else samples
    steps = tuned_steps(algorithm, setting, whole)
    if algorithm in PRACTICAL:
        row_norm = "unit" if algorithm == HYFDCA else "measured"
        own: dict[str, object] = {"local": "paper", "h": steps, "gamma": 1.0, "row_norm": row_norm}
        return {**common, **own, "second_inner_product": False, "certificate_every": 0}
    tuned = {name: value for name, value in _tuned(algorithm, setting).items() if name != IIC}
    floats = {name: float(value) for name, value in tuned.items()}
    return {**common, "local_steps": steps, "batch": 1, "measure_every": 0, **floats}


def parsed_settings(algorithm: str, values: Mapping[str, object], *, seed: int) -> AlgorithmSettings:
    """The settings, checked, for a run in this process."""
    level = level_of(algorithm)
    stop = {"gap": None, "rounds": MOST_ROUNDS}
    return SETTINGS[name_in_runs(algorithm)].parse({**values, "privacy": level, "seed": seed, "stop": stop})


def level_of(algorithm: str) -> Privacy:
    """The privacy level of the algorithm in the experiments."""
    return Privacy.PAPER if algorithm in PRACTICAL else Privacy.SEALED if algorithm in CORRECTIVE else Privacy.PLAIN


def name_in_runs(algorithm: str) -> str:
    """The name of the algorithm in a run's file."""
    return HYFDCA if algorithm in (*PRACTICAL, *CORRECTIVE) else algorithm


def metered(algorithm: str, shards: Sequence[Shard], problem: Problem, settings: AlgorithmSettings) -> MeteredHalves:
    """A federation in this process whose work is timed, with real ciphertexts for HyFDCA and masks for ours."""
    family = settings.family.name
    client_half = CLIENT_HALVES[family][name_in_runs(algorithm)]
    server_half = SERVER_HALVES[family][name_in_runs(algorithm)]
    options: dict[str, Any] = {"client_half": client_half, "server_half": server_half, "overlap": problem.overlap}
    if algorithm in PRACTICAL:
        cipher = paillier_cipher()
        options |= {"cipher": cipher, "key": RunKey.of(cipher.key.public_key)}
    elif algorithm in CORRECTIVE:
        options["key"] = RunKey.of_masks(KEY_BITS)
    return MeteredHalves(shards, settings, **options)


@lru_cache(maxsize=1)
def paillier_cipher() -> PaillierCipher:
    """A cipher under a key of this process; nonces are made when they are needed, and their time counts."""
    key = generate_private_key(KEY_BITS)
    slots = slot_layout(VectorFormat(slot_bits=32), KEY_BITS).slots
    tags: BlockTags = tags_of(slots)
    return PaillierCipher(key, ObfuscatorPool(key), tags)


def _tuned(algorithm: str, setting: SettingPlan) -> Mapping[str, int | float]:
    listed = HYFDCA if algorithm in PRACTICAL else algorithm
    if listed not in setting.tuned:
        raise InvalidInput(f"{setting.label}: has no hyper-parameters of {listed}; give them under `tuned`")
    return setting.tuned[listed]
