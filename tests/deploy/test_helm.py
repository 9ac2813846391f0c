"""The Helm chart in deploy/helm, rendered by the real helm."""

import json
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import embedwell
from benchmarks.scaling.cluster import Rule
from embedwell.settings.settings import PREFIX, Settings
from tests.programs import program

pytestmark = pytest.mark.full

CHART = Path(__file__).parents[2] / "deploy" / "helm"
ALERTS = CHART.parent / "monitoring" / "alerts.yaml"
SET_BY_THE_CHART = {"host", "port", "cache", "api_key", "admin_key", "models_file"}
NOT_IN_KUBERNETES = {"HTTPRoute", "ScaledObject", "ServiceMonitor", "PrometheusRule"}

PLAIN: dict[str, Any] = {}
EVERYTHING: dict[str, Any] = {
    "settings": {"dtype": "float32", "max_body_bytes": 16777216, "tracing": True, "max_wait": 0.5},
    "apiKeySecret": {"name": "keys"},
    "adminKeySecret": {"name": "keys"},
    "hfTokenSecret": {"name": "hub"},
    "modelsFile": '[small]\nmodel = "org/small"\nkeep = "on_demand"\n',
    "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "search"}],
    "modelVolume": {"enabled": True, "storageClass": "fast"},
    "gpu": {"enabled": True, "runtimeClassName": "nvidia"},
    "ingress": {"enabled": True, "className": "nginx", "host": "e.example", "tlsSecret": "tls"},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway"}], "hostnames": ["e.example"]},
    "networkPolicy": {
        "enabled": True,
        "from": [{"podSelector": {"matchLabels": {"app": "search"}}}],
        "restrictEgress": True,
        "egress": [{"ports": [{"port": 443}]}],
    },
    "autoscaling": {"enabled": True, "kind": "hpa"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "podAnnotations": {"team": "search"},
    "podLabels": {"cost-centre": "7"},
    "priorityClassName": "serving",
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "embedwell"}},
        }
    ],
    "extraVolumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
    "extraVolumeMounts": [{"name": "certificates", "mountPath": "/etc/certificates"}],
    "podSecurityContext": {"fsGroup": 20000},
}
KEDA = {"autoscaling": {"enabled": True, "kind": "keda", "waitSeconds": 0.25}}
BATCHES: dict[str, Any] = {"replicas": 1, "batchVolume": {"enabled": True, "size": "5Gi"}}
VARIANTS = {"plain": PLAIN, "everything": EVERYTHING, "keda": KEDA, "batches": BATCHES}


def run_helm(
    command: str, values: dict[str, Any], folder: Path
) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    helm = program("helm", "(no package; .ci/helm.py fetches it)")
    names = ["embedwell"] if command == "template" else []
    options = ["--namespace", "search", "--values", str(file)]
    return subprocess.run(
        [helm, command, *names, str(CHART), *options], capture_output=True, text=True, check=False
    )


