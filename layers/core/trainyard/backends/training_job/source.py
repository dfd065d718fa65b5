"""The archive that SageMaker's training toolkit unpacks in every container: our entry and the
packages that it needs, from the layers. The same files give the same bytes on every machine, so the
archive is named by its hash and goes up once.
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import trainyard_contracts

#: What `sagemaker_program` names.
ENTRY = "trainyard_entry.py"
#: What the container takes of the contracts: the images have no pydantic.
_CONTRACTS = (
    "__init__.py", "diagnosis.py", "diagnosis_launches.py", "diagnosis_rest.py",
    "diagnosis_sources.py", "diagnosis_verdict.py", "diagnosis_words.py", "places.py",
    "signatures.py",
)  # fmt: skip
#: The variable that says to `bootstrap` where the archive is.
SOURCE = "TRAINYARD_SOURCE"
#: Where the toolkit unpacks it, too.
CODE = "/opt/ml/code"
#: A stored block of deflate (RFC 1951, 3.2.4).
_MOST_BLOCK_BYTES = 65535


class SourceIncomplete(RuntimeError):
    """The function was deployed without a layer that containers need."""


@dataclass(frozen=True)
class SourceFiles:
    """Directories of the packages, and the entry."""

    entry: Path
    container: Path
    contracts: Path
    trainers: Path
    job_library: Path

    @classmethod
    def of_layers(cls) -> SourceFiles:
        """Where the layers lie (/opt in a Lambda), found by a package that is always in a layer."""
        contracts = Path(trainyard_contracts.__file__).parent
        opt = contracts.parents[1]
        return cls(
            opt / ENTRY,
            opt / "trainyard_container",
            contracts,
            opt / "trainyard_trainers",
            opt / "trainyard_job",
        )

    def files(self) -> dict[str, Path]:
        """Every file by its name in the archive. Raises SourceIncomplete."""
        found = {ENTRY: self.entry}
        found |= {f"trainyard_contracts/{name}": self.contracts / name for name in _CONTRACTS}
        for package in (self.container, self.trainers, self.job_library):
            for path in _sources(package):
                found[f"{package.name}/{path.relative_to(package).as_posix()}"] = path
        for path in found.values():
            if not path.is_file():
                raise SourceIncomplete(_lacking(path))
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Source:
    """`name` is of the object in S3."""

    name: str
    sha256: str
    body: bytes


def build(files: SourceFiles) -> Source:
    """Raises SourceIncomplete."""
    body = _stored_gzip(_tar(files.files()))
    digest = sha256(body).hexdigest()
    return Source(f"source-{digest}.tar.gz", digest, body)


def bootstrap(python: str = "python3") -> list[str]:
    """ContainerEntrypoint of a job whose container starts our entry itself, so that the signal of
    StopTrainingJob reaches it: the toolkit's `train` does not pass SIGTERM on. The archive's S3 URI
    is in the variable SOURCE. Each argument has 256 characters at most.
    """
    lines = (
        "import os,sys,tarfile,boto3",
        f"b,k=os.environ['{SOURCE}'][5:].split('/',1)",
        "d=sys.argv[1]",
        "boto3.client('s3').download_file(b,k,d+'.tar')",
        "tarfile.open(d+'.tar').extractall(d)",
        "os.execv(sys.executable,[sys.executable,d+'/'+sys.argv[2]])",
    )
    return [python, "-c", ";".join(lines), CODE, ENTRY]


def _sources(tree: Path) -> Iterator[Path]:
    found = [
        path
        for path in sorted(tree.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
    if not found:
        raise SourceIncomplete(_lacking(tree))
    yield from found


def _lacking(path: Path) -> str:
    return (
        f"{path} is not there; template.yaml must give this function the trainers and job library "
        "layers"
    )


def _tar(files: dict[str, Path]) -> bytes:
    """Names, bytes and nothing of this machine."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, path in files.items():
            body = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o644
            tar.addfile(entry, io.BytesIO(body))
    return made.getvalue()


def _stored_gzip(body: bytes) -> bytes:
    """gzip without compression: versions of zlib compress the same bytes to different ones."""
    blocks = [body[at : at + _MOST_BLOCK_BYTES] for at in range(0, len(body), _MOST_BLOCK_BYTES)]
    made = bytearray(b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff")
    for number, block in enumerate(blocks, 1):
        made += bytes([number == len(blocks)])
        made += struct.pack("<HH", len(block), len(block) ^ 0xFFFF) + block
    return bytes(made) + struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)
