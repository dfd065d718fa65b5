"""Writes scenes of a terminal as one SVG that plays by itself: styles only, no script, no font."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

#: Of a letter and a line, in the picture's own units.
WIDE, HIGH = 8.4, 18
MARGIN, TITLE = 12, 34
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

Line = tuple[Segment, ...]


@dataclass(frozen=True)
class Scene:
    """What a terminal shows for so long."""

    lines: tuple[Line, ...]
    seconds: float


def drawn(console: Console, what: RenderableType) -> tuple[Line, ...]:
    """As the console would show it now."""
    lines = console.render_lines(what, pad=False)
    return tuple(tuple(piece for piece in line if not piece.control) for line in lines)


class _Lines:
    """Each line once, whatever scenes show it; and a class for each look of a text."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.looks: dict[str, str] = {}

    def id_of(self, line: Line) -> str | None:
        """None of an empty line."""
        pieces, column = [], 0
        for piece in line:
            width = cell_len(piece.text)
            if piece.text.strip():
                pieces.append(self._text(piece, column, width))
            column += width
        body = "".join(pieces)
        return self.ids.setdefault(body, f"l{len(self.ids)}") if body else None

    def _text(self, piece: Segment, column: int, width: int) -> str:
        look = self._look(piece.style or Style.null())
        # The width is given, so that columns stand below each other in any font.
        return (
            f'<text class="{look}" x="{column * WIDE:g}" textLength="{width * WIDE:g}">'
            f"{escape(piece.text)}</text>"
        )

    def _look(self, style: Style) -> str:
        colour = style.color.get_truecolor(THEME) if style.color else THEME.foreground_color
        words = f"fill:{colour.hex}"
        words += ";font-weight:bold" if style.bold else ""
        words += ";font-style:italic" if style.italic else ""
        words += ";opacity:.6" if style.dim else ""
        return self.looks.setdefault(words, f"s{len(self.looks)}")


def animated(scenes: Sequence[Scene], title: str, columns: int) -> str:
    """The SVG. Who asked their system for less motion sees the last scene, which stands still."""
    rows = max(len(scene.lines) for scene in scenes)
    wide, high = columns * WIDE + 2 * MARGIN, rows * HIGH + TITLE + MARGIN
    lines = _Lines()
    shown = [
        f'<g transform="translate(0 {number * rows * HIGH:g})">{_placed(lines, scene)}</g>'
        for number, scene in enumerate(scenes)
    ]
    last = -(len(scenes) - 1) * rows * HIGH
    styles = [
        f"text{{font:14px {FONT};white-space:pre}}",
        *(f".{name}{{{words}}}" for words, name in lines.looks.items()),
        f".strip{{animation:play {sum(scene.seconds for scene in scenes):.1f}s step-end infinite}}",
        f"@keyframes play{{{_keyframes(scenes, rows)}}}",
        "@media(prefers-reduced-motion:reduce)"
        f"{{.strip{{animation:none;transform:translateY({last:g}px)}}}}",
    ]
    defs = "".join(f'<g id="{name}">{body}</g>' for body, name in lines.ids.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" role="img">',
        f"<title>{escape(title)}</title><style>{''.join(styles)}</style><defs>{defs}</defs>",
        f'<rect width="{wide:g}" height="{high:g}" rx="8" fill="{THEME.background_color.hex}"/>',
        *(
            f'<circle cx="{20 + 18 * number}" cy="17" r="6" fill="{colour}"/>'
            for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<text x="{wide / 2:g}" y="22" text-anchor="middle" fill="#9a9a9a">{escape(title)}</text>',
        f'<svg x="{MARGIN}" y="{TITLE}" width="{columns * WIDE:g}" height="{rows * HIGH:g}">',
        f'<g class="strip">{"".join(shown)}</g></svg></svg>',
    ]
    return "\n".join(parts) + "\n"


def _placed(lines: _Lines, scene: Scene) -> str:
    ids = [(row, lines.id_of(line)) for row, line in enumerate(scene.lines)]
    return "".join(
        f'<use href="#{name}" y="{row * HIGH + 14:g}"/>' for row, name in ids if name is not None
    )


def _keyframes(scenes: Iterable[Scene], rows: int) -> str:
    kept = list(scenes)
    whole = sum(scene.seconds for scene in kept)
    words, gone = [], 0.0
    for number, scene in enumerate(kept):
        words.append(
            f"{100 * gone / whole:.3f}%{{transform:translateY({-number * rows * HIGH:g}px)}}"
        )
        gone += scene.seconds
    return "".join(words)
