"""Words of a job's spec: names, texts, secrets and files that its program is given."""

from typing import Annotated

from pydantic import BeforeValidator, StringConstraints, WithJsonSchema

from . import spec_rules
from .base import matching, relative_path, told

_PLAIN = told(r"^[^\x00]*$", "must not contain the NUL character")
_LONGEST = 4096
#: What a program is given is text. YAML and JSON know numbers, so a number becomes its text.
TextOrNumber = Annotated[
    str,
    StringConstraints(pattern=_PLAIN, max_length=_LONGEST),
    BeforeValidator(spec_rules.text_of),
    # The same for what is sent and for what is answered, so that the API has one JobSpec.
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _PLAIN, "maxLength": _LONGEST},
                {"type": "number"},
            ]
        }
    ),
]
EnvironmentName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "must be a variable name: letters, digits and underscores, not starting with a digit",
    ),
]


ModuleName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        "must be the name of a Python module such as package.train",
        max_length=256,
    ),
]


def plain_files(files: dict[str, str]) -> dict[str, str]:
    for path in files:
        relative_path(path)
    if problem := spec_rules.file_and_directory(files.keys()):
        raise ValueError(problem)
    return files


def free_names(environment: dict[str, str]) -> dict[str, str]:
    # LD_LIBRARY_PATH is allowed: the image and the user know where NCCL's EFA plugin lies.
    ours = ("TRAINYARD_", "SLURM_", "LD_")
    for name in environment:
        if name != "LD_LIBRARY_PATH" and (name.startswith(ours) or name in ("PATH", "PYTHONPATH")):
            raise ValueError(f"'{name}' is set by Trainyard or the node; choose another name")
    return environment


SecretReference = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9/_+=.@-]{1,512}(:[A-Za-z0-9_.-]{1,128})?$",
        "must be the name of a secret in Secrets Manager, not its ARN; of one that holds JSON also "
        "name:key",
    ),
]
