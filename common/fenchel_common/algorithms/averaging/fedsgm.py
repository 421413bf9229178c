"""FedSGM's settings: minimise f subject to g ≤ ε, both means over the clients (Algorithm 1 of the paper's appendix).

In a round the clients report g_j(w_t), the server tells σ = σ_β(g(w_t) − ε), and every client takes E steps along (1 −
σ)∇f_j + σ∇g_j and returns its compressed change. The model is the average of the w_t with the weights 1 − σ: over the
feasible rounds with hard switching, as Theorems 6 and 7 define it; before the first feasible round it is w_t itself.
"""

import math
from typing import ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, check_number, check_repeated
from fenchel_common.algorithms.averaging.compression import Lanes, random_coordinates
from fenchel_common.algorithms.averaging.rails import MODEL, Positions, Vectors
from fenchel_common.algorithms.averaging.settings import MEASUREMENT_LEAKS, AveragingSettings
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RoundId

ITERATE = "iterate"
UPDATE = "update"
RESIDUAL = "residual"
ITERATE_WEIGHT: Final = "share"
"""Told: the weight of w_t in the average of the iterates so far, 1 before the first feasible round."""

SWITCH: Final = "switch"
"""Told: σ."""
QUANTUM: Final = "quantum"
LIMIT: Final = "limit"
LANE_BITS: Final = "lane_bits"
"""Told, with quantised updates: the step, the largest level and the bits of a lane."""

HEADROOM: Final = 4
"""The mean of a client's directions may be so many times its first direction before quantising cuts it."""
COORDINATE_STREAM: Final = 0x5347

Compression = Literal["none", "rand_k", "top_k", "quantised"]


