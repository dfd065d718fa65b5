"""The one stack of a local cloud: made at its start, given another version of its code later."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sam_on_moto.template import cloudformation, sam
from sam_on_moto.template.cloudformation import Stack
from sam_on_moto.template.parts import Parts
from sam_on_moto.template.resources import Maker


class Deployment:
    """A template, its parameters, and the stack that came of it.

    Code lies below `<state dir>/functions`.
    """

    def __init__(self, state_dir: Path, parameters: Mapping[str, str]) -> None:
        self._code = state_dir / "functions"
        self._parameters = parameters
        self._parts: Parts
        self._stack: Stack
        self._versions = 0
        self._lock = threading.Lock()

    def translated(self, template: Path) -> dict[str, Any]:
        """The template as CloudFormation, its code staged, and checked. Raises TemplateError."""
        translated = sam.load(template, self._parameters, self._staged, "us-east-1")
        cloudformation.check(translated, self._parameters)
        return translated

    def make(self, parts: Parts, translated: Mapping[str, Any], template: Path) -> dict[str, Any]:
        """Make the stack; returns the contents of local.json. Raises TemplateError."""
        self._parts = parts
        self._stack = cloudformation.deploy(
            parts.cloud, parts.cloud.naming.stack, translated, self._parameters, self._maker()
        )
        self._warm()
        return self._facts(template)

    def update(self, template: Path) -> None:
        """Run the template's code from now on; what was made and what runs stays.

        Raises TemplateError where the template changes more than an update can. Then everything is
        as it was.
        """
        with self._lock:
            self._versions += 1
            self._stack = cloudformation.update(
                self._parts.cloud,
                self._stack,
                self.translated(template),
                self._parameters,
                self._maker(),
            )
            self._warm()

    def first(self, type_name: str) -> str | None:
        """The physical id of the stack's first resource of this type."""
        found = self._stack.of_type(type_name)
        return found[0].physical_id if found else None

    @property
    def _staged(self) -> Path:
        return self._code / (f"staged-{self._versions}" if self._versions else "staged")

    def _maker(self) -> Maker:
        opt = self._code / "opt"
        return Maker(self._parts, self._staged, lambda layers: sam.merge_layers(layers, opt))

    def _warm(self) -> None:
        """Whoever calls a function for the first time must not wait for an interpreter to start.

        A function that only a schedule calls may.
        """
        functions, schedules = self._parts.functions, self._parts.schedules
        functions.warm({name: 1 for name in functions.names() if not schedules.calls(name)})

    def _facts(self, template: Path) -> dict[str, Any]:
        cloud, stack, gateway = self._parts.cloud, self._stack, self._parts.gateway
        api = self.first("AWS::ApiGatewayV2::Api")
        return {
            "pid": os.getpid(),
            "endpoint": cloud.endpoint,
            "apiUrl": gateway.url(api) if api else None,
            "region": cloud.region,
            "accountId": cloud.account_id,
            "accessKeyId": cloud.access.owner.access_key_id,
            "secretAccessKey": cloud.access.owner.secret_access_key,
            "stateDir": str(cloud.state_dir),
            "template": str(template),
            "stack": stack.name,
            "outputs": dict(stack.outputs),
            "resources": {r.logical_id: r.physical_id for r in stack.resources.values()},
        }
