"""Puts the parts of a local cloud together: hooks moto, installs each, and serves them as one."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sam_on_moto.cloud import Cloud, Handler, Naming
from sam_on_moto.inside.place import ACCOUNT_ID, REGION
from sam_on_moto.moto_patches import pinned
from sam_on_moto.wire.ports import listen

if TYPE_CHECKING:
    from sam_on_moto.gateway.admin import Admin, Call
    from sam_on_moto.template.parts import Parts

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost")

Application = Callable[..., Iterable[bytes]]
#: Takes a template and runs its code from now on, or raises Refused.
Update = Callable[[Path], None]


def parameters(text: str) -> dict[str, str]:
    """A command line's parameters of the template. Raises ArgumentTypeError."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(
        isinstance(value, str | int | float) for value in given.values()
    ):
        raise argparse.ArgumentTypeError(
            f'{text} is no JSON object with a text for each name, such as \'{{"Name": "x"}}\''
        )
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }


def environment(naming: Naming, state_dir: Path) -> None:
    """The tag by which our processes are found; nothing of the machine's own AWS configuration.

    No metadata service is asked either.
    """
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        {
            naming.tag: str(state_dir),
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "MOTO_ACCOUNT_ID": ACCOUNT_ID,
        }
    )


class Serving:
    """The running parts of a cloud, ended together."""

    def __init__(
        self, parts: Parts, admin: Admin, moto: Application, listener: socket.socket
    ) -> None:
        from sam_on_moto.gateway.front import Front
        from sam_on_moto.wire.server import LoopbackServer

        def front(admin: Admin | None, *hosts: str) -> Front:
            return Front(parts.cloud, parts.functions, parts.gateway, admin, moto, hosts)

        self.parts = parts
        self.admin = admin
        self._server = LoopbackServer(listener, front(admin, *LOOPBACK))
        self.beside = lambda host, port: LoopbackServer(listen(port, host), front(None, host))
        """beside(host, port): the same without admin calls at another address; not started."""

    def __enter__(self) -> Serving:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        cloud = self.parts.cloud
        for callback in reversed(cloud.on_shutdown):
            try:
                callback()
            except Exception:
                log.exception("a part did not end in good order")
        with contextlib.suppress(FileNotFoundError):
            (cloud.state_dir / "local.json").unlink()


def build(
    cloud: Cloud,
    listener: socket.socket,
    *,
    end: Callable[[], None],
    update: Update,
    fast: bool = True,
    calls: Mapping[Call, Handler] | None = None,
    around_moto: Callable[[Application], Application] = lambda moto: moto,
) -> Serving:
    """Hook moto, make every part, and serve them where `listener` does. Once per process.

    Without `fast`, moto gets no patch that only makes it faster. A product adds its admin `calls`,
    and its own application `around_moto`. Raises MotoChanged.
    """
    pinned.check_version()
    if fast:
        from sam_on_moto.speed import patches as speed_patches

        speed_patches.install(cloud)
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    from sam_on_moto.gateway.admin import Admin, fire, move_clock

    moto = around_moto(DomainDispatcherApplication(create_backend_app))
    parts = _parts(cloud)
    _hook_moto(parts)
    own: dict[Call, Handler] = {
        ("POST", "fire"): partial(fire, parts.schedules),
        ("POST", "clock"): partial(move_clock, parts.schedules),
    }
    admin = Admin(cloud, end, update, {**own, **(calls or {})})
    return Serving(parts, admin, moto, listener)


def _parts(cloud: Cloud) -> Parts:
    """What runs beside moto."""
    from sam_on_moto.bus.bus import Bus
    from sam_on_moto.bus.schedules import Schedules
    from sam_on_moto.functions import step_functions
    from sam_on_moto.functions.registry import Functions
    from sam_on_moto.gateway.gateway import Gateway
    from sam_on_moto.template.parts import Parts

    functions = Functions(cloud)
    bus, gateway = Bus(functions), Gateway(cloud, functions)
    schedules = Schedules(cloud, functions)
    cloud.logs.start()
    cloud.on_shutdown.extend([cloud.logs.close, functions.close, bus.close, schedules.close])
    cloud.reporters.update(
        apis=gateway.report,
        iam=cloud.access.report,
        functions=functions.report,
        bus=bus.report,
        schedules=schedules.report,
        machines=step_functions.report,
    )
    bus.install()
    schedules.of_api.install()
    return Parts(cloud, functions, gateway, schedules)


def _hook_moto(parts: Parts) -> None:
    """What moto lacks or does otherwise than AWS."""
    from sam_on_moto.functions import log_subscriptions, step_functions
    from sam_on_moto.iam import gate
    from sam_on_moto.moto_patches import (
        checksums,
        locks,
        put_bodies,
        quotas,
        request_ids,
        secret_deletion,
    )

    cloud = parts.cloud
    locks.install()  # around what makes tables fast
    checksums.install()
    put_bodies.install()
    request_ids.install()
    secret_deletion.install()
    gate.install(cloud.access, cloud.operations)
    step_functions.install(cloud.access, parts.functions)
    log_subscriptions.install(parts.functions)
    quotas.install()


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
