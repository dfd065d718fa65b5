"""The local cloud's one process: `python -m trainyard_local.server --state-dir DIR` hooks moto, deploys the template and serves both."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trainyard_local.local_cloud import NAMING, LocalCloud, forbids, quirky_heads

log = logging.getLogger("trainyard.server")

Notify = Callable[[Mapping[str, Any]], None]
#: Takes a template and runs its code from now on.
Update = Callable[[Path], None]


def main() -> int:
    """Entry point; progress and the outcome of the start go to --notify-fd as JSON lines."""
    options = _options()
    notify = _notifier(options.notify_fd)
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    _environment(options.state_dir)
    sys.setswitchinterval(
        0.001
    )  # many short requests in one process: 5 ms, Python's default, is what each would wait for another
    try:
        return _run(options, notify)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the one who called `up` must be told
        notify({"error": _explain(error), "kind": _kind(error)})
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainyard_local.server", description=__doc__)
    parser.add_argument("--state-dir", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--port", type=int, default=4780)
    parser.add_argument("--template", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument(
        "--parameters", type=json.loads, default={}, help="JSON object of template parameters"
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
        with contextlib.suppress(OSError):  # whoever started us may be gone; the cloud is not
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

    return notify


def _environment(state_dir: Path) -> None:
    """The tag by which `down` finds us, no look at the machine's AWS configuration, and no call to a metadata service."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        {
            NAMING.tag: str(state_dir),
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MOTO_ACCOUNT_ID": "123456789012",
        }
    )


def _explain(error: Exception) -> str:
    from trainyard_local.http_server import PortTaken
    from trainyard_local.intrinsics import TemplateError
    from trainyard_local.machine_host import Impossible
    from trainyard_local.pinned import MotoChanged

    if isinstance(error, PortTaken | TemplateError | MotoChanged | Impossible):
        return str(error)
    if _disk_full(error):
        return "no space is left on the state directory's disk"
    log.error("the local cloud could not start", exc_info=error)
    return f"{type(error).__name__}: {error} (the server's log has the whole story)"


def _kind(error: Exception) -> str:
    """What the one who called `up` may do about it."""
    from trainyard_local.http_server import PortTaken
    from trainyard_local.intrinsics import TemplateError
    from trainyard_local.machine_host import Impossible

    if _disk_full(error):
        return "disk"
    kinds = {PortTaken: "port", TemplateError: "template", Impossible: "machines"}
    return next((kind for known, kind in kinds.items() if isinstance(error, known)), "defect")


def _disk_full(error: Exception) -> bool:
    """Of a whole tree's copies shutil knows the words only."""
    return isinstance(error, OSError) and (
        error.errno == errno.ENOSPC
        or (error.errno is None and os.strerror(errno.ENOSPC) in str(error))
    )


def _run(options: argparse.Namespace, notify: Notify) -> int:
    began = time.monotonic()
    gc.disable()  # nearly all that is made until the cloud is up stays
    notify({"progress": "starting the cloud"})
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    from trainyard_local import machine_cloud
    from trainyard_local.deployment import Deployment

    deployment = Deployment(options.state_dir, options.parameters)
    translated = deployment.translated(options.template)
    image = (
        machine_cloud.image(lambda words: notify({"progress": words}))
        if options.nodes == "machines"
        else None
    )
    cloud, serve = build(
        options.state_dir,
        options.port,
        enforce_iam=not options.no_iam,
        end=ended.set,
        update=deployment.update,
        image=image,
    )
    with serve:
        notify({"progress": "deploying the template"})
        facts = deployment.make(cloud, translated, options.template)
        gc.freeze()  # and would hold up every thread for 0.1 s whenever it is looked through
        gc.enable()
        facts["nodes"] = options.nodes
        facts["sessionPort"] = cloud.session_port
        facts["adminToken"] = serve.admin.token
        facts["upSeconds"] = round(time.monotonic() - began, 3)
        write_local(options.state_dir, facts)
        serve.admin.ready = True
        notify({"ready": facts})
        ended.wait()
    return 0


class Serving:
    """The running parts of a cloud, ended together."""

    def __init__(
        self, cloud: LocalCloud, end: Callable[[], None], update: Update, port: int
    ) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        from trainyard_local import admin_calls
        from trainyard_local.admin import Admin
        from trainyard_local.front import Front
        from trainyard_local.http_server import LoopbackServer

        self.cloud = cloud
        self.admin = Admin(cloud, end, update, admin_calls.calls(cloud))
        moto = quirky_heads(cloud, DomainDispatcherApplication(create_backend_app))
        self.server = LoopbackServer(port, Front(cloud, self.admin, moto))
        cloud.port = self.server.port
        self.on_bridge = lambda host, port: LoopbackServer(
            port, Front(cloud, None, moto, hosts=(host,)), host
        )

    def __enter__(self) -> Serving:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for callback in reversed(self.cloud.on_shutdown):
            try:
                callback()
            except Exception:
                log.exception("a part did not end in good order")
        with contextlib.suppress(FileNotFoundError):
            (self.cloud.state_dir / "local.json").unlink()


