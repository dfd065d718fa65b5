"""Composes the agent of one node: a sampler, checks and a link on every node.

The controller's agent also has the parts of controller.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import logging.handlers
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard_agent.checks import Node, discover
from trainyard_agent.host.accelerators import Accelerators
from trainyard_agent.host.configuration import load, load_key
from trainyard_agent.host.sampling import Sampler
from trainyard_agent.nodes.health import Health
from trainyard_agent.nodes.link_client import LinkClient
from trainyard_agent.nodes.spot_watch import SpotWatch
from trainyard_contracts.agent_config import AgentConfig

if TYPE_CHECKING:
    from trainyard_agent.controller import Controller

log = logging.getLogger("trainyard_agent")

# Between two looks for room on a disk that has none for the outbox.
ROOM_SECONDS = 2.0


class AlreadyRunning(Exception):
    """Another daemon serves this node."""


def run_daemon(config_path: str) -> int:
    """Run until SIGTERM; 0 then, 1 if it cannot start."""
    try:
        config = load(config_path)
        key = load_key(config)
        prepare(config)
        lock = take_lock(Path(config.state_dir) / "agent.pid")
    except (OSError, ValueError, AlreadyRunning) as error:
        print(f"trainyard-agent cannot start: {error}", file=sys.stderr)
        return 1
    try:
        asyncio.run(serve(config, key))
    finally:
        os.close(lock)
    return 0


def prepare(config: AgentConfig) -> None:
    """State directory and log.

    The directory may be entered by others because the epilog's socket lies in it.
    """
    state = Path(config.state_dir)
    state.mkdir(parents=True, exist_ok=True, mode=0o711)
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    log_dir = state.parent.parent / "log" / "trainyard"
    if log_dir.is_dir():
        handlers = [
            logging.handlers.RotatingFileHandler(
                log_dir / "agent.log", maxBytes=4 * 1024 * 1024, backupCount=2
            )
        ]
    logging.basicConfig(
        level=logging.INFO,
        handlers=handlers,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)


def take_lock(path: Path) -> int:
    """Hold agent.pid while this process lives. Raises AlreadyRunning."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyRunning(f"another agent holds {path}; stop it first") from None
    with contextlib.suppress(OSError):  # of a full disk: the lock counts, the number is for people
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


async def serve(config: AgentConfig, key: bytes) -> None:
    """Everything this node's role needs, until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(break_off)
    threading.excepthook = thread_broke
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    accelerators = Accelerators()
    sampler = Sampler(config, accelerators)
    health = Health(Node(config, accelerators), discover())
    log.info("agent of %s (%s) starts", config.node_name, config.role)
    parts: list[Coroutine[Any, Any, None]] = [check_health(health)]
    closing = accelerators.close
    if config.role == "controller":
        controller = await make_controller(config, key, sampler, health, stop)
        if controller is None:
            return
        await controller.start()
        parts.extend(controller.parts())
        closing = _both(controller.close, accelerators.close)
    else:
        spot = SpotWatch(config.metadata_endpoint)
        if config.spot:
            parts.append(watch_spot(spot))
        link = LinkClient(config, key, sampler.take, health.verdicts, lambda: spot.notice)
        parts.append(link.run())
    tasks = [asyncio.create_task(keep_running(part)) for part in parts]
    await stop.wait()
    # From here on we cancel all tasks. Errors that come of that must not make the agent end as if
    # it had failed.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    closing()
    log.info("agent of %s stops", config.node_name)


async def make_controller(
    config: AgentConfig, key: bytes, sampler: Sampler, health: Health, stop: asyncio.Event
) -> Controller | None:
    """The controller; None if the agent was stopped before.

    It waits while the disk has no room for the outbox. To die and be started again each second
    would cost the node more.
    """
    from trainyard_agent.controller import (
        Controller,
    )  # workers never load what only the controller needs
    from trainyard_agent.events.damage import no_room

    while not stop.is_set():
        try:
            return Controller(config, key, sampler, health)
        except sqlite3.OperationalError as error:
            if not no_room(error):
                raise
            log.error("the agent waits for room in %s: %s", config.state_dir, error)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), ROOM_SECONDS)
    return None


def _both(first: Any, second: Any) -> Any:
    def close() -> None:
        first()
        second()

    return close


async def keep_running(part: Coroutine[Any, Any, None]) -> None:
    """A part that breaks ends the whole agent.

    Its supervisor starts it again from its stored state.
    """
    try:
        await part
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001
        end("a part of the agent broke", error)


def break_off(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The event loop's handler of errors that no task caught."""
    error = context.get("exception")
    if isinstance(
        error, (ConnectionError, TimeoutError, asyncio.TimeoutError)
    ):  # a connection's timeout; two classes until Python 3.11
        loop.default_exception_handler(context)
    else:
        end(context["message"], error)


def end(message: str, error: BaseException | None) -> None:
    """End the whole agent; it is started again. Half an agent is worse than none for a second."""
    log.critical("%s; the agent ends and is started again", message, exc_info=error)
    logging.shutdown()
    os._exit(70)


def thread_broke(thread: threading.ExceptHookArgs) -> None:
    """End the agent when its outbox's thread breaks: it would look alive and report nothing."""
    end(f"the thread {thread.thread and thread.thread.name} broke", thread.exc_value)


async def watch_spot(spot: SpotWatch) -> None:
    """A part runs as long as the agent does."""
    await spot.run()
    await asyncio.Event().wait()


async def check_health(health: Health) -> None:
    while True:
        await asyncio.sleep(min(60.0, max(0.2, health.next_due())))
        await asyncio.to_thread(health.run_due)
