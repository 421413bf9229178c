"""`fenchel up`: a demonstration in containers, over a network with the latency that was asked for."""

import secrets
from dataclasses import dataclass, field

from fenchel_deploy.containers.engine import Engine
from fenchel_deploy.containers.federation import FederationPlan, container_federation
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions, Report
from fenchel_deploy.running import Tell
from fenchel_deploy.wan import Wan


@dataclass(frozen=True, slots=True)
class Deployment:
    """The image, the network between the containers, whether they are kept at the end, and whether a page is served."""

    image: str = "fenchel"
    wan: Wan = field(default_factory=Wan)
    keep: bool = False
    dashboard: bool = False


def run_up(options: DemonstrationOptions, deployment: Deployment, *, tell: Tell) -> Report:
    """Runs the federation, removes its containers, and returns the report; `tell` gets the events as they come."""

    def stage(text: str) -> None:
        tell({"event": "stage", "stage": text})

    engine = Engine.connect(deployment.image)
    stage("solving the centralized problem, to compare with")
    demonstration = Demonstration.prepare(options)
    name = f"fenchel-{secrets.token_hex(3)}"
    config = demonstration.config(name)
    engine.ensure_image(stage)
    plan = FederationPlan(name, demonstration.shards, config, deployment.wan)
    with container_federation(engine, plan, keep=deployment.keep) as federation:
        stage(f"{name}: making volumes and networks, starting the server")
        federation.start()
        if deployment.dashboard:
            tell(federation.start_page())
        stage(f"{name}: measuring the round trip")
        rtt_s = federation.round_trip_s()
        stage(f"{name}: starting {len(demonstration.shards)} parties")
        federation.start_parties()
        report = demonstration.compare(federation, tell)
    return report | {"federation": name, "wan": deployment.wan.report(report, measured_rtt_s=rtt_s)}
