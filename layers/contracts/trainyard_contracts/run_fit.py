"""Whether a cluster can run what a run asks for beside its job: its data, and fields it refuses."""

from .base import Strict
from .cluster_specs import ClusterSpec
from .inputs import InputSpec, S3Prefix, is_s3, misplaced


def given(spec: Strict, field: str) -> bool:
    """Whether a field, as the wire names it, differs from what it is if nobody gives it."""
    found: object = spec
    default: object = None
    for part in field.split("."):
        if not isinstance(found, Strict):
            return False
        names = {known.alias or name: name for name, known in type(found).model_fields.items()}
        known = type(found).model_fields[names[part]]
        default = known.get_default(call_default_factory=True)
        found = getattr(found, names[part])
    return found != default


def unfit_input(one: InputSpec, cluster: ClusterSpec) -> tuple[str, str] | None:
    """Why the cluster cannot give a program this: the field of the input, and a sentence."""
    if problem := misplaced(one.path, cluster.shared_path):
        return "path", problem
    if not is_s3(one.source):
        return None
    source = S3Prefix.of(one.source)
    if one.mode == "mount" and cluster.mounted(source) is None:
        return (
            "mode",
            f"cluster '{cluster.name}' has not mounted {source}; name it in s3Mounts of the "
            "cluster's spec, or use mode 'copy'",
        )
    if not cluster.may_copy(source):
        return (
            "source",
            f"cluster '{cluster.name}' may not read {source}; name it in jobInputs of the "
            "cluster's spec",
        )
    return None
