"""`fenchel up`: a training by containers, over a network as long as asked for."""

import secrets
from dataclasses import dataclass, field

from fenchel_deploy.containers.engine import Engine
from fenchel_deploy.containers.federation import FederationPlan, container_federation
from fenchel_deploy.containers.wan import Wan
from fenchel_deploy.training import Report, Tell, Training, TrainingOptions


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the containers are made: from which image, over which network, and whether they stay."""

    image: str = "fenchel"
    wan: Wan = field(default_factory=Wan)
    keep: bool = False


def run_up(options: TrainingOptions, deployment: Deployment, *, tell: Tell) -> Report:
    """Runs the federation, removes it, and returns the figures; `tell` gets the events as they come."""

    def stage(text: str) -> None:
        tell({"event": "stage", "stage": text})

    engine = Engine.connect(deployment.image)
    stage("solving the centralized problem, to compare with")
    training = Training.prepare(options)
    name = f"fenchel-{secrets.token_hex(3)}"
    config = training.config(name)
    engine.ensure_image(stage)
    plan = FederationPlan(name, training.shards, config, deployment.wan)
    with container_federation(engine, plan, keep=deployment.keep) as federation:
        stage(f"{name}: making volumes and networks, starting the server")
        federation.start()
        stage(f"{name}: measuring the round trip")
        rtt_s = federation.round_trip_s()
        stage(f"{name}: starting {len(training.shards)} parties")
        federation.start_parties()
        report = training.follow(federation, tell)
    return report | {"federation": name, "wan": deployment.wan.report(report, measured_rtt_s=rtt_s)}
