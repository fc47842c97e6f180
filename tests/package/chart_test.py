"""The Helm chart: what it renders for several values, what its schema refuses, and whether the agent takes the configuration.

Needs helm (on PATH, or where `./dev package chart` keeps it) and PyYAML; PENDULUM_PROGRAM names the agent, if there is one.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/kubernetes/pendulum"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pendulum/helm"
HELM = shutil.which("helm") or shutil.which("helm", path=str(CACHE))
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pendulum/prometheus"
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=str(TOOLS))
DSL = {"wan": "ppp0", "name": "dsl", "lan": ["br0"], "uplinkRate": "10mbit", "downlinkRate": "50mbit", "maxFlows": 1048576}
OPEN = {"listen": {"address": "0.0.0.0"}, "links": [DSL], "auth": {"existingSecret": "token"}, "tls": {"existingSecret": "cert"}}


def helm(*arguments, values=None):
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "values.json"
        file.write_text(json.dumps(values or {}), encoding="utf-8")
        # No settings and caches of the user's.
        env = dict(os.environ, HELM_CACHE_HOME=work, HELM_CONFIG_HOME=work, HELM_DATA_HOME=work)
        command = [HELM, *arguments, "--values", str(file)]
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def newest_agent():
    """The agent that was built last, or None."""
    if "PENDULUM_PROGRAM" in os.environ:
        return os.environ["PENDULUM_PROGRAM"]
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    found = [path for path in (target / "release/pendulum", target / "debug/pendulum") if path.exists()]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


class Files(unittest.TestCase):
    """Needs no helm."""

    def test_the_chart_has_the_repositorys_files(self):
        for name in ("rules/pendulum-records.yml", "rules/pendulum-alerts.yml", "dashboards/link.json", "dashboards/fleet.json"):
            shipped = ROOT / "dashboards" / name.replace("dashboards/", "grafana/")
            found = CHART / "files" / name
            # Links of the repository: a copy of it that makes files of them has a chart without rules and dashboards.
            self.assertTrue(found.is_file(), f"{found} is not there")
            self.assertEqual(found.read_bytes(), shipped.read_bytes(), name)


class Chart(unittest.TestCase):
    def setUp(self):
        if HELM is None:
            self.skip("helm is not here; './dev package chart' builds it where there is a Go")
        if yaml is None:
            self.skip("PyYAML is not here: Debian's python3-yaml")

    def skip(self, reason):
        """unittest counts a skipped test among those that ran; ./dev counts it by this line."""
        print(f"\nSKIPPED {self.id()}: {reason}", flush=True)
        self.skipTest(reason)

    def documents(self, values):
        done = helm("template", "site", str(CHART), "--namespace", "monitoring", values=values)
        self.assertEqual(done.returncode, 0, done.stderr)
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        for document in documents:
            self.assertTrue(document["apiVersion"] and document["metadata"]["name"], document)
        return documents

    def render(self, values):
        return {document["kind"]: document for document in self.documents(values)}

    def test_lint(self):
        for values in ({}, {"links": [DSL]}, OPEN | {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}):
            done = helm("lint", "--strict", str(CHART), values=values)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_version_is_the_agents(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        self.assertIn(f'version = "{chart["appVersion"]}"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"))

    def test_three_capabilities_the_nodes_network_and_one_volume_to_write(self):
        rendered = self.render({"links": [DSL]})
        self.assertEqual(sorted(rendered), ["ConfigMap", "DaemonSet", "ServiceAccount"])
        pod = rendered["DaemonSet"]["spec"]["template"]["spec"]
        self.assertTrue(pod["hostNetwork"])
        self.assertFalse(pod["automountServiceAccountToken"])
        [container] = pod["containers"]
        context = container["securityContext"]
        self.assertEqual(context["capabilities"], {"drop": ["ALL"], "add": ["BPF", "PERFMON", "NET_ADMIN"]})
        self.assertEqual((context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"], context["privileged"]), (True, False, False))
        self.assertEqual([volume["name"] for volume in pod["volumes"]], ["config", "state"])
        [where] = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        self.assertEqual(container["env"], [{"name": "STATE_DIRECTORY", "value": where}])
        # The kubelet is in the same network and reaches the loopback address.
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/readyz?idle=ok", "port": "metrics", "scheme": "HTTP", "host": "127.0.0.1"})
        self.assertEqual(container["image"], "pendulum:0.1.0")

    def test_the_agent_takes_the_configuration(self):
        agent = newest_agent()
        if agent is None:
            self.skip("no agent was built; 'cargo build -p pendulum'")
        extra = '[metrics]\nbpf-statistics = false\n[shape]\nmode = "dry-run"\n'
        two = [DSL, {"wan": "eth1", "ingressHook": "xdp", "nursery": 64, "downlinkDevice": "ifb0", "uplinkRate": "1.5mbit", "downlinkRate": "20mbit"}]
        for values in ({"links": [DSL]}, {"links": two, "extraConfig": extra, "listen": {"address": "::1", "port": 9925}}):
            text = self.render(values)["ConfigMap"]["data"]["pendulum.toml"]
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                done = subprocess.run([agent, "check-config", file.name], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr + text)

    def test_secrets_and_the_operator(self):
        rendered = self.render(OPEN | {"state": None, "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
        text = rendered["ConfigMap"]["data"]["pendulum.toml"]
        for line in ('listen = "0.0.0.0:9924"', 'token-file = "/etc/pendulum-token/token"', 'tls-key = "/etc/pendulum-tls/tls.key"'):
            self.assertIn(line, text.splitlines())
        pod = rendered["DaemonSet"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/healthz", "port": "metrics", "scheme": "HTTPS"})
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual(mounts, {"config": "/etc/pendulum", "token": "/etc/pendulum-token", "tls": "/etc/pendulum-tls"})
        monitor = rendered["PodMonitor"]
        # The alerts ask for this job: under another name PendulumTargetMissing always fires and PendulumTargetDown never.
        jobs = [rule for rule in monitor["spec"]["podMetricsEndpoints"][0]["relabelings"] if rule["targetLabel"] == "job"]
        self.assertEqual(jobs, [{"targetLabel": "job", "replacement": "pendulum"}])
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["authorization"]["credentials"]["name"]), ("https", "token"))
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], rendered["DaemonSet"]["spec"]["selector"]["matchLabels"])

    def test_rules_and_dashboards_are_those_of_the_repository(self):
        self.assertNotIn("PrometheusRule", self.render({"links": [DSL]}))
        more = {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "runbookBase": "https://wiki.example/alerts"},
                "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Gateways"}}}
        documents = self.documents({"links": [DSL]} | more)
        [rules] = [document for document in documents if document["kind"] == "PrometheusRule"]
        self.assertEqual(rules["metadata"]["labels"]["release"], "prometheus")
        shipped = [yaml.safe_load((ROOT / f"dashboards/rules/pendulum-{name}.yml").read_text(encoding="utf-8"))["groups"] for name in ("records", "alerts")]
        text = json.dumps(shipped[0] + shipped[1]).replace("docs/guide/alerts.md#", "https://wiki.example/alerts#")
        self.assertEqual(rules["spec"]["groups"], json.loads(text))
        if PROMTOOL is None:
            self.skip("no promtool in PATH; './dev test dashboards' unpacks Debian's")
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump(rules["spec"], file)
            done = subprocess.run([PROMTOOL, "check", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_severities_are_values(self):
        wanted = {"PendulumUplinkLocked": "critical", "PendulumLinkGone": "warning"}
        rules = self.render({"links": [DSL], "prometheusRule": {"enabled": True, "severities": wanted}})["PrometheusRule"]
        shipped = yaml.safe_load((ROOT / "dashboards/rules/pendulum-alerts.yml").read_text(encoding="utf-8"))["groups"]

        def severities(groups):
            return {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"] if "alert" in rule}

        self.assertEqual(severities(rules["spec"]["groups"]), severities(shipped) | wanted)

    def test_dashboards_lead_to_the_runbook(self):
        values = {"links": [DSL], "dashboards": {"enabled": True}, "prometheusRule": {"runbookBase": "https://wiki.example/alerts"}}
        boards = [json.loads(text) for document in self.documents(values) for name, text in document.get("data", {}).items() if name.endswith(".json")]
        self.assertEqual(len(boards), 2)
        for board in boards:
            [runbook] = [variable for variable in board["templating"]["list"] if variable["name"] == "runbook"]
            self.assertEqual(runbook["query"], "https://wiki.example/alerts")
            self.assertEqual(runbook["current"]["value"], "https://wiki.example/alerts")

    def test_every_object_has_the_common_labels(self):
        everything = OPEN | {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "dashboards")}
        for document in self.documents(everything):
            labels = document["metadata"]["labels"]
            for label in ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"):
                self.assertIn(label, labels, document["kind"])

    def test_the_chart_says_what_it_is(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        annotations = chart["annotations"]
        self.assertEqual(annotations["artifacthub.io/license"], "MIT OR Apache-2.0")
        self.assertEqual(annotations["artifacthub.io/category"], "monitoring-logging")
        self.assertTrue(all(isinstance(value, str) for value in annotations.values()))
        self.assertTrue(all(set(link) == {"name", "url"} for link in yaml.safe_load(annotations.get("artifacthub.io/links", "[]"))))

    def test_dashboards_are_those_of_the_repository(self):
        documents = self.documents({"links": [DSL], "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Gateways"}}})
        maps = [document for document in documents if document["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
        self.assertEqual(len(maps), 2)
        for document in maps:
            self.assertEqual(document["metadata"]["annotations"], {"grafana_folder": "Gateways"})
            [(name, text)] = document["data"].items()
            shipped = ROOT / "dashboards/grafana" / name.removeprefix("pendulum-")
            self.assertEqual(json.loads(text), json.loads(shipped.read_text(encoding="utf-8")))
            # A ConfigMap holds a mebibyte.
            self.assertLess(len(text.encode()), 1 << 20)

    def test_a_new_configuration_makes_new_pods(self):
        def checksum(values):
            return self.render(values)["DaemonSet"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

        one = checksum({"links": [DSL]})
        self.assertEqual(one, checksum({"links": [DSL], "resources": {}}))
        self.assertNotEqual(one, checksum({"links": [DSL | {"uplinkRate": "12mbit"}]}))

    def test_bad_values_are_refused(self):
        for values, reason in [
            ({}, "links: name at least one"),
            ({"links": [{"name": "dsl"}]}, "wan"),
            ({"links": [{"wan": "a-name-of-more-than-15"}]}, "wan"),
            ({"links": [DSL | {"uplinkRate": "10 Mbps"}]}, "uplinkRate"),
            ({"links": [DSL | {"uplink_rate": "10mbit"}]}, "uplink_rate"),
            ({"links": [DSL | {"maxFlows": 1}]}, "maxFlows"),
            ({"links": [DSL], "listen": {"address": "localhost"}}, "address"),
            ({"links": [DSL], "listen": {"port": "9924"}}, "port"),
            ({"links": [DSL], "log": {"level": "loud"}}, "level"),
            ({"links": [DSL], "podMonitors": {}}, "podMonitors"),
            ({"links": [DSL], "podMonitor": {"enabled": True}}, "loopback"),
            ({"links": [DSL], "prometheusRule": {"severities": {"PendulumLinkGone": "urgent"}}}, "severities"),
            ({"links": [DSL], "prometheusRule": {"enabled": True, "severities": {"PendulumNoSuch": "critical"}}}, "PendulumNoSuch"),
        ]:
            done = helm("template", "site", str(CHART), values=values)
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(reason, done.stderr, values)


if __name__ == "__main__":
    unittest.main()