def build(
    state_dir: Path,
    port: int,
    *,
    enforce_iam: bool,
    end: Callable[[], None],
    update: Update,
    image: Path | None = None,
) -> tuple[LocalCloud, Serving]:
    """Hook moto and install every part; with the image of a disk, nodes are machines. Raises PortTaken, MotoChanged. Once per process."""
    from trainyard_local import lean, pinned

    pinned.check_version()
    lean.install()  # before the imports below
    from trainyard_local import (
        caches,
        checksums,
        gate,
        locks,
        machines,
        partitions,
        quotas,
        secret_deletion,
        transactions,
    )
    from trainyard_local.access import Access
    from trainyard_local.bus import Bus
    from trainyard_local.functions import Functions
    from trainyard_local.gateway import Gateway
    from trainyard_local.logs import LogWriter
    from trainyard_local.machine_cloud import Machines
    from trainyard_local.schedules import Schedules

    cloud = LocalCloud(state_dir=state_dir, port=port)
    serving = Serving(cloud, end, update, port)
    cloud.access = Access(cloud.account_id, enforce=enforce_iam)
    cloud.access.forbids.append(partial(forbids, cloud))
    cloud.credentials = cloud.access.environment
    cloud.may_assume = cloud.access.may_assume
    writer, bus = LogWriter(cloud), Bus(cloud)
    cloud.write_log, cloud.put_event, cloud.read_prefix = (
        writer.write,
        bus.put_event,
        lambda bucket, prefix: _read_prefix(cloud, bucket, prefix),
    )
    cloud.functions = Functions(cloud)
    cloud.functions.send_dead_letter = bus.send_to_queue
    cloud.gateway = Gateway(cloud)
    cloud.schedules = Schedules(cloud)
    cloud.on_shutdown += [writer.close, cloud.functions.close, bus.close, cloud.schedules.close]
    cloud.reporters.update(
        apis=cloud.gateway.report, iam=cloud.access.report, functions=cloud.functions.report, bus=bus.report,
        schedules=cloud.schedules.report, machines=lambda: machines.report(cloud),
    )  # fmt: skip
    caches.install()
    partitions.install()
    transactions.install()
    locks.install()  # around both
    checksums.install()
    secret_deletion.install()
    gate.install(cloud.access)
    bus.install()
    machines.install(cloud)
    quotas.install()
    if image is not None:
        cloud.machines = Machines(cloud, image, serving.on_bridge)
        cloud.on_shutdown.append(cloud.machines.close)
    _install_nodes(cloud)
    return cloud, serving


def _install_nodes(cloud: LocalCloud) -> None:
    """SageMaker's clusters and Session Manager, backed by real nodes, and their prices."""
    from trainyard_local import faults, hyperpod, prices, sessions

    cloud.services[prices.SERVICE] = partial(prices.answer, cloud)
    hyperpod.install(cloud)
    sessions.install(cloud)
    cloud.reporters["nodes"] = lambda: faults.status(cloud)


def _read_prefix(cloud: LocalCloud, bucket: str, prefix: str) -> dict[str, bytes]:
    """Raises FileNotFoundError when there is no such bucket: what needs its files fails by it, and says so."""
    from moto.s3.exceptions import MissingBucket
    from moto.s3.models import s3_backends

    try:
        keys = s3_backends[cloud.account_id]["aws"].get_bucket(bucket).keys
    except MissingBucket:
        raise FileNotFoundError(
            f"s3://{bucket}/{prefix}: The specified bucket does not exist"
        ) from None
    return {
        name.removeprefix(prefix): key.value
        for name, key in keys.items()
        if name.startswith(prefix) and hasattr(key, "value")
    }


def write_local(state_dir: Path, facts: Mapping[str, Any]) -> None:
    """local.json, readable by its owner only, there either wholly or not at all."""
    handle, temporary = tempfile.mkstemp(
        dir=state_dir, prefix=".local-", suffix=".json"
    )  # mkstemp gives mode 0600
    with os.fdopen(handle, "w") as file:
        json.dump(facts, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, state_dir / "local.json")


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    os._exit(
        status
    )  # every part has been ended; a thread that still waits for something must not keep the process
