"""Goes through the stages, asks the looks after each, stops at what is broken, and tears down."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from ..doctor.account import NotAnswered
from ..problems import FAILED, OK, CliError, InvalidInput
from .evidence import evidence
from .record import Record, now_text
from .register import Look
from .stage_names import StageName
from .stages import Stage
from .teardown import nothing_left, tear_down
from .verdicts import Seen
from .watch import Watch
from .world import Json, World

Tell = Callable[[str], None]
#: On AWS minutes pass between two changes; each look is a call of our API and one or two of AWS's.
POLL_SECONDS, LOCAL_POLL_SECONDS = 5.0, 0.25
TEARDOWN_SECONDS, LOCAL_TEARDOWN_SECONDS = 2400, 240
#: Secrets and executions go a moment after their cluster.
PROOF_SECONDS, LOCAL_PROOF_SECONDS = 600, 60
#: Of the teardown's time the product has so much before SageMaker is asked itself.
PATIENCE = 0.5
ALL = "all"


class Interrupted(BaseException):
    """Catches Ctrl-C, SIGTERM or a closed terminal once; later signals wait for the teardown."""


class Signals:
    """The first signal stops the stages, and none stops the teardown."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, tell: Tell) -> None:
        self._tell, self._held = tell, False
        self._before: dict[int, Any] = {}

    def hold(self) -> None:
        """From now on a signal stops nothing."""
        self._held = True

    def __enter__(self) -> Signals:
        for number in self._NUMBERS:
            # With nohup the terminal may go.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if not self._held:
            self.hold()
            raise Interrupted(signal.Signals(number).name)
        self._tell(
            "It is being torn down, which goes on. After a kill -9: "
            "trainyard first-light --clean FILE"
        )


