"""The messages and the snapshot of a scoring run, as they are in a small one with masks."""

from dataclasses import replace

import numpy as np

from fenchel.v1 import scoring_pb2 as pb
from fenchel_client.algorithms.scoring.client import ScoringClient
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy
from fenchel_common.wire import scoring as wire
from fenchel_common.wire.records import round_task_from_bytes
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.scoring.server import ScoringServer
from fuzz.decoder import Decoder
from support.halves import Halves
from support.keys import MASKS
from support.problems import problem

ASKER = ClientId("party-00")


def scoring_decoders() -> list[Decoder]:
    shards = partition(problem(rows=40, columns=6).data, grid=(1, 2))
    tables = [replace(shard, y=None if number else np.ones(len(shard.ids))) for number, shard in enumerate(shards)]
    settings = ScoringSettings.parse({"asker": ASKER, "model": "run-1"})
    run: Halves[ScoringClient, ScoringServer] = Halves(
        tables, settings, client_half=ScoringClient, server_half=ScoringServer, key=MASKS
    )
    run.round()
    scope = Scope.of_client(run.alignment.clients[ASKER], key=MASKS, privacy=Privacy.SEALED)
    results = [answer for *_, answer in run.messages]
    sums = round_task_from_bytes(run.server.last_state(ASKER))[2]
    snapshot = run.server.snapshot().own
    return [
        Decoder(
            "scoring.scoring_task_from_bytes",
            wire.scoring_task_from_bytes,
            (wire.scoring_task_to_bytes(),),
            (wire.scoring_task_from_bytes,),
            pb.ScoringTask,
        ),
        Decoder(
            "scoring.scoring_result_from_bytes",
            lambda data: wire.scoring_result_from_bytes(data, scope),
            tuple(results),
            (wire.scoring_result_from_bytes,),
            pb.ScoringResult,
        ),
        Decoder(
            "scoring.scoring_sums_from_bytes",
            lambda data: wire.scoring_sums_from_bytes(data, scope),
            (sums,),
            (wire.scoring_sums_from_bytes,),
            pb.ScoringSums,
        ),
        Decoder(
            "scoring.scoring_snapshot_from_bytes",
            lambda data: wire.scoring_snapshot_from_bytes(data, MASKS),
            (snapshot,),
            (wire.scoring_snapshot_from_bytes,),
            pb.ScoringSnapshot,
        ),
    ]
