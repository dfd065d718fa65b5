"""Keeps what moto computes anew for every request and every state, though it never changes."""

from __future__ import annotations

import functools
import json
import threading
from collections import deque
from typing import Any

from sam_on_moto.moto_patches.pinned import replace, wrap


def install() -> None:
    """Hook moto; once per process."""
    from moto.core import responses
    from moto.dynamodb.comparisons import ConditionExpressionParser
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication
    from moto.stepfunctions.parser.asl.utils import json_path

    wrap(
        DomainDispatcherApplication, "get_backend_for_host", functools.lru_cache(256)
    )  # it looks at a hundred directories
    wrap(responses, "method_names_from_class", functools.cache)
    wrap(json_path, "parse", functools.lru_cache(512))
    _install_parsed_machines()

    def lex(self: Any) -> Any:
        # The parser puts its nodes together in place: it gets new ones each time.
        return deque(node._replace(children=[]) for node in lexed(self.condition_expression))

    @functools.lru_cache(256)
    def lexed(expression: str) -> list[Any]:
        return list(original(ConditionExpressionParser(expression, None, None)))

    original = replace(
        ConditionExpressionParser, "_lex_condition_expression", lex, parameters=("self",)
    )


def _install_parsed_machines() -> None:
    """Parse each definition once.

    moto parses it with ANTLR for every execution, which takes hundreds of ms. The parsed program
    can be shared: it keeps its state in the environment.
    """
    from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

    lock = threading.Lock()

    def cached(original: Any) -> Any:
        parse = functools.lru_cache(64)(original)

        def one_at_a_time(definition: str) -> Any:
            with lock:
                # The parser takes its time for every space.
                return parse(json.dumps(json.loads(definition), separators=(",", ":")))

        return staticmethod(one_at_a_time)

    wrap(AmazonStateLanguageParser, "parse", cached)
