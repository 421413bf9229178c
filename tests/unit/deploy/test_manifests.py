"""The files for real deployments: they build, they name what exists, and they confine what they start."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from fenchel_client.consent import concessions_of
from fenchel_client.workers.nodesecret import VARIABLE
from fenchel_common.identity.kit import KIT_FILES
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.cli import app, load_verbs
from fenchel_deploy.federation_file import Federation
from fenchel_deploy.provision import provision

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES, SYSTEMD, COMPOSE = DEPLOY / "kubernetes", DEPLOY / "systemd", DEPLOY / "compose"
FEDERATION = """
name = "hospitals"
[server]
address = "fenchel.example.org:9092"
[[party]]
name = "north"
key_holder = true
"""
MEMBERS = {"server": "server", "client": "north"}
VERSIONS = ("1.27", "1.30", "1.33", "1.37")
"""The versions of Kubernetes whose schemas the manifests must meet."""
UNITS = {"server": "fenchel-server.service", "client": "fenchel-client@.service"}


@pytest.fixture(scope="module")
def overlays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders as an operator has them before `kubectl apply`: with kits and a run."""
    folder = tmp_path_factory.mktemp("kubernetes")
    provision(Federation.parse(FEDERATION), folder / "kits")
    for role, member in MEMBERS.items():
        shutil.copytree(KUBERNETES / role, folder / role)
        shutil.copytree(folder / "kits" / member, folder / role / "kit")
    shutil.copy(COMPOSE / "run.toml", folder / "server")
    return folder


