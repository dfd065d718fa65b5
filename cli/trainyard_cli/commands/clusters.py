"""`trainyard cluster ...` and `trainyard node ...`."""

from __future__ import annotations

import typer

from .cluster_change import start, stop, update
from .cluster_life import create, delete, show
from .cluster_list import list_clusters
from .cluster_settings import keep, label, limits
from .filters import TAKES_LABELS
from .node_change import reboot, replace
from .node_list import list_nodes

clusters = typer.Typer(no_args_is_help=True, help="Clusters: node groups on a backend.")
nodes = typer.Typer(no_args_is_help=True, help="Nodes of a cluster.")
clusters.command()(create)
clusters.command()(update)
clusters.command()(stop)
clusters.command()(start)
clusters.command()(keep)
clusters.command("ls")(list_clusters)
clusters.command(context_settings=TAKES_LABELS)(label)
clusters.command()(limits)
clusters.command()(show)
clusters.command()(delete)
nodes.command("ls")(list_nodes)
nodes.command()(replace)
nodes.command()(reboot)