class FedsgmSettings(AveragingSettings):
    """Settings of a FedSGM run, checked."""

    profile: ClassVar[Profile] = Profile(
        summary="FedSGM: an objective under a constraint, by switching gradients; local steps, compressed uplinks",
        partitions=("horizontal",),
        losses=("logistic", "smoothed_hinge", "hinge"),
        encrypted=("each party's compressed update", "the model", "what compression has left out"),
        visible={
            "each party's objective and constraint values": "in clear, every round",
            "largest entries of each party's two gradients": "in clear, every round, with compression = quantised",
            "which coordinates each party would most like to send": "in clear, every round, with compression = top_k",
        }
        | MEASUREMENT_LEAKS,
    )

    loss: str = Field(default="logistic", description="The loss of a sample.")
    lambda_: float = Field(
        default=0.0, alias="lambda", ge=0.0, le=1e12, description="Weight of λ/2·‖w‖² in the objective."
    )
    measure_every: int = Field(default=1, ge=0, description="Rounds between two measurements; 0: at the end only.")
    constraint: str = Field(
        default="neyman_pearson",
        description="neyman_pearson (the loss on one class), l1_norm, or a function that every party has installed "
        "under this name in the entry point group fenchel.constraints.",
    )
    constrained_label: Literal[-1, 1] = Field(
        default=1, description="neyman_pearson: the class whose loss is bounded; the other one's is minimised."
    )
    tolerance: PositiveFloat = Field(default=0.1, description="ε: the constraint is g ≤ ε.")
    switching: Literal["soft", "hard"] = Field(
        default="soft", description="σ(z) is min{1, [1 + βz]₊} (soft) or 1 for z > 0 and else 0 (hard)."
    )
    sharpness: PositiveFloat | None = Field(default=None, description="β of soft switching; 2/ε if not given.")
    local_steps: int = Field(default=5, ge=1, le=1_000_000, description="E: gradient steps of a client in a round.")
    step: PositiveFloat = Field(default=5.0, description="η: the size of a step.")
    compression: Compression = Field(default="none", description="Of the uplink: none, rand_k, top_k or quantised.")
    k: int = Field(default=16, ge=1, le=4096, description="rand_k, top_k: the number of coordinates that are sent.")
    coordinates: Literal["shared", "own"] = Field(
        default="shared",
        description="rand_k: all parties send the same coordinates, or each draws its own. With its own a party's "
        "compression errors average out, but every coordinate travels: as many ciphertexts as without compression.",
    )
    levels: int = Field(default=15, ge=1, le=32767, description="quantised: levels between 0 and a party's gradient.")
    error_memory: Literal["server", "client"] = Field(
        default="server",
        description="top_k: who keeps the values left out. The server keeps them encrypted, also for a party that "
        "restarts; a party that keeps them itself saves the uplink and loses them when it restarts.",
    )

    @model_validator(mode="after")
    def _sharp_enough(self) -> Self:
        if self.coordinates == "own" and self.compression != "rand_k":
            raise ValueError("coordinates: own is for compression = 'rand_k'; leave it out")
        if self.sharpness is not None and self.sharpness * self.tolerance < 2.0:
            raise ValueError(f"sharpness: Theorem 2 needs at least 2/ε, which is {2.0 / self.tolerance:g}")
        return self

    @property
    def beta(self) -> float:
        return 2.0 / self.tolerance if self.sharpness is None else self.sharpness

    @property
    def covers_all(self) -> bool:
        """Whether the sums cover all coordinates, one slot each."""
        return self.compression == "none" or self.coordinates == "own"

    @property
    def vectors(self) -> Vectors:
        quantised, top = self.compression == "quantised", self.compression == "top_k"
        return Vectors(
            state=(MODEL, ITERATE),
            summed=(UPDATE,),
            kept=(RESIDUAL,) if top and self.error_memory == "server" else (),
            surveyed=("objective", "constraint", *(("objective_reach", "constraint_reach") if quantised else ())),
            reported=self.votes if top else (),
        )

    def drawn_coordinates(self, round_id: RoundId, length: int) -> Positions:
        """K of `length` coordinates, drawn from the seed: those of Rand-K, and of Top-K before anybody has voted."""
        rng = np.random.default_rng([self.seed, round_id, COORDINATE_STREAM])
        return random_coordinates(length, self.k, rng)

    def lanes(self, told: Numbers) -> Lanes:
        """The lanes of a quantised update."""
        return Lanes(step=told[QUANTUM], limit=int(told[LIMIT]), bits=int(told[LANE_BITS]))

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """Top-K takes the coordinates that the parties' votes name; a party can check their number alone."""
        plan.check_equal_weights()
        check_number(plan.told, SWITCH, least=0.0, most=1.0)
        if self.compression == "quantised":
            lanes = Lanes.of(reach=1.0, levels=self.levels, headroom=HEADROOM, clients=occasion.clients)
            check_number(plan.told, QUANTUM, least=math.ulp(0.0), most=math.inf)
            check_number(plan.told, LIMIT, least=lanes.limit, most=lanes.limit)
            check_number(plan.told, LANE_BITS, least=lanes.bits, most=lanes.bits)
        given = plan.coordinates
        if self.covers_all:
            fitting = given is None
        elif given is None or self.compression == "top_k":
            fitting = given is not None and len(given) == self.k
        else:
            fitting = np.array_equal(given, self._public_coordinates(plan.told, occasion))
        if not fitting:
            raise InvalidInput("plan.coordinates: are not those of the compression")

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        del occasion
        check_repeated(told, plan)
        check_number(told, ITERATE_WEIGHT, least=0.0, most=1.0)

    def _public_coordinates(self, told: Numbers, occasion: Occasion) -> Positions:
        if self.compression == "rand_k":
            return self.drawn_coordinates(occasion.round_id, occasion.length)
        return np.arange(self.lanes(told).slots(occasion.length))

    @property
    def votes(self) -> tuple[str, ...]:
        """The names under which a client reports the coordinates that it would like to send, the most wanted first."""
        return tuple(f"wanted_{position}" for position in range(self.k))
