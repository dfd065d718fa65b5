"""Puts the parts of a local cloud together: hooks moto, installs each, and serves them as one."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sam_on_moto.cloud import Cloud, Handler, Naming
from sam_on_moto.moto_patches import pinned

if TYPE_CHECKING:
    from sam_on_moto.http.admin import Call

log = logging.getLogger(__name__)

Application = Callable[..., Iterable[bytes]]
#: Takes a template and runs its code from now on.
Update = Callable[[Path], None]


def environment(naming: Naming, state_dir: Path) -> None:
    """The tag by which our processes are found; nothing of the machine's own AWS configuration.

    No metadata service is asked either.
    """
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        {
            naming.tag: str(state_dir),
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MOTO_ACCOUNT_ID": "123456789012",
        }
    )


class Serving:
    """The running parts of a cloud, ended together."""

    def __init__(
        self,
        cloud: Cloud,
        end: Callable[[], None],
        update: Update,
        *,
        calls: Mapping[Call, Handler],
        around_moto: Callable[[Application], Application],
    ) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        from sam_on_moto.http.admin import Admin
        from sam_on_moto.http.front import Front
        from sam_on_moto.wire.server import LoopbackServer

        self.cloud = cloud
        self.admin = Admin(cloud, end, update, calls)
        moto = around_moto(DomainDispatcherApplication(create_backend_app))
        self.server = LoopbackServer(cloud.port, Front(cloud, self.admin, moto))
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
    cloud: Cloud,
    *,
    end: Callable[[], None],
    update: Update,
    enforce_iam: bool = True,
    fast: bool = True,
    calls: Mapping[Call, Handler] | None = None,
    around_moto: Callable[[Application], Application] = lambda moto: moto,
) -> Serving:
    """Hook moto and install every part. Raises PortTaken, MotoChanged. Once per process.

    Without `fast`, moto gets no patch that only makes it faster. A product adds its admin `calls`,
    and its own application `around_moto`.
    """
    pinned.check_version()
    if fast:
        from sam_on_moto.speed import patches as speed_patches

        speed_patches.install(cloud)
    from sam_on_moto.iam.access import Access

    serving = Serving(cloud, end, update, calls=calls or {}, around_moto=around_moto)
    cloud.access = Access(cloud.account_id, enforce=enforce_iam)
    cloud.credentials = cloud.access.environment
    cloud.may_assume = cloud.access.may_assume
    cloud.read_prefix = partial(read_prefix, cloud)
    _install_parts(cloud)
    _hook_moto(cloud)
    return serving


def _install_parts(cloud: Cloud) -> None:
    """What runs beside moto."""
    from sam_on_moto import step_functions
    from sam_on_moto.bus.bus import Bus
    from sam_on_moto.bus.schedules import Schedules
    from sam_on_moto.functions.logs import LogWriter
    from sam_on_moto.functions.registry import Functions
    from sam_on_moto.http.gateway import Gateway

    writer, bus = LogWriter(cloud), Bus(cloud)
    cloud.write_log, cloud.put_event = writer.write, bus.put_event
    cloud.functions = Functions(cloud)
    cloud.functions.send_dead_letter = bus.send_to_queue
    cloud.gateway = Gateway(cloud)
    cloud.schedules = Schedules(cloud)
    cloud.on_shutdown += [writer.close, cloud.functions.close, bus.close, cloud.schedules.close]
    cloud.reporters.update(
        apis=cloud.gateway.report,
        iam=cloud.access.report,
        functions=cloud.functions.report,
        bus=bus.report,
        schedules=cloud.schedules.report,
        machines=lambda: step_functions.report(cloud),
    )
    bus.install()


def _hook_moto(cloud: Cloud) -> None:
    """What moto lacks or does otherwise than AWS."""
    from sam_on_moto import step_functions
    from sam_on_moto.iam import gate
    from sam_on_moto.moto_patches import checksums, locks, quotas, secret_deletion

    locks.install()  # around what makes tables fast
    checksums.install()
    secret_deletion.install()
    gate.install(cloud.access, cloud.operations)
    step_functions.install(cloud)
    quotas.install()


def read_prefix(cloud: Cloud, bucket: str, prefix: str) -> dict[str, bytes]:
    """The objects below a prefix, by the rest of their keys.

    Raises FileNotFoundError when there is no such bucket: what needs its files says so.
    """
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
