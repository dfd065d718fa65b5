"""Finds steps and losses in what training programs print.

Every pattern here is of bounded repeats, so a line costs as much time as it is long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

#: Of a longer line only so much is read, from its beginning.
LINE_CHARACTERS = 2000
LARGEST_STEP = 10**12
_NUMBER = r"[-+]?(?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
#: `step 12`, `step=12`, `"step": 12`, `global_step: 12`, `iteration       10/     100`; but neither
#: `steps: 2048` nor `max_step=1000`, which say how many there will be.
_STEP = re.compile(
    r"(?i)(?<![A-Za-z0-9_/-])(?<!per )(?<!max )(?<!total )(?<!every )(?<!save )(?<!eval )"
    r"(?:global[_ -]|train(?:ing)?[_ /-]|trainer/global_|optim(?:izer)?[_ -])?"
    r"(?:step|iteration|iter|num_updates|update)[\"']?\s{0,3}[:=#\[|]?\s{0,12}[\"']?"
    r"(\d{1,12})(?![\d.]*\d|[A-Za-z%])"
)
#: `loss 0.3`, `loss=0.3`, `'loss': 0.3`, `train_loss:0.3`, `lm loss: 1.0E+01`; not `val_loss`.
_LOSS = re.compile(
    r"(?i)(?<![A-Za-z0-9_/])(?<!val )(?<!eval )(?<!test )(?<!valid )(?<!validation )"
    r"(?:train(?:ing)?[_ /-]|lm[_ ]|total[_ ]|avg[_ ]|mean[_ ])?loss(?:/train)?[\"']?"
    rf"\s{{0,6}}(?:[:=|]|is|of)?\s{{0,6}}[\"']?({_NUMBER}|nan|inf)(?![A-Za-z0-9])"
)
#: tqdm and what looks like it: ` 12%|#2   | 12/100 [00:01<00:08, 10.2it/s]`, Keras's
#: `12/100 [===>....]`, which has no percentage.
_BAR = re.compile(
    r"(?:(?<!\d)(?P<percent>\d{1,3})%\|[^|]{0,400}\|\s{0,12})?"
    r"(?<![\d./])(?P<number>\d{1,12})/(?P<total>\d{1,12})\s{0,3}\["
)
# Words before a bar that is not one of training.
_NO_TRAINING = re.compile(
    r"(?i)(?:load|download|map|filter|tokeniz|fetch|generat|resolv|extract|sav|writ|eval|valid|"
    r"sanity|predict|test|creat|prepar|preproc|pack|group|shard|upload|quantiz|compil|warm)"
)
_EPOCH = re.compile(
    r"(?i)(?<![A-Za-z0-9_])epoch[\"']?\s{0,3}[:=#(\[]?\s{0,6}[\"']?(\d{1,9})(?:\.\d{1,20})?(?![\dA-Za-z])"
)
#: The epoch before a bar is a label of the bar's; one in quotes is another line's.
_BAR_EPOCH = re.compile(rf"(?<![\"']){_EPOCH.pattern.removeprefix('(?i)')}", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """What one line says. `kind`: how sure it is that the step is one of training."""

    kind: int
    step: int | None
    loss: float | None


# A step and a loss in one line; a bar; a step alone; an epoch; a loss alone.
SURE, BAR, ALONE, EPOCH, NO_STEP = 4, 3, 2, 1, 0


#: So many bars in a row that leap are the training's own.
ODD_BARS = 20
#: A bar that came so far, in percent, is done: one that is erased at its end may not print that.
DONE_PERCENT = 90


@dataclass
class Bars:
    """Counts the steps of bars: one that begins again is another epoch of the same training.

    A bar that is not done hides all others: those of evaluation come in between. What another
    stream tore is passed over: `26`, a line of its own, `3/300 [` is no bar at 3.
    """

    total: int = 0
    last: int = 0
    before: int = 0
    _odd: int = 0
    _with_percent: int = 0
    """The total of the newest bar that had its percentage."""

    def step(self, number: int, total: int, percent: int | None, epoch: int | None) -> int | None:
        """The step in all that a bar says; None if it is torn, or not the one that is followed."""
        if total <= 0 or number > total or self._is_torn(number, total, percent):
            return None
        if percent is not None:
            self._with_percent = total
        if epoch is not None:
            return epoch * total + number
        if self.total in (0, total):
            begins = self.last > number and self._is_next(number, percent)
            if self._is_another_rank(number, total) or (number < self.last and not begins):
                return None
        else:
            begins = True
            if self.last < self.total or (percent is None and number > 1):
                return None
        if begins:
            self.before += self.last
        self.total, self.last, self._odd = total, number, 0
        return self.before + number

    def _is_torn(self, number: int, total: int, percent: int | None) -> bool:
        """Before the number is its percentage; it fits, but for how it was rounded."""
        if percent is None:
            return total == self._with_percent
        return abs(percent * total - 100 * number) > total

    def _is_next(self, number: int, percent: int | None) -> bool:
        """The bar begins again, and it was done: else its program was started again."""
        done = 100 if percent is None else DONE_PERCENT
        return number <= 1 and 100 * self.last >= done * self.total

    def _is_another_rank(self, number: int, total: int) -> bool:
        """In a later epoch, a bar that leaps by half of its length is one of a rank that is an
        epoch behind. If it goes on so, lines were missed.
        """
        leaps = self.before > 0 and total > 4 and number > self.last + total // 2
        self._odd = self._odd + 1 if leaps else 0
        return leaps and self._odd <= ODD_BARS


@dataclass
class Steps:
    """The newest step and loss of one attempt's log, line by line."""

    step: int | None = None
    loss: float | None = None
    _kind: int = NO_STEP
    _bars: Bars = field(default_factory=Bars)

    def read(self, lines: Iterable[str]) -> bool:
        """Take lines up; whether the step or the loss is another one now."""
        before = self.step, self.loss
        for line in lines:
            said = self._said(line[:LINE_CHARACTERS])
            if said is not None:
                self._take(said)
        return (self.step, self.loss) != before

    def _take(self, said: Said) -> None:
        if said.loss is not None and (said.kind == SURE or self._kind != SURE):
            self.loss = said.loss
        if said.step is None or said.kind < self._kind:
            return
        if said.kind > self._kind:
            self._kind, self.step = said.kind, said.step
        elif self.step is None or said.step > self.step:
            # Ranks print in turn, and evaluation counts by itself: training only goes forward.
            self.step = said.step

    def _said(self, line: str) -> Said | None:
        lowered = line.lower()
        if not any(word in lowered for word in ("step", "iter", "loss", "epoch", "update", "[")):
            return None
        text = _COLOURS.sub("", line)
        loss = _loss(text)
        bar = self._bar(text)
        step = _first(_STEP, text)
        if step is not None and loss is not None and bar is None:
            return Said(SURE, step, loss)
        if bar is not None:
            return Said(BAR, bar, loss)
        if step is not None:
            return Said(ALONE, step, None)
        epoch = _first(_EPOCH, text)
        if epoch is not None:
            return Said(EPOCH, epoch, loss)
        return Said(NO_STEP, None, loss) if loss is not None else None

    def _bar(self, text: str) -> int | None:
        found = _BAR.search(text)
        if found is None or _NO_TRAINING.search(text, 0, found.start()):
            return None
        number, total = int(found["number"]), int(found["total"])
        percent = int(found["percent"]) if found["percent"] else None
        return self._bars.step(number, total, percent, _first(_BAR_EPOCH, text[: found.start()]))


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    """The first number that the pattern finds."""
    match = pattern.search(text)
    value = int(match.group(1)) if match else None
    return value if value is not None and value <= LARGEST_STEP else None


def _loss(text: str) -> float | None:
    match = _LOSS.search(text)
    return finite(match.group(1)) if match else None


def finite(text: str) -> float | None:
    """The number; None for one that is none, or no JSON."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
