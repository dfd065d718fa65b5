"""What a part needs it gets when it is made: nobody sets another object's attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.support.repository import ROOT

MEMBERS = ("layers", "functions", "node_agent", "job_library", "trainers", "cli", "localcloud")
SETTERS = ("setattr", "delattr", "__setattr__", "__delattr__")


class Write(NamedTuple):
    """A line that writes an attribute of another object than its own."""

    path: str
    line: int
    what: str


#: Path and what is written there -> why it is right.
ALLOWED: dict[tuple[str, str], str] = {
    # Libraries that know no other way.
    ("node_agent/build_packages.py", "entry.external_attr"): "zipfile",
    ("cli/trainyard_cli/examples.py", "command.epilog"): "typer",
    ("cli/trainyard_cli/reasons.py", "command.callback"): "typer",
    ("cli/trainyard_cli/reasons.py", "saying.__annotations__"): "typer",
    ("localcloud/sam_on_moto/speed/partitions.py", "entry.hash_key"): "moto",
    ("localcloud/sam_on_moto/speed/partitions.py", "entry.range_key"): "moto",
    ("localcloud/sam_on_moto/speed/partitions.py", "entry.attrs"): "moto",
    ("node_agent/build_packages.py", "entry.compress_type"): "zipfile",
    ("layers/core/trainyard/backends/training_job/source.py", "entry.size"): "tarfile",
    ("layers/core/trainyard/backends/training_job/source.py", "entry.mode"): "tarfile",
    ("job_library/trainyard_container/git_code.py", "member.type"): "tarfile",
    ("job_library/trainyard_container/git_code.py", "member.linkname"): "tarfile",
    ("job_library/trainyard_container/git_code.py", "member.size"): "tarfile",
    ("job_library/trainyard_container/git_code.py", "member.mode"): "tarfile",
    ("node_agent/trainyard_agent/daemon.py", "threading.excepthook"): "threading",
    ("job_library/trainyard_job/transformers.py", "control.should_save"): "transformers",
    ("job_library/trainyard_job/transformers.py", "control.should_training_stop"): "transformers",
    ("job_library/trainyard_job/transformers.py", "control.should_evaluate"): "transformers",
    ("trainers/trainyard_trainers/launch/elastic.py", "config.start_method"): "torch",
    ("trainers/trainyard_trainers/launch/elastic.py", "config.signals_to_handle"): "torch",
    ("trainers/trainyard_trainers/llm/convert.py", "parameter.data"): "torch",
    ("trainers/trainyard_trainers/llm/lora.py", "setattr(module)"): "torch",
    ("trainers/trainyard_trainers/parallel/cross_entropy.py", "ctx.weight_dtype"): "torch",
    ("trainers/trainyard_trainers/parallel/shared_adamw.py", "parameter.data"): "torch",
    ("trainers/trainyard_trainers/parallel/shared_adamw.py", "parameter.grad"): "torch",
    ("trainers/trainyard_trainers/parallel/torch_backend.py", "parameter.grad"): "torch",
    ("trainers/trainyard_trainers/parallel/torch_backend.py", "model.model.embed_tokens.sparse"): (
        "torch"
    ),
    ("trainers/trainyard_trainers/parallel/nxd_backend.py", "setattr(parameter)"): "NxD's mark",
    ("trainers/trainyard_trainers/translate/vocabulary.py", "tokenizer.pre_tokenizer"): (
        "tokenizers"
    ),
    ("trainers/trainyard_trainers/translate/vocabulary.py", "tokenizer.decoder"): "tokenizers",
    ("localcloud/sam_on_moto/functions/step_functions.py", "thread.daemon"): "threading.Timer",
    ("localcloud/sam_on_moto/wire/server.py", "self._server.daemon_threads"): "socketserver",
    ("localcloud/trainyard_local/machines/bridge_server.py", "self._server.daemon_threads"): (
        "socketserver"
    ),
    # A library's part is replaced, or given what the library leaves out.
    ("trainers/trainyard_trainers/launch/program.py", "sys.argv"): "as for a program of its own",
    ("trainers/trainyard_trainers/launch/program.py", "sys.excepthook"): "Python's",
    ("trainers/trainyard_trainers/launch/own_log.py", "sys.stdout"): "Python's",
    ("trainers/trainyard_trainers/launch/own_log.py", "sys.stderr"): "Python's",
    ("trainers/trainyard_trainers/launch/own_log.py", "sys.__stdout__"): "Python's",
    ("trainers/trainyard_trainers/launch/own_log.py", "sys.__stderr__"): "Python's",
    ("trainers/trainyard_trainers/launch/elastic.py", "subprocess_handler.Popen"): "torchrun's",
    ("trainers/trainyard_trainers/launch/elastic.py", "meetings.barrier"): "torchrun's",
    ("trainers/trainyard_trainers/launch/launchers/accelerate.py", "state.PartialState.__init__"): (
        "accelerate's"
    ),
    ("trainers/trainyard_trainers/launch/loopback.py", "rendezvous.TCPStore"): "torch's",
    ("trainers/trainyard_trainers/parallel/torch_backend.py", "block.forward"): "checkpointed",
    ("localcloud/sam_on_moto/moto_patches/pinned.py", "setattr(owner)"): "the one way to hook moto",
    ("localcloud/sam_on_moto/speed/lean.py", "setattr(owner)"): "put back after an import",
    ("localcloud/sam_on_moto/speed/transactions.py", "Table.__deepcopy__"): "moto's tables",
    ("localcloud/sam_on_moto/speed/transactions.py", "setattr(twin)"): "the copy of a moto table",
    ("localcloud/sam_on_moto/functions/step_functions.py", "event.error_name"): "moto's event",
    ("localcloud/sam_on_moto/functions/step_functions.py", "event.event_type"): "moto's event",
    ("localcloud/sam_on_moto/functions/step_functions.py", "event.event_details"): "moto's event",
    ("localcloud/sam_on_moto/iam/gate.py", "role.access_key_id"): "keys of moto's assumed role",
    ("localcloud/sam_on_moto/iam/gate.py", "role.secret_access_key"): "keys of moto's assumed role",
    ("localcloud/sam_on_moto/iam/gate.py", "role.session_token"): "keys of moto's assumed role",
    ("localcloud/sam_on_moto/iam/gate.py", "error.code"): "moto's error",
    ("localcloud/sam_on_moto/iam/gate.py", "error.description"): "moto's error",
    ("localcloud/sam_on_moto/template/resources.py", "rule.targets"): "moto's rule",
    ("localcloud/trainyard_local/hyperpod/service.py", "setattr(SageMakerResponse)"): (
        "operations that moto lacks"
    ),
    ("localcloud/trainyard_local/sagemaker/operations.py", "setattr(SageMakerResponse)"): (
        "operations that moto lacks"
    ),
    ("localcloud/trainyard_local/sessions/service.py", "setattr(SimpleSystemManagerResponse)"): (
        "operations that moto lacks"
    ),
    (
        "localcloud/trainyard_local/parallelcluster/send_command.py",
        "setattr(SimpleSystemManagerResponse)",
    ): ("operations that moto lacks"),
    # A thread's own variables.
    ("localcloud/sam_on_moto/speed/partitions.py", "_query.items"): "threading.local",
    ("localcloud/sam_on_moto/speed/transactions.py", "_transaction.open"): "threading.local",
    # Between the training loop and its tasks, every step.
    ("trainers/trainyard_trainers/ddp/train.py", "turn.sums"): "what Turn says that a task does",
    ("trainers/trainyard_trainers/loop/loop.py", "turn.sums"): "a turn of its own",
    ("trainers/trainyard_trainers/loop/loop.py", "self.requests.checkpoint"): "taken from it",
    ("trainers/trainyard_trainers/translate/train.py", "self.stream.position"): "a restored stream",
}


def is_record(node: ast.AST) -> bool:
    """A dataclass that may change: its fields are for whoever holds it."""
    if not isinstance(node, ast.ClassDef):
        return False
    decorators = [ast.unparse(item) for item in node.decorator_list]
    return any(item.startswith("dataclass") and "frozen=True" not in item for item in decorators)


def record_fields(trees: list[ast.Module]) -> set[str]:
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {
        line.target.id
        for record in nodes
        if is_record(record)
        for line in getattr(record, "body", [])
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def is_own(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def writes(tree: ast.Module, fields: set[str], path: str = "") -> Iterator[Write]:
    """Attributes of other objects than `self` that are written, but for fields of records."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            record = isinstance(node.value, ast.Name) and node.attr in fields
            if not record and not is_own(node.value):
                yield Write(path, node.lineno, ast.unparse(node))
        elif isinstance(node, ast.Call):
            setter = ast.unparse(node.func).rpartition(".")[2]
            if setter in SETTERS and not is_own(node.args[0]):
                yield Write(path, node.lineno, f"{setter}({ast.unparse(node.args[0])})")