class FirstLight:
    """One guided run.

    `looks` are asked in their order; of each stage the first broken one is reported.

    `limits` are seconds by a stage's name, and by ALL for the others. The teardown's limit is the
    time that our API has for it before SageMaker is asked. The limit of the proof after it can be
    set by its own name only.
    """

    def __init__(
        self,
        world: World,
        record: Record,
        looks: Iterable[Look],
        tell: Tell,
        *,
        limits: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._world, self._record, self._looks = world, record, list(looks)
        self._tell, self._limits = tell, limits or {}
        self._clock, self._sleep = clock, sleep

    def run(self, stages: list[Stage]) -> int:
        """The exit status.

        Raises nothing: every failure is in the record and in the words at its end.
        """
        document = self._record.document
        stopped: BaseException | None = None
        with Signals(self._tell) as signals:
            try:
                try:
                    paid = sum(self._seconds(one) for one in stages if one.paid)
                    self._world.nodes_are_paid_for(paid + self._teardown_seconds)
                    self._go(stages)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - machines go first
                    stopped = error
                signals.hold()
            except Interrupted as signalled:
                stopped = signalled
            try:
                self._account_for(stopped)
            finally:
                self._clean(force=stopped is not None or document["firstBroken"] is not None)
                self._conclude()
        if document["verdict"] == "held":
            return OK
        return stopped.exit_code if isinstance(stopped, CliError) and not self._made else FAILED

    def clean(self) -> int:
        """The teardown alone, of what an earlier first light left behind."""
        with Signals(self._tell) as signals:
            signals.hold()
            self._clean(force=True)
            document = self._record.document
            if document["verdict"] == "running":
                document.update(
                    verdict="interrupted", words="It was killed; it has been cleaned up since."
                )
            self._write()
        return OK if document["nothingLeft"] else FAILED

    # Stages

    @property
    def _teardown_seconds(self) -> float:
        return LOCAL_TEARDOWN_SECONDS if self._world.local else TEARDOWN_SECONDS

    @property
    def _made(self) -> bool:
        """Whether a cluster may have been asked for."""
        return "create" in self._world.began

    def _seconds(self, stage: Stage) -> float:
        own = stage.local_seconds if self._world.local else stage.seconds
        return min(own, self._limits.get(stage.name, self._limits.get(ALL, own)))

    def _watch(self, seconds: float) -> Watch:
        poll = LOCAL_POLL_SECONDS if self._world.local else POLL_SECONDS
        return Watch(seconds, poll, clock=self._clock, sleep=self._sleep)

    def _go(self, stages: list[Stage]) -> None:
        for stage in stages:
            entry = self._begin(stage.name, stage.does)
            watch = self._watch(self._seconds(stage))
            try:
                entry["proved"] = stage.act(self._world, watch)
            finally:
                entry["seconds"] = round(watch.spent, 1)
                self._record.document.update(
                    run=self._world.run_id, price=self._world.price, findings=self._world.findings
                )
            entry["state"] = "passed"
            self._tell(f"  {entry['proved']} ({entry['seconds']:.0f} s)")
            self._look(stage.name)
            self._record.document.update(attempts=self._attempts())
            self._record.write()
            if self._record.document["firstBroken"]:
                return

    def _attempts(self) -> list[Json]:
        """How each attempt to train ended, and why; it shows what the disturbance cost."""
        wanted = ("number", "nodes", "resumedFrom", "outcome", "reason")
        try:
            return [{name: one.get(name) for name in wanted} for one in self._world.attempts]
        except CliError:
            return list(self._record.document.get("attempts") or [])

    def _begin(self, name: StageName, does: str) -> Json:
        self._world.stage_began(name)
        entry: Json = {"name": name, "state": "running", "startedAt": now_text()}
        self._record.document["stages"].append(entry)
        # A kill in this stage must find the cluster's name in the file.
        self._record.write()
        self._tell(f"[{name}] {does}")
        return entry

    def _account_for(self, stopped: BaseException | None) -> None:
        """Write down why the stages stopped, and what was seen then."""
        if isinstance(stopped, Interrupted):
            self._tell(f"Stopped by {stopped}; everything is taken down now.")
            self._world.forget()
            self._stopped(
                "interrupted", f"It was stopped by {stopped} in stage {self._world.stage}."
            )
        elif isinstance(stopped, InvalidInput):
            self._stopped("refused", _brief(stopped), stopped)
        elif stopped is not None:
            self._failed(_as_problem(stopped))

    def _failed(self, problem: CliError) -> None:
        world, document = self._world, self._record.document
        world.stage_failed(problem)
        self._tell(f"  failed: {problem}")
        self._look(world.stage)
        if document["firstBroken"] is None:
            words = (
                f"Stage {world.stage} failed, and no assumption that first-light can see "
                f"explains it. {_brief(problem)}"
            )
            document.update(verdict="failed", words=words)
        self._stopped(document["verdict"], document["words"], problem)

    def _stopped(self, verdict: str, words: str, problem: CliError | None = None) -> None:
        document = self._record.document
        if document["stages"] and document["stages"][-1]["state"] == "running":
            document["stages"][-1].update(
                state="failed" if problem else "interrupted",
                **({"problem": problem.as_json()} if problem else {}),
            )
        document.update(verdict=verdict, words=words)
        self._keep_evidence()

    def _keep_evidence(self) -> None:
        if self._made:
            self._record.document.update(evidence=evidence(self._world))
        self._write()

    # Looks

    def _look(self, stage: StageName) -> None:
        self._world.forget()
        document = self._record.document
        for look in self._looks:
            if stage not in look.after:
                continue
            seen = self._see(look)
            before = document["assumptions"].get(seen.assumption)
            if _weaker(before, seen):
                continue
            document["assumptions"][seen.assumption] = {**seen.as_json(), "stage": stage}
            if seen.verdict != "held" and (before is None or before["verdict"] != seen.verdict):
                self._tell(f"  {seen.assumption} {seen.verdict}: {seen.evidence}")
            if seen.verdict == "broken" and document["firstBroken"] is None:
                words = (
                    f"{seen.assumption} of docs/aws-assumptions.md does not hold: "
                    f"{seen.evidence}. {seen.remedy}"
                ).rstrip()
                document.update(verdict="broken", firstBroken=seen.assumption, words=words)
                if self._world.failure is None:
                    self._keep_evidence()

    def _see(self, look: Look) -> Seen:
        try:
            return look.see(self._world)
        except (NotAnswered, CliError) as error:
            return Seen(look.assumption, "not-seen", f"nobody could look: {error}")
        # The look itself has a defect, so its assumption counts as not seen.
        except Exception as error:  # noqa: BLE001
            return Seen(
                look.assumption,
                "not-seen",
                f"the look itself failed: {type(error).__name__}: {error}",
            )

    # The end

    def _clean(self, *, force: bool) -> None:
        """Report what goes wrong here, and go on with what can still be done."""
        if not self._made:
            self._record.document.update(nothingLeft=True)
            return
        most = PATIENCE * self._teardown_seconds
        patience = min(most, self._limits.get("teardown", self._limits.get(ALL, most)))
        kept: list[str] = []

        def prove(watch: Watch) -> str:
            words, found = nothing_left(self._world, watch)
            kept.extend(found)
            return words

        self._last(
            "teardown",
            self._teardown_seconds,
            "taking everything down",
            lambda watch: tear_down(
                self._world,
                watch,
                lambda words: self._tell(f"  {words}"),
                force=force,
                patience=patience,
            ),
        )
        proof: float = LOCAL_PROOF_SECONDS if self._world.local else PROOF_SECONDS
        proof = min(proof, self._limits.get("nothing-left", proof))
        done = self._last("nothing-left", proof, "proving that nothing is left", prove)
        for words in kept:  # with its real name, which the file leaves out
            self._tell(f"  kept: {words}")
        self._record.document.update(nothingLeft=done, kept=kept)

    def _last(
        self, name: StageName, seconds: float, does: str, act: Callable[[Watch], str]
    ) -> bool:
        document = self._record.document
        self._world.stage_began(name)
        entry: Json = {"name": name, "state": "running", "startedAt": now_text()}
        document["stages"].append(entry)
        self._write()
        self._tell(f"[{name}] {does}")
        watch = self._watch(seconds)
        try:
            entry.update(proved=act(watch), state="passed")
            self._tell(f"  {entry['proved']}")
        except Exception as error:  # noqa: BLE001 - the teardown is still proved
            problem = _as_problem(error)
            self._world.stage_failed(problem)
            entry.update(state="failed", problem=problem.as_json())
            self._tell(f"  failed: {problem}")
            before = document["words"] if document["verdict"] != "running" else ""
            verdict = "failed" if document["verdict"] == "running" else document["verdict"]
            document.update(verdict=verdict, words=f"{before} {_brief(problem)}".strip())
        entry["seconds"] = round(watch.spent, 1)
        self._look(name)
        self._write()
        return bool(entry["state"] == "passed")

    def _conclude(self) -> None:
        document = self._record.document
        if document["verdict"] == "running":
            verdicts = [one["verdict"] for one in document["assumptions"].values()]
            words = (
                f"Every stage passed; {verdicts.count('held')} assumptions held, "
                f"{verdicts.count('not-seen')} could not be seen."
            )
            document.update(verdict="held", words=words)
        self._write()

    def _write(self) -> None:
        """Write the file; if that is not possible any more, the teardown goes on."""
        try:
            self._record.write()
        except CliError as error:
            self._tell(str(error))


def _as_problem(error: BaseException) -> CliError:
    if isinstance(error, CliError):
        return error
    if isinstance(error, NotAnswered):
        return CliError(
            "AWS did not answer as it should",
            str(error),
            f"Allow {error.operation}" if error.forbidden else "Try again",
        )
    return CliError(
        "first-light itself failed", f"{type(error).__name__}: {error}", "Report it with the file"
    )


def _brief(problem: CliError) -> str:
    """The detail without the log that it may end with, which is among the evidence.

    Of a lifecycle script's log the line that says why is kept.
    """
    first, *log = str(problem).splitlines() or [""]
    why = next((line.strip() for line in log if "FAILED in step" in line), None)
    words = first.rstrip(".:") if why is None else f"{first.rstrip('.:')}: {why.rstrip('.')}"
    return f"{words}. {problem.next_step.rstrip('.')}."


def _weaker(before: Json | None, seen: Seen) -> bool:
    """Whether an earlier answer is stronger: broken before held, and held before not-seen."""
    order = ("not-seen", "held", "broken")
    return before is not None and order.index(seen.verdict) < order.index(before["verdict"])
