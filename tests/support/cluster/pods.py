"""What a server adds to a Pod, and what it refuses: invalid fields, Pod security, quotas."""

from __future__ import annotations

import copy
import re
from decimal import Decimal

from answers import Object, RefusalError, bad_request, cause, forbidden, invalid
from resources import PODS, QUOTAS
from store import Store

QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
SUFFIXES: dict[str, Decimal | int] = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
RESTART_POLICIES = ("Always", "OnFailure", "Never")
ENFORCE = "pod-security.kubernetes.io/enforce"
HARMLESS_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"}
HARMLESS_VOLUMES |= {"secret"}
SAFE_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ping_group_range")
TOLERATED = ("not-ready", "unreachable")


def quantity(text: object) -> Decimal:
    """An amount of a resource, in its base unit."""
    match = QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in SUFFIXES:
        words = f"quantities must match the regular expression '^{QUANTITY.pattern}$'"
        raise bad_request(f'Pod in version "v1" cannot be handled as a Pod: {words}')
    return Decimal(match[1]) * SUFFIXES[match[2]]


def with_defaults(pod: Object) -> Object:
    pod = copy.deepcopy(pod)
    spec = pod.setdefault("spec", {})
    account = spec.setdefault("serviceAccountName", "default")
    defaults: Object = {
        "volumes": [],
        "containers": [],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccount": account,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [_toleration(name) for name in TOLERATED],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    pod["spec"] = defaults | spec
    for container in pod["spec"]["containers"]:
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = resources["limits"] | resources.get("requests", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        is_latest = ":" not in container.get("image", "").rpartition("/")[2] or container["image"].endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
    pod["metadata"]["generation"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": _quality(pod["spec"]["containers"])}
    return pod


def _toleration(name: str) -> Object:
    key = f"node.kubernetes.io/{name}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _quality(containers: list[Object]) -> str:
    asked = [container["resources"] for container in containers]
    if not any(each.get("requests") or each.get("limits") for each in asked):
        return "BestEffort"
    is_guaranteed = all(
        {"cpu", "memory"} <= each.get("limits", {}).keys() and each["limits"] == each["requests"] for each in asked
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def validate(pod: Object) -> None:
    """Refuses a Pod whose fields do not fit together."""
    spec = pod["spec"]
    found: list[Object] = []
    shares_users = spec.get("hostUsers", True)
    for index, container in enumerate(spec["containers"]):
        found += _container_faults(container, f"spec.containers[{index}]", shares_users)
    if not spec["containers"]:
        found.append(cause("FieldValueRequired", "spec.containers", "Required value"))
    if spec["restartPolicy"] not in RESTART_POLICIES:
        supported = ", ".join(f'"{policy}"' for policy in RESTART_POLICIES)
        words = f'Unsupported value: "{spec["restartPolicy"]}": supported values: {supported}'
        found.append(cause("FieldValueNotSupported", "spec.restartPolicy", words))
    if spec["dnsPolicy"] == "None" and not spec.get("dnsConfig"):
        words = "Required value: must provide `dnsConfig` when `dnsPolicy` is None"
        found.append(cause("FieldValueRequired", "spec.dnsConfig", words))
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field) and not shares_users:
            found.append(cause("FieldValueForbidden", f"spec.{shown}", "Forbidden: when `hostUsers` is false"))
    if found:
        raise invalid("Pod", "", pod["metadata"]["name"], found)


def _container_faults(container: Object, path: str, shares_users: bool) -> list[Object]:
    found: list[Object] = []
    if not container.get("image"):
        found.append(cause("FieldValueRequired", f"{path}.image", "Required value"))
    limits = container["resources"].get("limits", {})
    for name, asked in container["resources"].get("requests", {}).items():
        if name in limits and quantity(asked) > quantity(limits[name]):
            words = f'Invalid value: "{asked}": must be less than or equal to {name} limit of {limits[name]}'
            found.append(cause("FieldValueInvalid", f"{path}.resources.requests", words))
    if container.get("securityContext", {}).get("procMount") == "Unmasked" and shares_users:
        words = 'Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'
        found.append(cause("FieldValueInvalid", f"{path}.securityContext.procMount", words))
    return found


def check_security(pod: Object, namespace: Object) -> None:
    """Holds a Pod to the level `restricted` where its namespace asks for it."""
    if namespace["metadata"].get("labels", {}).get(ENFORCE) != "restricted":
        return
    spec = pod["spec"]
    found = _pod_violations(spec)
    for container in spec["containers"]:
        found += _container_violations(container)
    found += _user_violations(spec) + _seccomp_violations(spec)
    if found:
        words = f'violates PodSecurity "restricted:latest": {", ".join(found)}'
        raise forbidden("pods", "", pod["metadata"]["name"], words)


def _pod_violations(spec: Object) -> list[str]:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found = [f"host namespaces ({', '.join(shared)})"] if shared else []
    for volume in spec["volumes"]:
        kinds = [kind for kind in volume if kind != "name" and kind not in HARMLESS_VOLUMES]
        found += [
            f'restricted volume types (volume "{volume["name"]}" uses restricted volume type "{kind}")'
            for kind in kinds
        ]
    sysctls = [each["name"] for each in spec["securityContext"].get("sysctls", []) if each["name"] not in SAFE_SYSCTLS]
    return found + ([f"forbidden sysctls ({', '.join(sysctls)})"] if sysctls else [])


def _container_violations(container: Object) -> list[str]:
    name = f'container "{container["name"]}"'
    context = container.get("securityContext", {})
    capabilities = context.get("capabilities", {})
    ports = [str(port["hostPort"]) for port in container.get("ports", []) if port.get("hostPort")]
    added = [f'"{each}"' for each in capabilities.get("add", []) if each != "NET_BIND_SERVICE"]
    found = [f"hostPort ({name} uses hostPort {', '.join(ports)})"] if ports else []
    if context.get("privileged"):
        found.append(f"privileged ({name} must not set securityContext.privileged=true)")
    if context.get("procMount", "Default") != "Default":
        found.append(f'procMount ({name} must not set securityContext.procMount to "{context["procMount"]}")')
    if context.get("allowPrivilegeEscalation") is not False:
        found.append(
            f"allowPrivilegeEscalation != false ({name} must set securityContext.allowPrivilegeEscalation=false)"
        )
    if "ALL" not in capabilities.get("drop", []):
        found.append(f'unrestricted capabilities ({name} must set securityContext.capabilities.drop=["ALL"])')
    elif added:
        words = f"must not include {', '.join(added)} in securityContext.capabilities.add"
        found.append(f"unrestricted capabilities ({name} {words})")
    return found


def _user_violations(spec: Object) -> list[str]:
    """A Pod with users of its own may be root."""
    if not spec.get("hostUsers", True):
        return []
    found = []
    pod = spec["securityContext"]
    for container in spec["containers"]:
        context = pod | container.get("securityContext", {})
        name = f'container "{container["name"]}"'
        if context.get("runAsNonRoot") is not True:
            found.append(f"runAsNonRoot != true (pod or {name} must set securityContext.runAsNonRoot=true)")
        if context.get("runAsUser") == 0:
            found.append(f"runAsUser=0 ({'pod' if pod.get('runAsUser') == 0 else name} must not set runAsUser=0)")
    return found


def _seccomp_violations(spec: Object) -> list[str]:
    found = []
    pod = spec["securityContext"].get("seccompProfile", {}).get("type")
    for container in spec["containers"]:
        name = f'container "{container["name"]}"'
        profile = container.get("securityContext", {}).get("seccompProfile", {}).get("type", pod)
        if profile is None:
            words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
            found.append(f"seccompProfile (pod or {name} {words})")
        elif profile == "Unconfined":
            subject = "pod" if pod == profile else name
            found.append(f'seccompProfile ({subject} must not set securityContext.seccompProfile.type to "{profile}")')
    return found


def check_quota(pod: Object, store: Store) -> None:
    """Refuses a Pod that is more than a ResourceQuota of its namespace lets it have."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    for quota in store.list(QUOTAS, namespace):
        hard = quota["spec"].get("hard", {})
        missing = [words for key in sorted(hard) if (words := _unspecified(key, pod["spec"]["containers"]))]
        if missing:
            words = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(missing)}"
            raise forbidden("pods", "", name, words)
        used = len(store.list(PODS, namespace))
        if "pods" in hard and used >= quantity(hard["pods"]):
            words = f"requested: pods=1, used: pods={used}, limited: pods={hard['pods']}"
            raise forbidden("pods", "", name, f"exceeded quota: {quota['metadata']['name']}, {words}")


def _unspecified(key: str, containers: list[Object]) -> str | None:
    part, _, resource = key.partition(".")
    if part not in ("limits", "requests"):
        return None
    names = [each["name"] for each in containers if resource not in each["resources"].get(part, {})]
    return f"{key} for: {','.join(names)}" if names else None


def container_of(pod: Object, name: str | None) -> str:
    """The container that a request names, or the only one."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    pod_name = pod["metadata"]["name"]
    if not name and len(names) > 1:
        choice = f"choose one of: [{' '.join(names)}]"
        raise RefusalError(400, "BadRequest", f"a container name must be specified for pod {pod_name}, {choice}")
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if "nodeName" not in pod["spec"]:
        raise bad_request(f"pod {pod_name} does not have a host assigned")
    return name or names[0]
