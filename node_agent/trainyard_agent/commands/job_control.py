"""Submit, cancel, status, logs: what the control plane asks of the controller.

Each is safe to repeat after a crash at any line.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.restoring import Restores
from trainyard_agent.checkpoints.starting import Starts
from trainyard_agent.checkpoints.watching import Watching
from trainyard_agent.host.background import Background
from trainyard_agent.host.configuration import attempt_dir, run_dir, runs_root
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_secrets import SecretRefused, Secrets
from trainyard_agent.host.locations import parse_uri
from trainyard_agent.host.s3 import S3
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_names import compress
from trainyard_agent.jobs import git_code, log_times, rank_logs, unpacking, work
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempt_files import (
    BadBundle,
    job_marks,
    parse_bundle,
    sbatch_options,
    write_attempt,
)
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.jobs.fence import raise_fence
from trainyard_agent.jobs.follow import Follower
from trainyard_agent.jobs.hosts import Hosts
from trainyard_agent.jobs.images import Images
from trainyard_agent.jobs.inputs import Inputs
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.traces import matching_lines, read_tail
from trainyard_agent.nodes.links import Links
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_agent.nodes.returns import OURS
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.commands import Cancelling, CheckedOut, Excluded, Logs, Submitted, Tail
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)

#: Between the request to stop and the end by force: time for a checkpoint at the next step.
CANCEL_GRACE_SECONDS = 20.0
# Between two tries of a scancel that Slurm did not take, growing.
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 10.0
MAX_LOG_BYTES = 256 * 1024
REASON = f"{OURS}: node lost"
#: Slurm's states of a node on which a job runs.
BUSY = frozenset({"allocated", "mixed"})


async def _at_once(run_id: str) -> None:
    """There is nothing to wait for."""


class JobControl:
    """Commands about runs. One command at a time for each run."""

    def __init__(
        self,
        config: AgentConfig,
        slurm: Slurm,
        *,
        attempts: Attempts,
        follower: Follower,
        progress: ProgressReader,
        table: NodeTable,
        hosts: Hosts,
        link: Links,
        s3: S3,
        checkpoints: Checkpoints,
        watching: Watching,
        restores: Restores,
        secrets: Secrets | None = None,
        settled: Callable[[str], Awaitable[None]] = _at_once,
    ) -> None:
        """`settled`: waits for a job of the run that saves itself from a node that ends."""
        self._config, self._slurm, self._attempts = config, slurm, attempts
        self._follower, self._progress, self._table = follower, progress, table
        self._hosts, self._link, self._s3, self._checkpoints = hosts, link, s3, checkpoints
        self._secrets = secrets or Secrets(config.region)
        self._watching, self._restores, self._settled = watching, restores, settled
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._background = Background()
        self._uploads = unpacking.Uploads(s3)
        self._images = Images(config)
        self._starts = Starts(s3)
        named = Path(config.shared_path or config.shared_root)
        shared = git_code.Shared(Path(config.shared_root), named)
        self._checkouts = git_code.Checkouts(s3, self._secrets, shared)
        self._inputs = Inputs(config, s3)

    # -- submit -----------------------------------------------------------------------------------
    async def submit(
        self, run_id: str, number: int, bundle_uri: str, sha256: str = "", code: str = ""
    ) -> Submitted:
        """Submit the attempt's job, or say which job it already has.

        `sha256`: of the bundle, in hexadecimal; empty: not checked. `code`: the tree that the
        bundle names. The run's lock is not held while that is fetched.
        """
        deadline = time.monotonic() + unpacking.WAIT_SECONDS
        while True:
            async with self._locks[run_id]:
                attempt = self._attempts.known.get((run_id, number))
                if attempt is not None and attempt.job_id:
                    return await self._submitted(attempt)
                bundle = await self._bundle(run_id, number, bundle_uri, sha256, code)
                directory = run_dir(self._config, run_id)
                coming = self._coming(bundle, directory, parse_uri(bundle_uri).bucket)
                if coming is None:
                    return await self._submitted(await self._submit(bundle, bundle_uri, attempt))
            await coming(deadline)

    def _coming(
        self, bundle: JobBundle, directory: Path, bucket: str
    ) -> Callable[[float], Awaitable[None]] | None:
        """Bring what is not there yet, one after the other: a wait until a deadline for the next.

        None: the program has all that it needs.
        """
        if (code := self._uploads.bring(directory, bundle, bucket)) is not None:
            return partial(self._uploads.wait, code)
        if (results := self._restores.bring(bundle)) is not None:
            return partial(self._restores.wait, results)
        if not self._starts.brought(directory, bundle):
            return partial(self._starts.bring, directory, bundle, bucket)
        if (data := self._inputs.bring(bundle, bucket)) is not None:
            return partial(self._inputs.wait, data)
        return None

    async def checkout(self, run_id: str, number: int, bundle_uri: str, sha256: str) -> CheckedOut:
        """Bring the commit that the bundle names into S3; answers with the tree of its files.

        No lock is held: nothing but the run's own stage is written.
        """
        body = await self._fetch(bundle_uri, sha256)
        bundle = parse_bundle(body, run_id, number, self._config.cluster_name)
        if bundle.git is None:
            raise BadBundle("the bundle names no repository")
        root = run_dir(self._config, run_id)
        return await self._checkouts.bring(root, bundle, parse_uri(bundle_uri).bucket)

    async def _submitted(self, attempt: Attempt) -> Submitted:
        bundle, changed = bundle_of(attempt), ""
        if bundle is not None and attempt.number > 1:
            root = run_dir(self._config, attempt.run_id)
            changed = await asyncio.to_thread(work.changed, root, bundle)
        digest = bundle.image.digest if bundle and bundle.image else ""
        inputs = self._inputs.words(bundle) if bundle is not None else ""
        return Submitted(attempt.job_id, attempt.state, attempt.number, changed, digest, inputs)

    async def _bundle(
        self, run_id: str, number: int, uri: str, sha256: str, code: str
    ) -> JobBundle:
        self._refuse_older(run_id, number)
        body = await self._fetch(uri, sha256)
        bundle = parse_bundle(body, run_id, number, self._config.cluster_name)
        if code != (bundle.code.tree if bundle.code else ""):
            raise BadBundle(f"the bundle names another code than the command: {code or 'none'}")
        await self._require_secrets(bundle)
        return await self._with_image(bundle)

    async def _with_image(self, bundle: JobBundle) -> JobBundle:
        """No node is used for a job whose image it cannot have."""
        if bundle.image is None:
            return bundle
        known = self._attempts.known.items()
        earlier = [bundle_of(attempt) for (run, _), attempt in known if run == bundle.run_id]
        nodes, pyxis = await self._slurm.nodes(), await self._slurm.has_pyxis()
        return await asyncio.to_thread(self._images.settled, bundle, earlier, nodes, pyxis)

    async def _submit(self, bundle: JobBundle, uri: str, before: Attempt | None) -> Attempt:
        run_id, number = bundle.run_id, bundle.attempt
        directory = attempt_dir(self._config, run_id, number)
        attempt = before or Attempt(run_id, number, "intent", directory, uri)
        attempt.bundle = bundle
        if attempt.state == "submitting" and await self._take_up(attempt):
            return attempt
        self._attempts.save(attempt, must=True, state="intent")
        await self._settled(run_id)
        await self._end_older(run_id, number)
        script = await asyncio.to_thread(self._prepare, attempt, bundle, self._hosts.addresses())
        # Older processes have ended and the fence is up: nobody of ours writes to its files now.
        await self._watching.before(attempt, bundle)
        unready = await self._hand_in(attempt, bundle, script)
        self._is_in(attempt)
        for node in unready - self._table.unready():  # set up in the meantime
            self._background.spawn(self._admit(attempt, node))
        return attempt

    def _refuse_older(self, run_id: str, number: int) -> None:
        newest = self._attempts.newest(run_id)
        if newest is not None and newest.number > number:
            raise CommandRefused(
                "fenced",
                f"attempt {newest.number} of {run_id} exists already; "
                f"attempt {number} must not run",
            )

    async def _hand_in(self, attempt: Attempt, bundle: JobBundle, script: Path) -> set[str]:
        """sbatch; returns the nodes that the job must not use, since they are still set up."""
        # From here on a job may exist whose number we do not know. After a crash we look for it
        # by its name.
        self._attempts.save(attempt, must=True, state="submitting")
        known = await self._slurm.nodes()
        self._table.take(known)
        unready = self._table.unready()
        freed = self._attempts.nodes_before(attempt)
        options = sbatch_options(bundle, attempt.directory, known, unready, freed)
        job_id = await self._slurm.submit(options, str(script), job_marks(bundle))
        # Not before: Slurm starts waiting jobs the moment another one ended on its last node, but
        # a job that is new after up to a second (up to three with SchedulerParameters that are
        # not ours).
        await self._set_down(bundle.down_nodes, freed)
        self._attempts.save(attempt, state="submitted", job_id=job_id)
        excluded = bundle.exclude_nodes or "nothing"
        log.info("%s: submitted as job %s, excluding %s", attempt, job_id, excluded)
        return unready

    async def exclude(self, run_id: str, number: int, nodes: Sequence[str]) -> Excluded:
        """Set all nodes that the attempt's waiting job must not use.

        A job that runs or has ended keeps its nodes.
        """
        async with self._locks[run_id]:
            attempt = self._attempts.known.get((run_id, number))
            if attempt is not None and attempt.state == "submitting":
                await self._take_up(attempt)
            if attempt is None or attempt.state != "submitted":
                return Excluded(
                    attempt.job_id if attempt else "", attempt.state if attempt else "unknown"
                )
            known = await self._slurm.nodes()  # which refuses to exclude any other
            attempt.exclusion_set = True
            waits = await self._slurm.exclude(
                attempt.job_id, sorted(node for node in set(nodes) if node in known)
            )
            attempt.wake.set()
            named = ",".join(nodes) or "nothing"
            log.info("%s: job %s excludes %s now", attempt, attempt.job_id, named)
            return Excluded(attempt.job_id, attempt.state, waits)

    async def _fetch(self, uri: str, sha256: str) -> bytes:
        try:
            body = await asyncio.to_thread(self._s3.get, parse_uri(uri))
        except Unreachable as error:
            raise CommandRefused(
                "unreachable", f"S3 does not answer: {error}; the same command again is safe"
            ) from error
        except Refused as error:
            raise CommandRefused("bundle-refused", f"S3 refuses {uri}: {error}") from error
        if body is None:
            raise CommandRefused("bundle-missing", f"there is no object {uri}")
        found = hashlib.sha256(body).hexdigest()
        if sha256 and found != sha256:
            raise CommandRefused(
                "bundle-changed",
                f"{uri} was overwritten after Trainyard wrote it (SHA-256 {found[:16]}..., "
                f"not {sha256[:16]}...), so nothing of it is run; find out who else may write "
                "there (CloudTrail's data events of the bucket tell)",
            )
        return body

    async def _require_secrets(self, bundle: JobBundle) -> None:
        """No node is used for a job whose secrets cannot be read; the values are dropped here."""
        if not bundle.secrets:
            return
        try:
            await asyncio.to_thread(self._secrets.read, bundle.secrets)
        except SecretRefused as refused:
            raise CommandRefused("secret-refused", f"job.secrets: {refused}") from refused
        except Unreachable as error:
            words = f"Secrets Manager does not answer: {error}; the same command again is safe"
            raise CommandRefused("unreachable", words) from error

    async def _end_older(self, run_id: str, number: int) -> None:
        """Kill what older attempts left on every node that answers.

        Processes on a silent node cannot commit, because of the fence.
        """
        older = [a for (run, n), a in self._attempts.known.items() if run == run_id and n < number]
        if number > 1 or older:
            # After a slurmctld crashed, an older job's number may be another run's by now.
            others = {a.job_id for a in self._attempts.active() if a.run_id != run_id}
            killed = await self._link.kill(
                run_id, number - 1, [a.job_id for a in older if a.job_id not in ("", *others)]
            )
            log.info("%s: leftovers killed: %s", run_id, killed)

    def _prepare(self, attempt: Attempt, bundle: JobBundle, hosts: dict[str, str]) -> Path:
        """Write the attempt's files, then raise the fence; it runs in a thread."""
        root = run_dir(self._config, attempt.run_id)
        root.mkdir(parents=True, exist_ok=True)
        script = write_attempt(attempt.directory, bundle, self._config, hosts)
        self._inputs.lay(bundle)
        raise_fence(root, attempt.number)
        return script

    def node_linked(self, name: str, first: bool) -> None:
        """Take note of a linked node. `first`: it is set up now, so waiting jobs may use it."""
        self._hosts.members_changed()
        if first:
            for attempt in self._attempts.active():
                self._background.spawn(self._admit(attempt, name))

    async def _admit(self, attempt: Attempt, name: str) -> None:
        async with self._locks[attempt.run_id]:
            try:
                job = (
                    await self._slurm.job(attempt.job_id) if attempt.state == "submitted" else None
                )
                if (
                    job is not None
                    and name in job.excluded
                    and await self._slurm.exclude(job.job_id, sorted({*job.excluded} - {name}))
                ):
                    words = "%s: job %s may use %s, which is set up now"
                    log.info(words, attempt, job.job_id, name)
            except SlurmError as error:
                log.warning("%s: its job may still not use %s: %s", attempt, name, error)

    async def _set_down(self, nodes: list[str], before: Collection[str] = ()) -> None:
        """Set dead nodes down: Slurm then ends what ran there, instead of waiting for it.

        A node that is back meanwhile, or whose name another machine has, stays up. One that comes
        back in this very moment may be set down all the same: the look at Slurm's nodes gives it
        back. A node on which Slurm has somebody else's job is left to Slurm: the job may go on
        though agent and slurmd do not answer. `before`: the nodes of the run's older job.
        """
        if nodes:  # HyperPod may have begun a moment ago to repair one of these nodes
            self._table.take(await self._slurm.nodes())
        found = [(node, self._table.slurm_nodes.get(node)) for node in nodes]
        ours = {*before, *(node for one in self._attempts.active() for node in one.nodes)}
        gone = [
            node
            for node, known in found
            if known is not None
            and not known.under_repair
            and (known.base not in BUSY or node in ours)
            and not self._table.serving(node)
            and not self._table.replaced(node)
        ]
        if gone:
            await self._slurm.set_node(compress(gone), "down", REASON)
            self._table.look.set()

    async def _take_up(self, attempt: Attempt) -> bool:
        """Finish a submission that was cut short; whether there is a job of it."""
        bundle = bundle_of(attempt)
        before = self._attempts.nodes_before(attempt)
        await self._set_down(bundle.down_nodes if bundle else [], before)
        found = await self._follower.adopt(attempt)
        if found:
            self._is_in(attempt)
        return found

    def _is_in(self, attempt: Attempt) -> None:
        """Slurm has its job, and we know which."""
        self._follower.follow(attempt)
        self._hosts.rewrite(attempt)
        self._background.spawn(self._cancel_older(attempt.run_id))

    async def _cancel_older(self, run_id: str) -> None:
        """Of the run's jobs that still wait or run, all but the newest are ended.

        Before the newest is in, this would cost seconds (measured).
        """
        known = [a for (run, _), a in self._attempts.known.items() if run == run_id and a.job_id]
        known.sort(key=lambda attempt: attempt.number)
        for older in known[:-1]:
            # A slurmctld that crashed may give the same number to the next job.
            if older.job_id != known[-1].job_id and not older.done.is_set():
                await self._cancel_job(older)
                older.eager_until = time.monotonic() + 10.0
                older.wake.set()

    # -- cancel -----------------------------------------------------------------------------------
    async def cancel(self, run_id: str) -> Cancelling:
        """Ask the job to stop; end it by force if it does not in time."""
        self._inputs.stop(run_id)
        async with self._locks[run_id]:
            attempt = self._attempts.newest(run_id)
            if attempt is None:
                return Cancelling("none")
            if attempt.state == "submitting":
                await self._take_up(attempt)
            # If the newest has no job, as its submission was cut short, the one before may have.
            active = [older for older in self._attempts.active() if older.run_id == run_id]
            if not active:
                return Cancelling("ended")
            attempt = max(active, key=lambda one: one.number)
            if not self._attempts.cancelled(attempt):
                self._attempts.request_cancel(attempt)
                self._background.spawn(self._stop(attempt))
            return Cancelling("cancelling")

    def resume(self) -> None:
        """After a restart: find the jobs of submissions that were cut short.

        And go on with what was being cancelled or replaced.
        """
        if not self._attempts.known:
            self._recall()
        for attempt in self._attempts.known.values():
            if attempt.state == "submitting":
                self._background.spawn(self._adopt(attempt))
            elif attempt.active and self._attempts.cancelled(attempt):
                self._background.spawn(self._stop(attempt))
        for run_id in {attempt.run_id for attempt in self._attempts.active()}:
            self._background.spawn(self._cancel_older(run_id))

    def _recall(self) -> None:
        """Find attempts on the shared filesystem, because the store's file may have been damaged.

        The newest attempt of each run may have a job.
        """
        bundles = f"run-*/{places.ATTEMPTS}/*/{places.BUNDLE}"
        for path in runs_root(self._config).glob(bundles):
            run_id, number = path.parents[2].name, path.parent.name
            newest = self._attempts.newest(run_id)
            if number.isdecimal() and (newest is None or newest.number < int(number)):
                self._attempts.known[run_id, int(number)] = Attempt(
                    run_id, int(number), "submitting", path.parent
                )

    async def _adopt(self, attempt: Attempt) -> None:
        """Under the run's lock, because the control plane repeats a submit that was cut short."""
        while True:
            try:
                async with self._locks[attempt.run_id]:
                    if attempt.state == "submitting":
                        await self._take_up(attempt)
                    return
            except SlurmError:
                await asyncio.sleep(1.0)  # Slurm may be starting together with us

    async def _stop(self, attempt: Attempt) -> None:
        # While its nodes are powered up, a job has no process that a signal could reach.
        if attempt.state == "running" and attempt.job_state != "CONFIGURING":
            # A job that waits for a node to be set up has no step yet: only its batch script
            # receives the signal.
            waits = not set(attempt.nodes) <= set(self._hosts.addresses())
            await self._cancel_job(attempt, "--signal=TERM", *(["--batch"] if waits else []))
            try:
                await asyncio.wait_for(attempt.done.wait(), CANCEL_GRACE_SECONDS)
                return
            except asyncio.TimeoutError:
                log.warning(
                    "%s did not stop within %.0f s: killing it",
                    attempt.run_id,
                    CANCEL_GRACE_SECONDS,
                )
            await self._link.kill(attempt.run_id, attempt.number, [attempt.job_id])
        await self._cancel_job(attempt)
        attempt.wake.set()

    async def _cancel_job(self, attempt: Attempt, *options: str) -> None:
        """Repeat scancel until Slurm has accepted it or the job is over.

        If we gave up, the job would go on running although nobody wants it.
        """
        pause = FIRST_PAUSE_SECONDS
        while not attempt.done.is_set():
            try:
                await self._slurm.cancel(attempt.job_id, *options)
                return
            except SlurmError as error:
                log.warning(
                    "job %s of %s cannot be cancelled yet: %s",
                    attempt.job_id,
                    attempt.run_id,
                    error,
                )
                await asyncio.sleep(pause)
                pause = min(LAST_PAUSE_SECONDS, 2 * pause)

    # -- looking ----------------------------------------------------------------------------------
    def status(self, run_id: str) -> dict[str, Any]:
        """The state of the run's newest attempt."""
        attempt = self._attempts.newest(run_id)
        if attempt is None:
            raise CommandRefused("run-not-found", f"this cluster has no attempt of {run_id}")
        self._progress.read(attempt)
        progress = attempt.progress
        return {
            "attempt": attempt.number,
            "jobId": attempt.job_id,
            "state": attempt.state,
            "jobState": attempt.job_state,
            "step": progress.step if progress else None,
            "loss": progress.loss if progress else None,
            "checkpoints": self._checkpoints.known(run_id),
        }

    def logs(self, given: Logs) -> Tail:
        """The tail of what is asked for (blocks). Raises OSError."""
        directory = attempt_dir(self._config, given.run, given.attempt)
        marks, begin = log_times.read(directory) if given.since else [], None
        if given.since:
            attempt = self._attempts.known.get((given.run, given.attempt))
            ended = marks and (attempt is None or not attempt.active)
            begin = (marks[-1].at if ended else time.time()) - given.since
        if given.of_ranks:
            return rank_logs.tail(directory, given, begin, MAX_LOG_BYTES)
        path = directory / places.JOB_LOG
        start = 0 if begin is None else log_times.offset(marks, begin)
        if contains := bytes.fromhex(given.contains):
            return Tail(matching_lines(path, contains, given.lines, MAX_LOG_BYTES, start))
        text = read_tail(path, MAX_LOG_BYTES, start)
        return Tail("\n".join(text.splitlines()[-given.lines :]))
