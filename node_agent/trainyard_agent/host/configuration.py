"""The agent's configuration file, read once at start, and the paths that follow from it."""

from __future__ import annotations

from pathlib import Path

from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig


def load(path: str) -> AgentConfig:
    """Read agent.json. Raises OSError or pydantic.ValidationError, both naming what is wrong."""
    return AgentConfig.model_validate_json(Path(path).read_bytes())


def load_key(config: AgentConfig) -> bytes:
    """The cluster's key. Raises ValueError if it is too short to authenticate anybody."""
    key = Path(config.key_file).read_bytes().strip()
    if len(key) < 16:
        raise ValueError(
            f"{config.key_file}: the cluster's key must have at least 16 bytes, it has {len(key)}; "
            "run on_create.sh again"
        )
    return key


def runs_root(config: AgentConfig) -> Path:
    """Where all runs live on the shared filesystem."""
    return Path(config.shared_root) / "trainyard" / "runs"


def run_dir(config: AgentConfig, run_id: str) -> Path:
    return runs_root(config) / run_id


def attempt_dir(config: AgentConfig, run_id: str, attempt: int) -> Path:
    return run_dir(config, run_id) / places.ATTEMPTS / str(attempt)