@pytest.fixture(scope="module")
def found() -> list[Write]:
    """Records count in the code of their own member only."""
    all_of_them = []
    for member in MEMBERS:
        paths = [path.relative_to(ROOT) for path in sorted((ROOT / member).rglob("*.py"))]
        trees = {
            str(path): ast.parse((ROOT / path).read_text())
            for path in paths
            if "build" not in path.parts
        }
        fields = record_fields(list(trees.values()))
        all_of_them += [
            write for path, tree in trees.items() for write in writes(tree, fields, path)
        ]
    return all_of_them


def test_what_a_part_needs_it_gets_when_it_is_made(found: list[Write]) -> None:
    unknown = [
        f"{write.path}:{write.line}: {write.what}"
        for write in found
        if (write.path, write.what) not in ALLOWED
    ]
    assert not unknown, f"give it when the object is made, or let it do it itself: {unknown}"


def test_what_is_allowed_is_there(found: list[Write]) -> None:
    there = {(write.path, write.what) for write in found}
    assert sorted(set(ALLOWED) - there) == []


@pytest.mark.parametrize(
    "line",
    [
        "self._jobs.table = 1",
        "jobs.table: int = 1",
        "self._jobs.count += 1",
        "a, jobs.table = b",
        "for jobs.table in b: pass",
        "with b as jobs.table: pass",
        "del jobs.table",
        "setattr(jobs, name, 1)",
        "object.__setattr__(jobs, name, 1)",
    ],
)
def test_an_attribute_that_is_set_from_outside_is_found(line: str) -> None:
    assert list(writes(ast.parse(line), {"count"}))


@pytest.mark.parametrize(
    "line", ["self._table = 1", "attempt.count += 1", "setattr(self, name, 1)"]
)
def test_an_objects_own_attribute_and_a_records_field_are_not(line: str) -> None:
    assert not list(writes(ast.parse(line), {"count"}))