def kustomize(folder: Path) -> list[dict[str, Any]]:
    """The manifests of a folder, as kustomize builds them."""
    commands = {"kustomize": ["build"], "kubectl": ["kustomize"]}
    found = next((program for program in commands if shutil.which(program)), None)
    if found is None:
        assert not os.environ.get("CI"), ".ci/run installs kustomize"
        pytest.skip("neither kustomize nor kubectl, which build the manifests, is installed")
    command = [found, *commands[found], str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def built(overlays: Path, role: str) -> dict[str, dict[str, Any]]:
    """The manifests of a role by kind."""
    return {manifest["kind"]: manifest for manifest in kustomize(overlays / role)}


def known_options(verb: str) -> set[str]:
    load_verbs([])
    result = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    return set(re.findall(r"--[a-z][a-z-]*", result.output))


def assert_understood(words: list[str]) -> None:
    """Every option of a command line is one that the verb has."""
    verb, *rest = words
    used = {word.split("=")[0] for word in rest if word.startswith("--")}
    assert used <= known_options(verb)


@pytest.mark.parametrize("role", MEMBERS)
def test_pods_are_confined_and_their_commands_are_understood(overlays: Path, role: str) -> None:
    pod = built(overlays, role)["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"] == ("64Mi" if container["name"] == "kit" else "2Gi")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe in container:
                assert_understood(container[probe]["exec"]["command"][1:])
    assert_understood(pod["containers"][0]["args"])


@pytest.mark.parametrize("role", MEMBERS)
def test_a_pods_kit_is_whole_and_from_a_secret(overlays: Path, role: str) -> None:
    manifests = built(overlays, role)
    assert set(manifests["Secret"]["data"]) == set(KIT_FILES)
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["secretName"] == manifests["Secret"]["metadata"]["name"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert "secret" not in mounted, "only the copy that its owner alone can read"


def test_the_server_and_a_client_on_one_cluster_are_different_users(overlays: Path) -> None:
    pods = [built(overlays, role)["StatefulSet"]["spec"]["template"]["spec"] for role in MEMBERS]
    users = [pod["securityContext"]["runAsUser"] for pod in pods]
    assert len(set(users)) == 2
    assert users == [pod["securityContext"]["fsGroup"] for pod in pods]


@pytest.mark.parametrize("role", MEMBERS)
def test_manifests_meet_the_schemas_of_several_versions_of_kubernetes(overlays: Path, role: str) -> None:
    manifests = kustomize(overlays / role)
    for version in VERSIONS:
        for manifest in manifests:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_does_not_meet_the_schemas(overlays: Path) -> None:
    server = built(overlays, "server")["StatefulSet"]
    server["spec"]["template"]["spec"]["enableServicelinks"] = False
    for version in VERSIONS:
        with pytest.raises(kubernetes_validate.ValidationError, match="enableServicelinks"):
            kubernetes_validate.validate(server, version, strict=True)


@pytest.mark.parametrize("role", MEMBERS)
def test_pods_fit_the_quota_of_their_namespace(overlays: Path, role: str) -> None:
    manifests = built(overlays, role)
    quota, workload = manifests["ResourceQuota"]["spec"]["hard"], manifests["StatefulSet"]["spec"]
    pod = workload["template"]["spec"]
    containers = (*pod["initContainers"], *pod["containers"])
    assert all({"cpu", "memory"} <= set(each["resources"]["requests"]) for each in containers), "a quota refuses others"
    assert all("memory" in each["resources"]["limits"] for each in containers)
    (container,) = pod["containers"]
    assert mebibytes(container["resources"]["limits"]["memory"]) <= mebibytes(quota["limits.memory"])
    claims = [*workload["volumeClaimTemplates"]]
    if "PersistentVolumeClaim" in manifests:
        claims.append(manifests["PersistentVolumeClaim"])
    stored = [mebibytes(claim["spec"]["resources"]["requests"]["storage"]) for claim in claims]
    assert sum(stored) <= mebibytes(quota["requests.storage"])
    assert len(stored) <= int(quota["persistentvolumeclaims"])
    assert int(quota["services.loadbalancers"]) == (role == "server"), "only the server may be reached"


def mebibytes(quantity: str) -> int:
    number, unit = int(quantity[:-2]), quantity[-2:]
    return number * {"Mi": 1, "Gi": 1024}[unit]


@pytest.mark.parametrize("role", MEMBERS)
def test_priority_and_disruption_budget_are_those_of_the_pod(overlays: Path, role: str) -> None:
    manifests = built(overlays, role)
    workload = manifests["StatefulSet"]["spec"]
    assert workload["template"]["spec"]["priorityClassName"] == manifests["PriorityClass"]["metadata"]["name"]
    assert manifests["PriorityClass"]["preemptionPolicy"] == "Never"
    budget = manifests["PodDisruptionBudget"]["spec"]
    assert budget["selector"]["matchLabels"] == workload["template"]["metadata"]["labels"]
    assert budget["minAvailable"] == workload["replicas"] == 1


@pytest.mark.parametrize("role", MEMBERS)
def test_the_kit_can_come_from_a_store_of_secrets(overlays: Path, tmp_path: Path, role: str) -> None:
    shutil.copytree(overlays / role, tmp_path / role)
    file = tmp_path / role / "kustomization.yaml"
    layer = yaml.safe_load(file.read_text())
    del layer["secretGenerator"]
    layer["resources"].append("external-secret.yaml")
    file.write_text(yaml.safe_dump(layer))
    manifests = built(tmp_path, role)
    assert "Secret" not in manifests
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["secretName"] == manifests["ExternalSecret"]["spec"]["target"]["name"]
    assert manifests["ExternalSecret"]["metadata"]["namespace"] == manifests["StatefulSet"]["metadata"]["namespace"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pods_of_the_example_of_a_worker_pool_meet_the_schemas_and_the_strict_standard(version: str) -> None:
    """The resource is KubeRay's own, but its pods are those of Kubernetes."""
    cluster, policy = yaml.safe_load_all((KUBERNETES / "client" / "ray-cluster.yaml").read_text())
    kubernetes_validate.validate(policy, version, strict=True)
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "node"}, "spec": group["template"]["spec"]}
        kubernetes_validate.validate(pod, version, strict=True)
        (ray,) = pod["spec"]["containers"]
        named = {one["name"]: one["value"] for one in ray["env"]}
        assert named["RAY_USE_TLS"] == "1"
        assert VARIABLE in named
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert ray["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_an_operator_can_pin_the_base_image_of_every_stage() -> None:
    sources = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    stages = {stage for _, stage in sources}
    assert {source for source, _ in sources} - stages == {"${BASE}"}
    (default,) = re.findall(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    provision = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["provision"]
    assert provision["build"]["args"] == {"BASE": f"${{FENCHEL_BASE:-{default}}}"}


def test_only_the_server_may_be_reached_and_only_parties_reach_out(overlays: Path) -> None:
    server, client = built(overlays, "server"), built(overlays, "client")
    assert server["NetworkPolicy"]["spec"]["ingress"] == [{"ports": [{"port": 9092, "protocol": "TCP"}]}]
    assert not server["NetworkPolicy"]["spec"].get("egress")
    assert not client["NetworkPolicy"]["spec"].get("ingress")
    assert "Service" in server
    assert "Service" not in client
    for manifests in (server, client):
        assert sorted(manifests["NetworkPolicy"]["spec"]["policyTypes"]) == ["Egress", "Ingress"]
        assert manifests["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("role", MEMBERS)
def test_compose_files_confine_what_they_start(role: str) -> None:
    service = yaml.safe_load((COMPOSE / f"{role}.yml").read_text())["services"][role]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] == service["memswap_limit"] == "${FENCHEL_MEMORY:-2g}"
    assert service["ulimits"] == {"core": 0}
    assert ("ports" in service) == (role == "server"), "only the server listens"
    assert_understood(service["command"])
    assert_understood(service["healthcheck"]["test"][2:])


def test_the_hospitals_of_the_compose_file_accept_what_its_run_asks_for_and_no_more() -> None:
    asked = concessions_of(RunConfig.from_toml(COMPOSE / "run.toml"))
    services = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())["services"]
    hospitals = [service for name, service in services.items() if name.startswith("hospital-")]
    assert [hospital["environment"]["FENCHEL_ACCEPT"] for hospital in hospitals] == 4 * [" ".join(asked)]


def test_a_party_accepts_nothing_beyond_the_defaults_until_its_operator_writes_it_down(overlays: Path) -> None:
    service = yaml.safe_load((COMPOSE / "client.yml").read_text())["services"]["client"]
    assert service["environment"] == {"FENCHEL_ACCEPT": "${FENCHEL_ACCEPT:-}"}
    manifests = built(overlays, "client")
    assert manifests["ConfigMap"]["data"] == {"FENCHEL_APPROVE_ROSTER": "", "FENCHEL_ACCEPT": ""}
    container = manifests["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    assert container["envFrom"] == [{"configMapRef": {"name": manifests["ConfigMap"]["metadata"]["name"]}}]


@pytest.mark.parametrize("role", UNITS)
def test_units_are_confined_and_their_commands_are_understood(role: str) -> None:
    lines = (SYSTEMD / UNITS[role]).read_text().splitlines()
    service = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z][A-Za-z]+=", line))
    for switch in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelTunables"):
        assert service[switch] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["LimitCORE"] == "0"
    assert (service["MemoryMax"], service["MemorySwapMax"]) == ("2G", "0")
    assert service["User"] == service["Group"] == {"server": "fenchel-server", "client": "fenchel-%i"}[role]
    assert_understood([word for word in service["ExecStart"].split()[1:] if not word.startswith("$")])


@pytest.mark.parametrize("role", UNITS)
def test_units_are_what_systemd_understands(tmp_path: Path, role: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    # The command that the unit names is not installed on the machine of a developer.
    text = (SYSTEMD / UNITS[role]).read_text().replace("/opt/fenchel/bin/fenchel", "/bin/true")
    (tmp_path / UNITS[role]).write_text(text)
    result = subprocess.run(
        [analyze, "verify", str(tmp_path / UNITS[role])], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_server_whose_run_is_exhausted_is_not_started_again() -> None:
    service = yaml.safe_load((COMPOSE / "server.yml").read_text())["services"]["server"]
    assert service["restart"] == "on-failure"
    assert "--supervised" in service["command"]
    unit = (SYSTEMD / UNITS["server"]).read_text()
    assert re.search(r"^ExecStart=.* --supervised$", unit, re.MULTILINE)
    assert "Restart=on-failure" in unit