def rendered(values: dict[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    """The manifests of the chart, by their kinds."""
    process = run_helm("template", values, folder)
    assert process.returncode == 0, process.stderr
    manifests = [manifest for manifest in yaml.safe_load_all(process.stdout) if manifest]
    by_kind = {manifest["kind"]: manifest for manifest in manifests}
    assert len(by_kind) == len(manifests)
    return by_kind


def container_of(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    container: dict[str, Any]
    [container] = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("name", VARIANTS)
def test_helm_finds_no_fault(name: str, tmp_path: Path) -> None:
    process = run_helm("lint", VARIANTS[name], tmp_path)
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize("name", VARIANTS)
def test_the_manifests_are_valid_for_kubernetes(name: str, tmp_path: Path) -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("needs 110 MB of schemas: pip install kubernetes-validate")
    validate = import_module("kubernetes_validate").validate
    for kind, manifest in rendered(VARIANTS[name], tmp_path).items():
        if kind not in NOT_IN_KUBERNETES:
            for version in ("1.29", "1.37"):
                validate(manifest, version, strict=True)


def test_the_chart_has_the_version_of_the_server() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (embedwell.__version__,) * 2


@pytest.mark.parametrize(
    ("values", "tag"),
    [
        ({}, embedwell.__version__),
        ({"gpu": {"enabled": True}}, f"{embedwell.__version__}-cuda"),
        ({"image": {"tag": "7.8.9-bulk"}}, "7.8.9-bulk"),
        ({"image": {"tag": "mine"}, "gpu": {"enabled": True}}, "mine"),
    ],
)
def test_the_tag_of_the_image_is_the_version_unless_another_is_set(
    values: dict[str, Any], tag: str, tmp_path: Path
) -> None:
    manifests = rendered(values, tmp_path)
    assert container_of(manifests)["image"] == f"embedwell:{tag}"
    assert manifests["Deployment"]["metadata"]["labels"]["app.kubernetes.io/version"] == tag


@pytest.mark.parametrize("name", VARIANTS)
def test_a_service_sets_no_variables_in_pods(name: str, tmp_path: Path) -> None:
    manifests = rendered(VARIANTS[name], tmp_path)
    assert manifests["Service"]["metadata"]["name"] == "embedwell"  # it would set EMBEDWELL_PORT
    assert manifests["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_only_what_is_switched_on_is_rendered(tmp_path: Path) -> None:
    usual = {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget"}
    assert set(rendered(PLAIN, tmp_path)) == usual
    assert set(rendered(KEDA, tmp_path)) == usual | {"ScaledObject"}
    assert set(rendered(EVERYTHING, tmp_path)) == usual | {
        *("Ingress", "HTTPRoute", "NetworkPolicy", "HorizontalPodAutoscaler"),
        *("ConfigMap", "PersistentVolumeClaim", "ServiceMonitor", "PrometheusRule"),
    }


def test_settings_become_valid_variables(tmp_path: Path) -> None:
    variables = container_of(rendered(EVERYTHING, tmp_path))["env"]
    values = {variable["name"]: variable.get("value") for variable in variables}
    settings = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in values.items()
        if name.startswith(PREFIX) and value is not None
    }
    read = Settings(**settings)
    assert (read.max_body_bytes, read.tracing, read.max_wait) == (16777216, True, 0.5)
    secrets = [variable["name"] for variable in variables if "valueFrom" in variable]
    assert secrets == ["EMBEDWELL_API_KEY", "EMBEDWELL_ADMIN_KEY", "HF_TOKEN"]
    assert values["OTEL_SERVICE_NAME"] == "search"


def test_the_schema_knows_every_setting_and_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    names = schema["settings"]["propertyNames"]["enum"]
    settings = [name for name in Settings.model_fields if name not in SET_BY_THE_CHART]
    assert not {*names} ^ {*settings}, "add these names to values.schema.json, or remove old ones"
    assert names == settings, "values.schema.json has the order of the settings"
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [*schema.keys() - {"global"}] and schema.keys() - {"global"} == values.keys()
    for name, value in values.items():
        if "properties" in schema[name]:
            assert schema[name]["properties"].keys() == value.keys()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"settings": {"dtyp": "int8"}}, "dtyp"),
        ({"settings": {"api_key": "in the open"}}, "api_key"),
        ({"autoscaling": {"kind": "cron"}}, "kind"),
        ({"replica": 3}, "replica"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    values: dict[str, Any], name: str, tmp_path: Path
) -> None:
    process = run_helm("template", values, tmp_path)
    assert process.returncode and name in process.stderr


def test_what_selects_pods_matches_them(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    pods = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    for selector in (
        manifests["Service"]["spec"]["selector"],
        manifests["Deployment"]["spec"]["selector"]["matchLabels"],
        manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector and selector.items() <= pods
    monitored = manifests["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= manifests["Service"]["metadata"]["labels"].items()


def test_the_grace_period_covers_draining_and_shutdown(tmp_path: Path) -> None:
    settings = {"drain_delay": 20, "shutdown_timeout": 100}
    pod = rendered({"settings": settings}, tmp_path)["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 120
    usual = rendered(PLAIN, tmp_path)
    pod = usual["Deployment"]["spec"]["template"]["spec"]
    drain = float(yaml.safe_load((CHART / "values.yaml").read_text())["settings"]["drain_delay"])
    assert drain > container_of(usual)["readinessProbe"]["periodSeconds"]
    assert pod["terminationGracePeriodSeconds"] > drain + Settings().shutdown_timeout


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_node_can_be_drained(replicas: int, tmp_path: Path) -> None:
    budget = rendered({"replicas": replicas}, tmp_path)["PodDisruptionBudget"]["spec"]
    assert budget["maxUnavailable"] == 1 and "minAvailable" not in budget


def test_the_models_file_is_mounted_and_changes_replace_the_servers(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    [(name, text)] = manifests["ConfigMap"]["data"].items()
    assert text == EVERYTHING["modelsFile"]
    container, pod = container_of(manifests), manifests["Deployment"]["spec"]["template"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    [mount] = [m for m in container["volumeMounts"] if m["name"] == "models"]
    assert variables["EMBEDWELL_MODELS_FILE"] == f"{mount['mountPath']}/{name}"
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "models"]
    assert volume["configMap"]["name"] == manifests["ConfigMap"]["metadata"]["name"]
    other = rendered({**EVERYTHING, "modelsFile": "[other]"}, tmp_path)["Deployment"]
    annotations = [each["metadata"]["annotations"] for each in (pod, other["spec"]["template"])]
    assert annotations[0]["checksum/models"] != annotations[1]["checksum/models"]
    assert annotations[0]["team"] == "search"


def test_an_ingress_of_nginx_passes_what_the_server_accepts(tmp_path: Path) -> None:
    ingress: dict[str, Any] = {"enabled": True, "className": "nginx"}
    prefix = "nginx.ingress.kubernetes.io/proxy-"

    def limits(**values: Any) -> tuple[str, str]:
        manifest = rendered({"ingress": ingress, **values}, tmp_path)["Ingress"]
        annotations = manifest["metadata"]["annotations"]
        return annotations[f"{prefix}body-size"], annotations[f"{prefix}read-timeout"]

    usual = Settings()
    assert limits() == (str(usual.max_body_bytes), f"{usual.request_timeout + 15:.0f}")
    assert limits(settings={"max_body_bytes": 16777216, "request_timeout": 300}) == (
        "16777216",
        "315",
    )
    assert limits(**BATCHES)[0] == str(usual.batch_max_file_bytes)
    ingress["annotations"] = {f"{prefix}body-size": "1g"}
    assert limits()[0] == "1g"


def test_a_pod_has_what_is_added_to_it(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    template, container = manifests["Deployment"]["spec"]["template"], container_of(manifests)
    assert template["metadata"]["labels"]["cost-centre"] == "7"
    pod = template["spec"]
    assert pod["priorityClassName"] == "serving"
    assert pod["topologySpreadConstraints"] == EVERYTHING["topologySpreadConstraints"]
    assert EVERYTHING["extraVolumes"][0] in pod["volumes"]
    assert EVERYTHING["extraVolumeMounts"][0] in container["volumeMounts"]
    plain = rendered(PLAIN, tmp_path)["Deployment"]["spec"]["template"]["spec"]
    [spread] = plain["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize("folder", [None, "/var/lib/batches"])
def test_batches_have_a_volume_of_a_single_server(folder: str | None, tmp_path: Path) -> None:
    settings = {"settings": {"batch_folder": folder}} if folder else {}
    manifests = rendered({**BATCHES, **settings}, tmp_path)
    spec, container = manifests["Deployment"]["spec"], container_of(manifests)
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "batches"]
    variables = [each for each in container["env"] if each["name"] == "EMBEDWELL_BATCH_FOLDER"]
    assert [each["value"] for each in variables] == [mount["mountPath"]] == [folder or "/batches"]
    [volume] = [each for each in spec["template"]["spec"]["volumes"] if each["name"] == "batches"]
    claim = manifests["PersistentVolumeClaim"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert spec["strategy"]["type"] == "Recreate"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"batch_folder": "/data"}}, "/data is on the read-only root"),
        ({"batchVolume": {"enabled": True}}, "set replicas to 1"),
        ({**BATCHES, "autoscaling": {"enabled": True}}, "autoscaling.enabled to false"),
    ],
)
def test_batches_without_a_folder_of_their_own_are_refused(
    values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    process = run_helm("template", values, tmp_path)
    assert process.returncode and message in process.stderr


def test_a_batch_folder_may_be_on_any_mounted_volume(tmp_path: Path) -> None:
    mounted = {
        "settings": {"batch_folder": "/data/batches"},
        "extraVolumes": [{"name": "data", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    assert "PersistentVolumeClaim" not in rendered(mounted, tmp_path)


def test_keda_keeps_the_servers_while_there_are_no_metrics(tmp_path: Path) -> None:
    spec = rendered(KEDA, tmp_path)["ScaledObject"]["spec"]
    assert spec["fallback"]["replicas"] == spec["minReplicaCount"]
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert [each["metadata"]["ignoreNullValues"] for each in spec["triggers"]] == ["false"] * 2


def notes_of(values: dict[str, Any], folder: Path) -> str:
    """What `helm install` prints for the user."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    helm = program("helm", "(no package; .ci/helm.py fetches it)")
    command = [helm, "install", "--dry-run=client", "embedwell", str(CHART)]
    command += ["--values", str(file)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.partition("NOTES:")[2]


def test_the_notes_say_how_to_ask_the_server(tmp_path: Path) -> None:
    for values, key in ((PLAIN, False), (EVERYTHING, True)):
        text = notes_of(values, tmp_path)
        assert "curl -s localhost:8080/embed" in text
        assert ("Bearer KEY" in text) == key == ("need no key" not in text)


@pytest.mark.parametrize(
    ("values", "warned"), [({}, True), ({"image": {"repository": "r.example/e"}}, False)]
)
def test_the_notes_warn_of_an_image_that_is_in_no_registry(
    values: dict[str, Any], warned: bool, tmp_path: Path
) -> None:
    assert ("set image.repository" in notes_of(values, tmp_path)) == warned


def test_openshift_may_assign_the_group(tmp_path: Path) -> None:
    values = {"podSecurityContext": {"fsGroup": None}}
    pod = rendered(values, tmp_path)["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_a_gpu_is_requested_with_the_other_resources(tmp_path: Path) -> None:
    resources = container_of(rendered(EVERYTHING, tmp_path))["resources"]
    assert resources["limits"] == {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": 1}


def test_the_autoscalers_ask_for_the_wait_and_own_the_number_of_servers(tmp_path: Path) -> None:
    with_hpa, with_keda = rendered(EVERYTHING, tmp_path), rendered(KEDA, tmp_path)
    assert all("replicas" not in each["Deployment"]["spec"] for each in (with_hpa, with_keda))
    [metric] = with_hpa["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metric["pods"]["metric"] == {"name": "embedwell_wait_seconds"}
    assert metric["pods"]["target"]["averageValue"] == "500m"
    triggers = with_keda["ScaledObject"]["spec"]["triggers"]
    assert [trigger["metadata"]["threshold"] for trigger in triggers] == ["0.25", "0.7"]
    query = 'sum(embedwell_wait_seconds{namespace="search", service="embedwell"})'
    assert triggers[0]["metadata"]["query"] == query


def test_servers_without_gpus_are_added_by_their_use_of_the_cpu_too(tmp_path: Path) -> None:
    values = {"autoscaling": {"enabled": True, "utilization": 0.6}}
    _, cpu = rendered(values, tmp_path)["HorizontalPodAutoscaler"]["spec"]["metrics"]
    target = {"type": "Utilization", "averageUtilization": 60}
    assert cpu == {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_the_simulated_rule_is_that_of_the_chart(tmp_path: Path) -> None:
    rule, spec = Rule(), rendered(KEDA, tmp_path)["ScaledObject"]["spec"]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    [up], [down] = (behavior[name]["policies"] for name in ("scaleUp", "scaleDown"))
    assert (up["value"], up["periodSeconds"]) == (100 * rule.up_share, rule.up_seconds)
    assert (down["value"], down["periodSeconds"]) == (100 * rule.down_share, rule.down_seconds)
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == rule.down_window
    values = yaml.safe_load((CHART / "values.yaml").read_text())["autoscaling"]
    assert (values["waitSeconds"], values["utilization"]) == (rule.wait, rule.utilization)
    assert (values["minReplicas"], spec["pollingInterval"]) == (rule.min_servers, rule.interval)


def test_the_alerts_are_those_of_prometheus(tmp_path: Path) -> None:
    manifests = rendered(EVERYTHING, tmp_path)
    assert manifests["PrometheusRule"]["spec"] == yaml.safe_load(ALERTS.read_text())
    [endpoint] = manifests["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "embedwell"}]
    assert manifests["PrometheusRule"]["metadata"]["labels"]["release"] == "prometheus"
