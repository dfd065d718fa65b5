"""The local cloud's one process: hooks moto, deploys the template and serves both.

`python -m trainyard_local.server --state-dir DIR`
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sam_on_moto import assembly
from sam_on_moto.wire.ports import listen
from trainyard_local import admin_calls, operations
from trainyard_local.local_cloud import NAMING, LocalCloud, forbids, quirky_heads

if TYPE_CHECKING:
    from trainyard_local.hyperpod.state import NodeKind
    from trainyard_local.sessions.service import Sessions

log = logging.getLogger("trainyard.server")

#: Set to 1, the server runs without the patches that only make moto faster.
STOCK_SPEED = "TRAINYARD_LOCAL_STOCK_SPEED"
#: The template's: where the local cloud's own ParallelCluster answers.
API_PARAMETER = "ParallelClusterApiUrl"

Notify = Callable[[Mapping[str, Any]], None]


def main() -> int:
    """Entry point; progress and the outcome of the start go to --notify-fd as JSON lines."""
    options = _options()
    notify = _notifier(options.notify_fd)
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    assembly.environment(NAMING, options.state_dir)
    # Many short requests share the process: each would wait Python's default, 5 ms, for another.
    sys.setswitchinterval(0.001)
    try:
        return _run(options, notify)
    # The caller of `up` must learn of any error.
    except Exception as error:  # noqa: BLE001
        notify({"error": _explain(error), "kind": _kind(error)})
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainyard_local.server", description=__doc__)
    parser.add_argument("--state-dir", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--port", type=int, default=4780)
    parser.add_argument("--template", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument(
        "--parameters",
        type=assembly.parameters,
        default={},
        help="JSON object of template parameters",
    )
    parser.add_argument(
        "--nodes", choices=("processes", "machines"), default="processes", help="what a node is"
    )
    parser.add_argument("--no-iam", action="store_true", help="let every role do everything")
    parser.add_argument("--notify-fd", type=int)
    return parser.parse_args()


def _notifier(fd: int | None) -> Notify:
    if fd is None:
        return lambda message: print(json.dumps(message), flush=True)
    os.set_inheritable(fd, False)
    pipe = os.fdopen(fd, "w")

    def notify(message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # our parent process may be gone; the cloud goes on
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

    return notify


def _explain(error: Exception) -> str:
    from sam_on_moto.moto_patches.pinned import MotoChanged
    from sam_on_moto.template.intrinsics import TemplateError
    from sam_on_moto.wire.ports import PortTaken
    from trainyard_local.machines.host import Impossible

    if isinstance(error, PortTaken | TemplateError | MotoChanged | Impossible):
        return str(error)
    if _disk_full(error):
        return "no space is left on the state directory's disk"
    log.error("the local cloud could not start", exc_info=error)
    return f"{type(error).__name__}: {error} (the server's log has the whole story)"


def _kind(error: Exception) -> str:
    """What the caller of `up` may do about the error."""
    from sam_on_moto.template.intrinsics import TemplateError
    from sam_on_moto.wire.ports import PortTaken
    from trainyard_local.machines.host import Impossible

    if _disk_full(error):
        return "disk"
    kinds = {PortTaken: "port", TemplateError: "template", Impossible: "machines"}
    return next((kind for known, kind in kinds.items() if isinstance(error, known)), "defect")


def _disk_full(error: Exception) -> bool:
    """Whether a disk is full; of errors in copying a tree shutil keeps only the words."""
    return isinstance(error, OSError) and (
        error.errno == errno.ENOSPC
        or (error.errno is None and os.strerror(errno.ENOSPC) in str(error))
    )


def _run(options: argparse.Namespace, notify: Notify) -> int:
    began = time.monotonic()
    gc.disable()  # nearly all objects that are made until the cloud is up stay
    notify({"progress": "starting the cloud"})
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    from sam_on_moto.template.deployment import Deployment
    from trainyard_local.machines import cloud as machine_cloud

    listener = listen(options.port)
    parameters = own_parameters(options.template, listener.getsockname()[1]) | options.parameters
    deployment = Deployment(options.state_dir, parameters)
    translated = deployment.translated(options.template)
    image = (
        machine_cloud.image(lambda words: notify({"progress": words}))
        if options.nodes == "machines"
        else None
    )
    serve, sessions = build(
        options.state_dir,
        listener,
        enforce_iam=not options.no_iam,
        end=ended.set,
        update=deployment.update,
        image=image,
    )
    with serve:
        notify({"progress": "deploying the template"})
        facts = deployment.make(serve.parts, translated, options.template)
        gc.freeze()  # and would hold up every thread for 0.1 s whenever it is looked through
        gc.enable()
        facts["table"] = deployment.first("AWS::DynamoDB::Table")
        facts["bucket"] = deployment.first("AWS::S3::Bucket")
        facts["nodes"] = options.nodes
        facts["sessionPort"] = sessions.port
        facts["adminToken"] = serve.admin.token
        facts["upSeconds"] = round(time.monotonic() - began, 3)
        assembly.write_local(options.state_dir, facts)
        serve.admin.deployed()
        notify({"ready": facts})
        ended.wait()
    return 0


def own_parameters(template: Path, port: int) -> dict[str, str]:
    """What the local cloud knows of itself, where the template asks for it."""
    named = API_PARAMETER in template.read_text() if template.is_file() else False
    return {API_PARAMETER: f"http://127.0.0.1:{port}/_parallelcluster"} if named else {}


def build(
    state_dir: Path,
    listener: socket.socket,
    *,
    enforce_iam: bool,
    end: Callable[[], None],
    update: assembly.Update,
    image: Path | None = None,
) -> tuple[assembly.Serving, Sessions]:
    """Put a cloud with clusters together; with the image of a disk, its nodes are machines.

    Raises MotoChanged. Once per process.
    """
    cloud = LocalCloud(
        state_dir, listener.getsockname()[1], access=operations.access(enforce=enforce_iam)
    )
    serving = assembly.build(
        cloud,
        listener,
        end=end,
        update=update,
        fast=os.environ.get(STOCK_SPEED) != "1",
        calls=admin_calls.calls(cloud),
        around_moto=partial(quirky_heads, cloud),
    )
    cloud.access.forbids.append(partial(forbids, cloud))
    kind = None if image is None else _machine_nodes(cloud, image, serving)
    return serving, _install_nodes(cloud, kind)


def _machine_nodes(cloud: LocalCloud, image: Path, serving: assembly.Serving) -> NodeKind:
    from trainyard_local.hyperpod.node_kinds import MachineNodes
    from trainyard_local.machines.cloud import Machines

    machines = Machines(cloud, image, serving.beside)
    cloud.on_shutdown.append(machines.close)
    return MachineNodes(machines)


def _install_nodes(cloud: LocalCloud, kind: NodeKind | None) -> Sessions:
    """SageMaker and Session Manager, backed by real nodes and hosts, and their prices."""
    from trainyard_local import faults
    from trainyard_local.fsx import http as fsx
    from trainyard_local.hyperpod import prices
    from trainyard_local.hyperpod import service as hyperpod
    from trainyard_local.parallelcluster import service as parallelcluster
    from trainyard_local.sessions import service as sessions
    from trainyard_local.training_jobs import faults as job_faults
    from trainyard_local.training_jobs import service as training_jobs

    cloud.services[prices.SERVICE] = partial(prices.answer, cloud)
    lustre = fsx.install(cloud)
    pods = hyperpod.install(cloud, kind=kind)
    parallelcluster.install(cloud, pods.ports, fsx=lustre)
    jobs = training_jobs.install(cloud)
    cloud.reporters["nodes"] = lambda: faults.status(cloud)
    cloud.reporters["trainingJobs"] = lambda: job_faults.status(jobs)
    return sessions.install(cloud)


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    # Every part has been ended. A thread that still waits for something must not keep the process.
    os._exit(status)
