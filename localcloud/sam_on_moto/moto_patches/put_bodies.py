"""Takes the body of a PUT as it is, whatever its content type says.

Only a POST carries a form of AWS's query protocol. `curl --data-binary` says "form" of any file,
and moto then parses it, so an object lost its bytes.
"""

from __future__ import annotations

from typing import Any

from sam_on_moto.moto_patches.pinned import replace


def install() -> None:
    """Hook moto's requests; once per process."""
    from moto.core.request import Request
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    def body(self: Any, environ: dict[str, Any]) -> str | None:
        if environ["REQUEST_METHOD"] == "PUT":
            return None
        found: str | None = original(self, environ)
        return found

    def is_form(self: Any) -> bool:
        return self.method != "PUT" and bool(self.environ.get("CONTENT_TYPE"))

    original = replace(
        DomainDispatcherApplication, "_get_body", body, parameters=("self", "environ")
    )
    replace(Request, "want_form_data_parsed", property(is_form))
