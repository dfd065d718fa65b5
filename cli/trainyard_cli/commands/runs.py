"""`trainyard run ...`: submit, look at, follow, cancel, resume and export runs."""

from __future__ import annotations

import typer

from .filters import TAKES_LABELS
from .options import TAKES_ARGUMENTS
from .run_end import cancel, resume
from .run_export import export
from .run_follow import watch
from .run_list import label, list_runs, priority
from .run_logs import logs
from .run_metrics import metrics
from .run_rerun import rerun
from .run_show import events, show
from .run_submit import submit

app = typer.Typer(no_args_is_help=True, help="Runs: one training job's whole life.")
app.command(context_settings=TAKES_ARGUMENTS)(submit)
app.command(context_settings=TAKES_ARGUMENTS)(rerun)
app.command("ls")(list_runs)
app.command(context_settings=TAKES_LABELS)(label)
app.command(context_settings=TAKES_LABELS)(priority)
app.command()(show)
app.command()(watch)
app.command()(events)
app.command()(logs)
app.command()(metrics)
app.command()(cancel)
app.command()(resume)
app.command()(export)
